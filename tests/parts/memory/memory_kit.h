// Memory attention alone, in f64, against plain attention over chosen pairs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {

constexpr int64_t kMemoryWidth = 8, kMemoryHeads = 2;

/// A mixer of width 8 with 2 heads, without positions. Mixers with the same parameters have the same values.
struct MixerAlone {
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
  MixerAlone(const std::string& type, const std::string& options)
      : mixer(bench.make<Mixer>(type, {.hidden_size = kMemoryWidth, .max_position_embeddings = 64},
                                cat("{num_attention_heads: ", kMemoryHeads, ", ", options, "}"))) {
    kit::randomise(bench.parameters(), 7);
  }
  Tensor operator()(const Tensor& x) const { return mixer->forward({x, Sequences::single(x.rows())}).value(); }
};
struct MemoryAlone : MixerAlone {
  explicit MemoryAlone(const std::string& memory) : MixerAlone("memory_attention", "memory: " + memory) {}
};
struct AttentionAlone : MixerAlone {
  explicit AttentionAlone(const std::string& field = "full") : MixerAlone("attention", "field: " + field) {}
};

inline Tensor rows(int64_t n, uint64_t seed = 3) { return kit::normal({n, kMemoryWidth}, DType::f64, seed); }

/// Both have the weights of the other where these go by the same names.
inline void share(MixerAlone& to, MixerAlone& from) {
  for (Parameter& p : to.bench.parameters().all())
    if (const Parameter* same = from.bench.parameters().find(p.name)) copy_into(p.master.value(), same->master.value());
}

/// What heads make of x, [T, 8] each.
struct Made {
  Tensor q, k, v;
  Made(MixerAlone& of, const Tensor& x)
      : q(kit::product(x, of.bench["part.heads.q.weight"])),
        k(kit::product(x, of.bench["part.heads.k.weight"])),
        v(kit::product(x, of.bench["part.heads.v.weight"])) {}
  double dot(int64_t i, int64_t j, int64_t head) const {
    double sum = 0;
    for (int64_t c = 0; c < kMemoryWidth / kMemoryHeads; ++c) {
      const int64_t at = head * kMemoryWidth / kMemoryHeads + c;
      sum += value_at(q, i * kMemoryWidth + at) * value_at(k, j * kMemoryWidth + at);
    }
    return sum;
  }
};

/// Attention in which query i of a head sees the tokens seen(i, head).
inline Tensor attention_over(MixerAlone& of, const Tensor& x,
                             const std::function<std::vector<int64_t>(int64_t i, int64_t head)>& seen) {
  const Made m(of, x);
  const Tensor context = zeros({x.rows(), kMemoryWidth}, DType::f64);
  const int64_t d = kMemoryWidth / kMemoryHeads;
  for (int64_t i = 0; i < x.rows(); ++i)
    for (int64_t head = 0; head < kMemoryHeads; ++head) {
      double sum = 0;
      const std::vector<int64_t> pairs = seen(i, head);
      for (const int64_t j : pairs) sum += std::exp(m.dot(i, j, head) / std::sqrt(double(d)));
      for (const int64_t j : pairs)
        for (int64_t c = head * d; c < (head + 1) * d; ++c)
          set_value(context, i * kMemoryWidth + c,
                    value_at(context, i * kMemoryWidth + c) +
                        std::exp(m.dot(i, j, head) / std::sqrt(double(d))) / sum * value_at(m.v, j * kMemoryWidth + c));
    }
  return kit::product(context, of.bench["part.output.weight"]);
}

}  // namespace lithe
