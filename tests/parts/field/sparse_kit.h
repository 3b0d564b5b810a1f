// Attention with a field alone, and the pairs it shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {

struct FieldAttention {
  explicit FieldAttention(const std::string& field, bool causal = true, int64_t heads = 1)
      : heads(heads),
        mixer(bench.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 400, .causal = causal},
                                cat("{num_attention_heads: ", heads, ", field: ", field, "}"))) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  /// Which pairs of T tokens meet: [heads][T][T].
  std::vector<std::vector<std::vector<int>>> pairs(int64_t T, uint64_t seed = 1) const {
    const MixerMaps maps = mixer->maps({Var(kit::normal({T, 8}, DType::f64, seed)), Sequences::single(T), nullptr});
    std::vector<std::vector<std::vector<int>>> out(static_cast<size_t>(heads));
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < T; ++i) {
        out[size_t(h)].emplace_back();
        for (int64_t j = 0; j < T; ++j)
          out[size_t(h)].back().push_back(value_at(maps.weights, (h * T + i) * T + j) > 0);
      }
    return out;
  }
  /// Pairs of the first head.
  int64_t count(int64_t T) const {
    int64_t sum = 0;
    const auto all = pairs(T);
    for (const auto& row : all[0]) sum += std::count(row.begin(), row.end(), 1);
    return sum;
  }
  /// Keys, from 1, that query i, from 1, of T sees.
  std::vector<int> seen(int64_t T, int64_t i, int64_t head = 0) const {
    std::vector<int> out;
    const auto all = pairs(T)[size_t(head)][size_t(i - 1)];
    for (size_t j = 0; j < all.size(); ++j)
      if (all[j]) out.push_back(int(j) + 1);
    return out;
  }
  kit::Bench bench;
  int64_t heads;
  std::unique_ptr<Mixer> mixer;
};

/// Attention to another text with a field alone.
struct FieldCrossing {
  explicit FieldCrossing(const std::string& field, int64_t heads = 1)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = 8, .causal = false, .cross = true},
                                cat("{num_attention_heads: ", heads, ", field: ", field, "}"))) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x, const Tensor& source) const {
    const Rows rows{Var(source), Sequences::single(source.rows())};
    return mixer->forward({.x = Var(x), .sequences = Sequences::single(x.rows()), .source = &rows}).value();
  }
  /// Tokens of a source of `keys`, from 1, that token i, from 1, of `queries` sees: those that change its row.
  std::vector<int> seen(int64_t queries, int64_t keys, int64_t i) const {
    const Tensor x = kit::normal({queries, 8}, DType::f64, 1), source = kit::normal({keys, 8}, DType::f64, 2),
                 before = (*this)(x, source);
    std::vector<int> out;
    for (int64_t j = 0; j < keys; ++j) {
      const Tensor moved = clone(source);
      for (int64_t c = 0; c < 8; ++c) set_value(moved, j * 8 + c, value_at(moved, j * 8 + c) + 0.5);
      const Tensor after = (*this)(x, moved);
      for (int64_t c = 0; c < 8; ++c)
        if (value_at(after, (i - 1) * 8 + c) != value_at(before, (i - 1) * 8 + c)) {
          out.push_back(int(j) + 1);
          break;
        }
    }
    return out;
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

/// Both give the same rows for a text of T tokens.
inline void expect_same_field(const std::string& a, const std::string& b, bool causal, int64_t T = 9) {
  const Tensor x = kit::normal({T, 8}, DType::f64, 1);
  FieldAttention one(a, causal), other(b, causal);
  // Parameters of fields aside, both have the same names.
  for (const Parameter& p : one.bench.parameters().all())
    if (Parameter* same = other.bench.parameters().find(p.name)) copy_into(same->master.value(), p.master.value());
  EXPECT_LE(kit::largest_difference(one(x), other(x)), 1e-12) << a << " and " << b;
}

/// A state that keeps labels of keys gives the bits of one whose labels are formed anew from all its keys, as a pass of
/// training does it: whatever becomes of its sequences. `labels`: bytes of them a token.
inline void expect_keeps_labels(const std::string& field, int64_t labels, int64_t heads = 1) {
  FieldAttention attention(field, true, heads);
  const Mixer& mixer = *attention.mixer;
  const StateShape shape{2, 200, DType::f64, Device::cpu};
  std::unique_ptr<State> states[] = {mixer.make_state(shape), mixer.make_state(shape)};
  std::vector<int64_t> tokens{0, 0};
  uint64_t seed = 1;
  const auto feed = [&](const std::vector<int64_t>& counts) {
    const Tensor x = kit::normal({counts[0] + counts[1], 8}, DType::f64, ++seed);
    const Sequences sequences({0, counts[0], counts[0] + counts[1]}, tokens);
    for (size_t b = 0; b < 2; ++b) tokens[b] += counts[b];
    const auto rows = [&](State& state) { return mixer.forward({Var(x), sequences, &state}).value(); };
    const NoGrad no_grad;
    const Tensor kept = rows(*states[0]);
    const Rehearsal training;
    EXPECT_EQ(kit::bit_difference(kept, rows(*states[1])), "") << field << " after " << tokens[0] << ", " << tokens[1];
    const int64_t row = 2 * 8 * size_of(DType::f64) + labels;
    EXPECT_EQ(states[0]->bytes(), (tokens[0] + tokens[1]) * row) << field;
    EXPECT_EQ(mixer.state_bytes(tokens, DType::f64), states[0]->bytes()) << field;
  };
  const auto each = [&](auto f) {
    for (const auto& state : states) f(*state);
  };
  feed({70, 3});
  feed({1, 1});
  feed({20, 62});
  each([](State& state) { state.reorder({0, 0}); });  // two beams
  tokens[1] = tokens[0];
  feed({1, 1});
  feed({1, 1});
  each([](State& state) { state.truncate(0, 66), state.truncate(1, 5); });
  tokens = {66, 5};
  feed({1, 40});
  each([](State& state) { state.reorder({1, 0}); });
  std::swap(tokens[0], tokens[1]);
  {  // tokens whose rows nobody wants
    const Tensor x = kit::normal({3, 8}, DType::f64, ++seed);
    const NoGrad no_grad;
    each([&](State& state) { mixer.skip({Var(x), Sequences({0, 1, 3}, tokens), &state}); });
    tokens[0] += 1, tokens[1] += 2;
  }
  auto restored = mixer.make_state(shape);
  restored->restore(states[0]->save());
  states[0] = std::move(restored);
  feed({1, 1});
}

/// Tokens one by one give the rows of the whole, and the state forgets what it says.
inline void expect_decodes(const std::string& field, int64_t T = 150) {
  FieldAttention attention(field);
  const Tensor x = kit::normal({T, 8}, DType::f64, 1), whole = attention(x);
  const auto state = attention.mixer->make_state({1, T, DType::f64, Device::cpu});
  for (int64_t at = 0; at < T;) {
    const int64_t n = at == 0 ? T / 2 : 1;
    const Tensor y =
        attention.mixer->forward({Var(clone(x.slice(at, at + n))), Sequences({0, n}, {at}), state.get()}).value();
    EXPECT_LE(kit::largest_difference(y, clone(whole.slice(at, at + n))), 1e-12) << field << " at " << at;
    at += n;
    EXPECT_EQ(state->bytes(), attention.mixer->state_bytes({at}, DType::f64));
  }
}

}  // namespace lithe
