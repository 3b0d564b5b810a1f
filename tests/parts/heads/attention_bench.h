// The attention mixer with one kind of heads, alone, in f64 and with generic weights.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe::kit {

constexpr int64_t kBenchWidth = 6, kBenchHeads = 3, kBenchHeadDim = 2;

constexpr const char* kBenchRoles[] = {"q", "k", "v"};

inline const Tensor& bench_rows() {
  static const Tensor x = normal({5, kBenchWidth}, DType::f64, 1);
  return x;
}

struct AttentionBench {
  /// `heads` as in a recipe; `more` further options of the mixer; rotary positions on demand, with options `rotation`.
  explicit AttentionBench(const std::string& heads, int64_t d = kBenchWidth, int64_t h = kBenchHeads,
                          const std::string& more = "", bool rotary = false, bool causal = true,
                          const std::string& rotation = "{}") {
    if (rotary)
      position = bench.make<Position>("rotary", {.hidden_size = d, .max_position_embeddings = 9}, rotation, "position");
    mixer = bench.make<Mixer>(
        "attention", {.hidden_size = d, .max_position_embeddings = 9, .causal = causal, .position = position.get()},
        cat("{num_attention_heads: ", h, ", heads: ", heads, more.empty() ? "" : ", ", more, "}"));
    randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  /// The rows of one sequence, the first `prefill` at once into a state and each other on its own.
  Tensor decoded(const Tensor& x, int64_t prefill = 1) const {
    const auto state = mixer->make_state({.sequences = 1, .capacity = x.rows(), .dtype = x.dtype()});
    std::vector<Tensor> rows;
    for (int64_t at = 0, n = prefill; at < x.rows(); at += n, n = 1)
      rows.push_back(mixer->forward({Var(x.slice(at, at + n)), Sequences({0, n}, {at}), state.get()}).value());
    return concatenate(rows);
  }
  /// The value of parameter part.<name>.
  Tensor operator[](const std::string& name) { return bench["part." + name]; }
  int64_t parameters() { return bench.parameters().count(); }
  /// Gradients of sum(dy . result), by parameter.
  Tensor gradient(const std::string& name, const Tensor& x, const Tensor& dy) {
    for (Parameter& p : bench.parameters().all()) p.master.ref()->grad = Tensor();
    Tape tape;
    tape.backward(mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}), clone(dy));
    return bench.parameters().find("part." + name)->master.grad();
  }

  Bench bench;
  std::unique_ptr<Position> position;
  std::unique_ptr<Mixer> mixer;
};

/// Columns [head d_h, (head + 1) d_h) of a matrix.
inline Tensor head_columns(const Tensor& w, int64_t head, int64_t head_dim) {
  std::vector<int64_t> columns;
  for (int64_t c = 0; c < head_dim; ++c) columns.push_back(head * head_dim + c);
  return columns_of(w, columns);
}

}  // namespace lithe::kit
