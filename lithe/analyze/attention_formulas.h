// What mixers cost by the formulas of the sources: scalars and FLOPs of one layer. One multiply-add is 2 FLOPs, and
// only matrix products count. docs/cost-model.md says which published figures come out and which do not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lithe::analyze {

enum class MixerKind {
  mha,  // "standard" where the sources compare mixers
  gqa,
  mqa,
  skv,
  el_att,
  sha,
  mhe_add,
  mhe_mul,
  mlp,
  approx,       // elementwise squares in the second order (spec: diag), the form that the sources count
  approx_full,  // all products in the second order
  nonapprox,
  rnd_emb_qk,
  fixed_seq_qk,
  static_emb_qk,
};
enum class OutputKind { none, dense, hadamard };

/// By the names of recipes: mixers and heads, outputs. None where the sources give no formula.
std::optional<MixerKind> mixer_kind(const std::string& name);
std::optional<OutputKind> output_kind(const std::string& name);

/// d columns of the hidden rows, h heads of d_h columns (0: d / h), h_kv of them with keys and values (gqa).
struct MixerShape {
  int64_t width = 0, heads = 1, head_dim = 0, kv_heads = 1;
  int64_t channels() const { return head_dim ? head_dim : width / heads; }
  int64_t context() const { return heads * channels(); }
};

/// Columns that projections make of a hidden row: d times as many scalars, and one bias each where there are biases.
int64_t projected_columns(MixerKind kind, const MixerShape& s);
/// Scalars without the output projection ("QKV") and without biases.
int64_t mixer_parameters(MixerKind kind, const MixerShape& s);
/// d h d_h (dense), 2d (hadamard), 0.
int64_t output_parameters(OutputKind kind, const MixerShape& s);

/// `published`: as the sources' table prints it. `exact`: what follows from the formulas of the mixers; the two differ
/// for approx (published as if there were one head, state updates left out) and for maps of a reference sequence
/// (published with one such sequence per text, and without its own queries and keys).
enum class Convention { exact, published };

/// Batch B, length L: tokens of each text, or what is in the cache when the next one is decoded, that one included.
struct Work {
  double batch = 1, length = 1;
};

/// FLOPs of B texts of L tokens without the output projection. All L^2 pairs of tokens count, also the hidden half.
double prefill_flops(MixerKind kind, const MixerShape& s, const Work& w, Convention c = Convention::exact);
/// FLOPs of one more token in each of B texts.
double decode_flops(MixerKind kind, const MixerShape& s, const Work& w, Convention c = Convention::exact);
/// FLOPs of the output projection for `rows` tokens: 2 d h d_h (dense), additions and 2d (hadamard), 0.
double output_flops(OutputKind kind, const MixerShape& s, double rows);

/// Additions of one row of a Hadamard transform of order d = m 2^k by butterflies and a base matrix of order m: d (m -
/// 1 + k). m is the smallest of 1, 12, 20, 28, 36 that fits; none: fails.
double hadamard_additions(int64_t d);

}  // namespace lithe::analyze
