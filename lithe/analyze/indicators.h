// Numbers that say how attention behaves, on explicit maps [TH 4.4.4].
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lithe::analyze {

/// The maps of one layer: `weights` [heads, L, L], row i has what token i takes from each token. Rows of causal maps
/// are zero behind i.
struct AttentionMaps {
  int64_t heads = 0, length = 0;
  std::span<const float> weights;
  bool causal = true;
  double at(int64_t head, int64_t i, int64_t j) const { return weights[size_t((head * length + i) * length + j)]; }
};

/// -sum a log a over the whole map, in nats, the mean over heads; 0 (every row on one token) to entropy_limit
/// (uniform).
double entropy(const AttentionMaps& maps);
double entropy_limit(int64_t length, bool causal = true);  // log L!, or L log L
/// Frobenius norm, the mean over heads; from the root of the L-th harmonic number (causal and uniform) or 1 (uniform)
/// to the root of L.
double concentration(const AttentionMaps& maps);
struct Range {
  double low = 0, high = 0;
  /// 0 at low, 1 at high; 0 when both are one.
  double of(double value) const { return high > low ? (value - low) / (high - low) : 0; }
};
Range concentration_range(int64_t length, bool causal = true);
/// The mean over the pairs i >= j (causal) or all pairs of the deviation between heads, population by default (`ddof`
/// 1: sample; 0 for one head).
double head_diversity(const AttentionMaps& maps, int ddof = 0);
/// What tokens take from the first one, the mean over tokens and heads.
double sink(const AttentionMaps& maps);
/// What tokens take from the one `back` before them, the mean over tokens that have it and over heads; NaN when none
/// has.
double local_focus(const AttentionMaps& maps, int64_t back);

constexpr int kIndicators = 8;
/// In this order everywhere: entropy, concentration, head diversity, sink, local focus 0 to 3.
struct Indicators {
  std::array<double, kIndicators> raw{};
  std::array<double, kIndicators> normalised{};  // entropy and concentration on their range
};
const std::array<const char*, kIndicators>& indicator_names();
const std::array<const char*, kIndicators>& indicator_keys();  // for JSON
Indicators indicators(const AttentionMaps& maps, int ddof = 0);

/// Entropy and concentration on the range that these layers span, in place of the theoretical one.
void normalise_empirically(std::vector<Indicators*> layers);

}  // namespace lithe::analyze
