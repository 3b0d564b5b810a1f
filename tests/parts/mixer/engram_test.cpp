#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/ngram_memory.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Memory {
  explicit Memory(const std::string& options, int64_t d = 4)
      : mixer(bench.make<Mixer>("engram", {.hidden_size = d, .max_position_embeddings = 40}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x, const std::vector<int>& ids, const Sequences& sequences) const {
    Pass pass;
    pass.give("tokens", kit::ids_of(ids));
    return mixer->forward({.x = Var(x), .sequences = sequences, .pass = pass}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

const char* const kSmall =
    "{max_ngram_size: 3, n_head_per_ngram: 2, n_embed_per_ngram: 4, num_buckets: 5, kernel_size: 2, seed: 3}";

// The formula, a number at a time.
TEST(EngramMixer, IsTheFormulaOfThePaper) {
  Memory memory(kSmall);
  const std::vector<int> ids{3, 1, 1, 4, 1, 5, 2};
  const Sequences sequences({0, 5, 7});
  const Tensor x = kit::normal({7, 4}, DType::f64, 1), got = memory(x, ids, sequences);
  const NgramHashes hashes = NgramHashes::of({.seed = 3, .max_size = 3, .heads = 2, .buckets = 5});
  const auto number = [&](const char* name, int64_t i) { return value_at(memory.bench[cat("part.", name)], i); };
  using Row = std::vector<double>;
  const auto rms = [&](const Row& row, const char* name) {
    double sum = 0;
    for (const double v : row) sum += v * v;
    Row out;
    for (size_t c = 0; c < row.size(); ++c)
      out.push_back(row[c] / std::sqrt(sum / double(row.size()) + 1e-6) * number(name, int64_t(c)));
    return out;
  };
  std::vector<Row> values, normed;
  for (int64_t n = 0; n < 7; ++n) {
    const int64_t begin = n < 5 ? 0 : 5;
    const Tensor recent = empty({1, 3}, DType::i32);
    for (int64_t k = 0; k < 3; ++k) recent.data<int32_t>()[k] = n - k >= begin ? ids[size_t(n - k)] : -1;
    const Tensor rows = ngram_memory_rows(recent, hashes);
    Row read, key, value, h;
    for (int64_t t = 0; t < 4; ++t)
      for (int64_t e = 0; e < 2; ++e) read.push_back(number("weight", rows.data<int32_t>()[t] * 2 + e));
    double s = 0;
    for (int64_t c = 0; c < 4; ++c) {
      double k = number("key.bias", c), v = number("value.bias", c);
      for (int64_t i = 0; i < 8; ++i)
        k += read[size_t(i)] * number("key.weight", i * 4 + c),
            v += read[size_t(i)] * number("value.weight", i * 4 + c);
      key.push_back(k), value.push_back(v), h.push_back(value_at(x, n * 4 + c));
    }
    const Row a = rms(key, "key_norm.weight"), b = rms(h, "query_norm.weight");
    for (size_t c = 0; c < 4; ++c) s += a[c] * b[c] / 2;  // sqrt(4)
    for (double& v : value) v /= 1 + std::exp(-std::copysign(std::sqrt(std::abs(s)), s));
    values.push_back(value), normed.push_back(rms(value, "convolution_norm.weight"));
    for (int64_t c = 0; c < 4; ++c) {  // dilation 3, the longest n-gram
      double sum = number("convolution.taps", c) * normed[size_t(n)][size_t(c)];
      if (n - 3 >= begin) sum += number("convolution.taps", 4 + c) * normed[size_t(n - 3)][size_t(c)];
      EXPECT_NEAR(value_at(got, n * 4 + c), value[size_t(c)] + sum / (1 + std::exp(-sum)), 1e-12) << n << " " << c;
    }
  }
}

TEST(EngramMixer, CountsParametersAndStates) {
  Memory memory(kSmall);
  // Primes 5, 7, 11, 13 of 2 numbers; two maps of 8 to 4 with biases; three norms; two taps.
  EXPECT_EQ(memory.bench.parameters().count(), 36 * 2 + 2 * (8 * 4 + 4) + 3 * 4 + 2 * 4);
  EXPECT_EQ(memory.mixer->state_bytes({5, 1}, DType::f32), 2 * (2 * 4 + 3 * 4 * 4));
  EXPECT_EQ(memory.mixer->make_state({2, 9, DType::f32})->bytes(), 2 * (2 * 4 + 3 * 4 * 4));
}

// What the convolution starts as adds nothing: y = v.
TEST(EngramMixer, StartsWithoutItsConvolution) {
  kit::Bench with, without;
  const std::string options = "n_head_per_ngram: 2, n_embed_per_ngram: 4, num_buckets: 5, ";
  const auto a = with.make<Mixer>("engram", {.hidden_size = 4}, "{" + options + "kernel_size: 4}"),
             b = without.make<Mixer>("engram", {.hidden_size = 4}, "{" + options + "kernel_size: 0}");
  Pass pass;
  pass.give("tokens", kit::ids_of({1, 2, 3, 1, 2}));
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const Sequences all = Sequences::single(5);
  EXPECT_EQ(kit::bit_difference(a->forward({.x = x, .sequences = all, .pass = pass}).value(),
                                b->forward({.x = x, .sequences = all, .pass = pass}).value()),
            "");
}

constexpr const char* kModel =
    "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 16, position: sinusoidal, mixer: "
    "{type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 8}, layers: {plain: {}, memory: "
    "{sub_layers: [{mixer: {type: engram, n_head_per_ngram: 2, n_embed_per_ngram: 4, num_buckets: 7}}, mixer, ffn]}}, "
    "layer_types: [plain, memory]}";

// Documents that are packed get the bits that they get alone, and decoding those of the whole.
TEST(EngramMixer, DocumentsDoNotLeakAndDecodingIsTheWhole) {
  Model model(kit::model_config(kModel), kit::kExact);
  kit::randomise(model.parameters(), 1);
  const kit::Batch packed = kit::random_batch({6, 3, 7}, model.config(), 4);
  const Tensor all = kit::forward(model, packed).value();
  for (int64_t b = 0; b < 3; ++b)
    EXPECT_EQ(kit::bit_difference(kit::forward(model, kit::alone(packed, b)).value(),
                                  clone(all.slice(packed.sequences.offset(b), packed.sequences.offset(b + 1)))),
              "");
  const kit::Batch one = kit::alone(packed, 2);
  const auto state = model.make_state(1, 7);
  for (int64_t t = 0; t < 7; ++t) {
    const Tensor row = kit::forward(model, clone(one.ids.slice(t, t + 1)), Sequences({0, 1}, {t}), state.get()).value();
    EXPECT_EQ(kit::close(row, clone(all.slice(9 + t, 10 + t)), 64), "");
    EXPECT_EQ(state->bytes(), model.state_bytes({t + 1}));
  }
}

TEST(EngramMixer, RefusesWhatItCannotDo) {
  const auto refused = [](const std::string& options) { return kit::error_of([&] { Memory{options}; }); };
  EXPECT_NE(refused("{n_embed_per_ngram: 9, n_head_per_ngram: 2}").find("multiple of n_head_per_ngram 2"),
            std::string::npos);
  EXPECT_NE(refused("{multipliers: [3, 5]}").find("give one for each token"), std::string::npos);
  EXPECT_NE(refused("{multipliers: [3, 4, 5]}").find("must be odd"), std::string::npos);
  EXPECT_NE(refused("{folded_ids: [0, 1]}").find("belong to fold: text"), std::string::npos);
  const auto model_refused = [](const std::string& more) {
    return kit::error_of([&] { Model(kit::model_config(kModel, more), kit::kMeta); });
  };
  EXPECT_NE(model_refused("architecture: encoder").find("engram"), std::string::npos);
  EXPECT_NE(model_refused("layers: {plain: {}, memory: {mixer: {type: engram}}}, stack: {type: layer_skip}")
                .find("set model.stack: plain"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
