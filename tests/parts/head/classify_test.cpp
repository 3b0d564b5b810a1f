#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/ngram.h"
#include "lithe/ops/pool.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Head> classify(kit::Bench& bench, int64_t d, int64_t classes, const std::string& options = "{}",
                               bool causal = false) {
  return bench.make<Head>("classify", {.vocab_size = 7, .hidden_size = d, .num_labels = classes, .causal = causal},
                          options);
}

Tensor with_bias(const Tensor& x, const Tensor& bias) {
  const Tensor out = clone(x);
  for (int64_t i = 0; i < out.numel(); ++i) set_value(out, i, value_at(x, i) + value_at(bias, i % x.cols()));
  return out;
}

// oracle: app.classify
TEST(ClassifyHead, CountsItsParameters) {
  const auto count = [](int64_t d, int64_t classes, const std::string& options) {
    kit::Bench bench(DType::f32, DType::f32, Device::meta);
    classify(bench, d, classes, options);
    return bench.parameters().count();
  };
  EXPECT_EQ(count(768, 2, "{}"), 590'592 + 1'538);  // RoBERTa's binary head
  for (const auto& [d, classes] : {std::array<int64_t, 2>{768, 2}, {5, 3}, {16, 1000}}) {
    EXPECT_EQ(count(d, classes, "{}"), d * d + d + d * classes + classes);
    EXPECT_EQ(count(d, classes, "{dense: false}"), d * classes + classes);
    EXPECT_EQ(count(d, classes, "{problem_type: regression, dense: false}"), d + 1);
  }
}

TEST(ClassifyHead, EqualsTheDefinition) {
  const Sequences sequences({0, 4, 5, 7});
  const Tensor x = kit::normal({7, 4}, DType::f64, 2);
  for (const std::string& pooling : kPoolings)
    for (const bool dense : {true, false}) {
      kit::Bench bench;
      const auto head = classify(bench, 4, 3, cat("{pooling: ", pooling, ", dense: ", dense ? "true" : "false", "}"));
      kit::randomise(bench.parameters(), 1);
      Tensor rows = clone(pool(Var(x), sequences, pooling).value());
      if (dense) {
        rows = with_bias(kit::product(rows, bench["part.dense.weight"]), bench["part.dense.bias"]);
        for (int64_t i = 0; i < rows.numel(); ++i) set_value(rows, i, std::tanh(value_at(rows, i)));
      }
      const Tensor want = with_bias(kit::product(rows, bench["part.out.weight"]), bench["part.out.bias"]);
      EXPECT_EQ(kit::close(head->logits({Var(x), sequences}).value(), want, 32), "") << pooling << dense;
      EXPECT_EQ(head->count(sequences).labels, 3);
      EXPECT_EQ(head->count(sequences).classes, 3);
    }
}

// A causal model's first row has seen only its first token.
TEST(ClassifyHead, PoolsTheRowThatHasSeenAllOfItsSequence) {
  const Sequences sequences({0, 4, 7});
  const Tensor x = kit::normal({7, 4}, DType::f64, 2);
  for (const bool causal : {true, false}) {
    kit::Bench bench, named;
    const auto head = classify(bench, 4, 3, "{}", causal),
               want = classify(named, 4, 3, causal ? "{pooling: last}" : "{pooling: cls}", causal);
    kit::randomise(bench.parameters(), 1);
    kit::copy_values(named.parameters(), bench.parameters());
    EXPECT_EQ(kit::bit_difference(head->logits({Var(x), sequences}).value(), want->logits({Var(x), sequences}).value()),
              "");
  }
}

TEST(ClassifyHead, ClassesMayBeRenumbered) {
  const std::vector<int64_t> order{2, 0, 1};  // class c was class order[c]
  kit::Bench bench, other;
  const auto head = classify(bench, 4, 3), renumbered = classify(other, 4, 3);
  kit::randomise(bench.parameters(), 1);
  kit::copy_values(other.parameters(), bench.parameters());
  kit::assign(other["part.out.weight"], kit::columns_of(bench["part.out.weight"], order));
  for (int64_t c = 0; c < 3; ++c)
    set_value(other["part.out.bias"], c, value_at(bench["part.out.bias"], order[size_t(c)]));
  const Sequences sequences({0, 2, 3, 5});
  const Tensor x = kit::normal({5, 4}, DType::f64, 2);
  EXPECT_EQ(kit::close(renumbered->logits({Var(x), sequences}).value(),
                       kit::columns_of(head->logits({Var(x), sequences}).value(), order), 8),
            "");
  const auto loss = [&](const Head& of, const std::vector<int>& labels) {
    return value_at(of.loss({Var(x), sequences}, {.labels = kit::ids_of(labels)}).value(), 0);
  };
  const double want = loss(*head, {0, 1, 2});
  EXPECT_NEAR(loss(*renumbered, {1, 2, 0}), want, 16 * 0x1p-53 * want);
}

TEST(ClassifyHead, LossIsTheCrossEntropyOfTheLogits) {
  kit::Bench bench;
  const auto head = classify(bench, 4, 3);
  kit::randomise(bench.parameters(), 1);
  const Sequences sequences({0, 2, 3, 5});
  const Var x(kit::normal({5, 4}, DType::f64, 2));
  const Tensor labels = kit::ids_of({2, -1, 0}), rows = empty({3}, DType::f64), want_rows = empty({3}, DType::f64);
  LossSums sums, want;
  head->loss({x, sequences}, {.labels = labels, .smoothing = 0.1, .scale = 2, .sums = &sums, .row_nll = rows});
  cross_entropy(head->logits({x, sequences}), labels, 0.1, 2, &want, want_rows);
  EXPECT_EQ(sums.loss, want.loss);
  EXPECT_EQ(sums.nll, want.nll);
  EXPECT_EQ(sums.labels, 2);
  EXPECT_EQ(kit::bit_difference(rows, want_rows), "");
}

TEST(ClassifyHead, ARegressionPredictsOneNumber) {
  kit::Bench bench;
  const auto head = classify(bench, 4, 1, "{problem_type: regression}");
  kit::randomise(bench.parameters(), 1);
  const Sequences sequences({0, 2, 3, 5});
  const Var x(kit::normal({5, 4}, DType::f64, 2));
  EXPECT_EQ(head->count(sequences).labels, 3);
  EXPECT_EQ(head->count(sequences).classes, 0);
  const Tensor predicted = head->logits({x, sequences}).value(), targets = kit::normal({3}, DType::f32, 3);
  ASSERT_EQ(predicted.shape(), (Shape{3, 1}));
  double want = 0;
  for (int64_t b = 0; b < 3; ++b) want += std::pow(value_at(predicted, b) - value_at(targets, b), 2);
  LossSums sums;
  const Var loss = head->loss({x, sequences}, {.labels = targets, .scale = 0.5, .sums = &sums});
  EXPECT_NEAR(value_at(loss.value(), 0), 0.5 * want, 8 * 0x1p-53 * want);
  EXPECT_EQ(sums.labels, 3);
  EXPECT_THROW(head->loss({x, sequences}, {.labels = targets, .row_nll = empty({3}, DType::f64)}), Error);
}

TEST(ClassifyHead, GradientsAgreeWithDifferences) {
  const Sequences sequences({0, 4, 5, 7});
  for (const std::string& pooling : kPoolings)
    for (const bool real : {true, false}) {
      kit::Bench bench;
      const auto head = classify(bench, 3, 4, cat("{pooling: ", pooling, real ? ", problem_type: regression}" : "}"));
      kit::randomise(bench.parameters(), 1);
      const Tensor labels = real ? kit::normal({3}, DType::f32, 3) : kit::ids_of({3, 0, -1});
      std::string where;
      EXPECT_LE(kit::gradient_error(
                    bench.parameters(),
                    [&](const std::vector<Var>& in) {
                      return std::vector<Var>{head->logits({in[0], sequences}),
                                              head->loss({in[0], sequences}, {.labels = labels, .scale = 0.7})};
                    },
                    {kit::normal({7, 3}, DType::f64, 2)}, &where),
                1e-7)
          << pooling << real << ": " << where;
    }
}

TEST(ClassifyHead, DropsOnlyInTrainingAndTwice) {
  const Tensor x = kit::normal({5, 32}, DType::f64, 2);
  for (const bool dense : {true, false}) {
    kit::Bench bench;
    const auto head = classify(bench, 32, 3, cat("{dropout: 0.5, dense: ", dense ? "true" : "false", "}"));
    const auto logits = [&] { return head->logits({Var(x), Sequences({0, 2, 5})}).value(); };
    const Tensor evaluated = logits();
    EXPECT_EQ(kit::bit_difference(logits(), evaluated), "");
    const Tape tape;
    EXPECT_NE(kit::bit_difference(logits(), evaluated), "");
  }
}

TEST(ClassifyHead, RefusesWhatItCannotBe) {
  const auto error = [](int64_t classes, const std::string& options) -> std::string {
    kit::Bench bench;
    try {
      classify(bench, 4, classes, options);
    } catch (const Error& e) {
      return cat(int(e.code()), " ", e.what());
    }
    return "no error";
  };
  EXPECT_NE(error(3, "{pooling: mena}").find("did you mean 'mean'?"), std::string::npos) << error(3, "{pooling: mena}");
  EXPECT_NE(error(3, "{problem_type: multi}").find("regression"), std::string::npos);
  EXPECT_EQ(error(0, "{}").substr(0, 2), "2 ") << error(0, "{}");
  EXPECT_NE(error(0, "{}").find("num_labels"), std::string::npos) << error(0, "{}");
}

// ---- over an encoder

struct ClassifyingEncoder {
  Model model;
  explicit ClassifyingEncoder(const std::string& pooling, const std::string& architecture = "encoder",
                              DType dtype = DType::f32)
      : model(kit::model_config(cat("{architecture: ", architecture,
                                    ", vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, "
                                    "max_position_embeddings: 12, mixer: {type: attention, num_attention_heads: 2}, "
                                    "tie_word_embeddings: false, num_labels: 3, head: {type: classify, pooling: ",
                                    pooling, "}}")),
              {.dtype = dtype, .compute = dtype, .trainable = true}) {
    kit::randomise(model.parameters(), 1);
  }
  Tensor logits(const Tensor& ids, const Sequences& sequences) const {
    return kit::logits(model, ids, sequences).value();
  }
};

// oracle: app.text_encode
TEST(ClassifyHead, ABatchIsItsSequencesAndDuplicatesAreIdentical) {
  for (const std::string& pooling : kPoolings) {
    const ClassifyingEncoder encoder(pooling);
    const Tensor ids = kit::ids_of({1, 2, 3, 4, 5, 9, 9, 1, 2, 3, 4, 5}), same = kit::ids_of({1, 2, 3, 4, 5});
    const Tensor got = encoder.logits(ids, Sequences({0, 5, 7, 12}));
    const auto row = [&](int64_t b) { return clone(got.slice(b, b + 1)); };
    EXPECT_EQ(kit::bit_difference(row(0), row(2)), "") << pooling;
    EXPECT_EQ(kit::bit_difference(encoder.logits(same, Sequences::single(5)), row(0)), "") << pooling;
    EXPECT_NE(kit::bit_difference(row(0), row(1)), "") << pooling;
  }
}

// h_0 reads all of an encoder's sequence; in a decoder the last row does, and the first reads itself alone.
TEST(ClassifyHead, WhatIsPooledDependsOnEveryToken) {
  for (const auto& [architecture, pooling, all] : {std::tuple{"encoder", "cls", true},
                                                   {"encoder", "auto", true},
                                                   {"encoder", "last", true},
                                                   {"decoder", "auto", true},
                                                   {"decoder", "cls", false}}) {
    ClassifyingEncoder encoder(pooling, architecture, DType::f64);
    const Tensor ids = kit::ids_of({3, 1, 4, 10, 5, 9, 2, 6});
    const Sequences sequences = Sequences::single(8);
    Tape tape;
    tape.backward(kit::loss(encoder.model, ids, kit::ids_of({1}), sequences, 0, 1));
    const Tensor table = encoder.model.parameters().find("embedding.weight")->master.grad();
    for (int64_t n = 0; n < 8; ++n) {
      double norm = 0;
      for (int64_t c = 0; c < 8; ++c) norm += std::abs(value_at(table, ids.data<int32_t>()[n] * 8 + c));
      EXPECT_EQ(norm > 1e-6, all || n == 0) << architecture << " " << pooling << ", token " << n << ": " << norm;
    }
    for (const int64_t absent : {0, 7, 8})
      for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(value_at(table, absent * 8 + c), 0);
  }
}

// The sum of the weights of a text's distinct words and pairs, over its tokens, times the scale, beside the rows.
TEST(ClassifyHead, NgramsAreALinearModelBesideTheRows) {
  const Sequences sequences({0, 4, 6});
  const Tensor x = kit::normal({6, 4}, DType::f64, 2);
  const auto read = std::make_shared<const ModelInput>(ModelInput{kit::ids_of({5, 6, 5, 6, 5, 2}), sequences});
  const Rows rows{.x = Var(x), .sequences = sequences, .read = read};
  constexpr int64_t kBuckets = 1000;
  kit::Bench bench;
  const auto head = classify(bench, 4, 3, "{dense: false, ngrams: 2, ngram_buckets: 1000, ngram_scale: 6}");
  EXPECT_TRUE(head->reads_tokens());
  EXPECT_EQ(bench.parameters().count(), 4 * 3 + 3 + kBuckets * 3);
  kit::Bench without;
  const auto plain = classify(without, 4, 3, "{dense: false}");
  kit::randomise(bench.parameters(), 4);
  for (const char* name : {"part.out.weight", "part.out.bias"})
    for (int64_t i = 0; i < bench[name].numel(); ++i) set_value(without[name], i, value_at(bench[name], i));
  const Tensor logits = head->logits(rows).value(), base = plain->logits({Var(x), sequences}).value();
  const Tensor words = distinct_ngrams({read->tokens, sequences.positions()}, 1, kBuckets),
               pairs = distinct_ngrams({read->tokens, sequences.positions()}, 2, kBuckets);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t n = sequences.offset(b); n < sequences.offset(b + 1); ++n)
        for (const Tensor& ids : {words, pairs})
          if (const int32_t id = ids.data<int32_t>()[n]; id >= 0)
            sum += value_at(bench["part.ngram.weight"], id * 3 + c);
      EXPECT_NEAR(value_at(logits, b * 3 + c), value_at(base, b * 3 + c) + 6 * sum / double(sequences.length(b)),
                  1e-12);
    }
  EXPECT_FALSE(plain->reads_tokens());
  EXPECT_THROW(head->logits({Var(x), sequences}), Error);
  EXPECT_THROW(classify(bench, 4, 3, "{ngrams: 1}", true), Error);  // causal
}

TEST(ClassifyHead, ADistillationTokenHasClassesOfItsOwn) {
  const Sequences sequences({0, 4, 6});
  const Tensor x = kit::normal({6, 4}, DType::f64, 2);
  kit::Bench bench;
  const auto head = classify(bench, 4, 3, "{dense: false, distillation: true}");
  kit::randomise(bench.parameters(), 4);
  EXPECT_EQ(bench.parameters().count(), 2 * (4 * 3 + 3));
  const Tensor logits = head->logits({Var(x), sequences}).value();
  const auto of = [&](const std::string& name, int64_t row, int64_t c) {
    double sum = value_at(bench["part." + name + ".bias"], c);
    for (int64_t k = 0; k < 4; ++k)
      sum += value_at(x, row * 4 + k) * value_at(bench["part." + name + ".weight"], k * 3 + c);
    return sum;
  };
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(value_at(logits, b * 3 + c),
                  (of("out", sequences.offset(b), c) + of("distillation", sequences.offset(b) + 1, c)) / 2, 1e-12);
  EXPECT_THROW(classify(bench, 4, 3, "{distillation: true}"), Error);
  EXPECT_THROW(head->logits({Var(x), Sequences({0, 1, 6})}), Error);
}

}  // namespace
}  // namespace lithe
