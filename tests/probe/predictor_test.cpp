// Predictors on frozen rows, control labels and description lengths.
#include "lithe/probe/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/probe/control.h"
#include "tests/support/model_kit.h"

namespace lithe::probe {
namespace {

// n words of width d; two layers of independent numbers.
WordRows random_rows(int64_t n, int64_t d, uint64_t seed) {
  std::vector<std::vector<float>> layers(2);
  for (uint64_t l = 0; l < 2; ++l)
    for (int64_t i = 0; i < n * d; ++i) layers[l].push_back(float(random_normal({seed, l}, uint64_t(i))));
  return {layers, d};
}

// Each word is an instance; its label is which of the first `classes` numbers is largest.
Dataset separable(const WordRows& rows, int64_t classes, int64_t layer = 0) {
  Dataset out{&rows, {}};
  for (int64_t w = 0; w < rows.words(); ++w) {
    const float* x = rows.row(layer, w);
    out.instances.push_back({.first = {w, w + 1}, .labels = {int32_t(std::max_element(x, x + classes) - x)}});
  }
  return out;
}

double right(const Outcome& outcome, const Dataset& data) {
  double sum = 0;
  for (size_t i = 0; i < data.instances.size(); ++i) sum += outcome.classes[i] == data.instances[i].labels[0];
  return sum / double(data.instances.size());
}

// oracle: probe.harness
TEST(Predictor, LearnsWhatIsThereAndGuessesWhatIsNot) {
  const WordRows rows = random_rows(1200, 8, 1), unseen = random_rows(400, 8, 2);
  const Dataset train = separable(rows, 3), test = separable(unseen, 3);
  for (const std::string kind : {"linear", "mlp"}) {
    const PredictorConfig config{.kind = kind, .hidden = 32, .epochs = 40, .learning_rate = 1e-2};
    EXPECT_GT(right(Predictor(config, train, 3, {0}).predict(test), test), 0.93) << kind;
    Dataset random = train, random_test = test;
    for (Dataset* data : {&random, &random_test})
      for (size_t i = 0; i < data->instances.size(); ++i)
        data->instances[i].labels = {int32_t(random_below({5, data == &random}, i, 2))};
    // Two labels by chance: 400 words within 4 deviations of one half.
    EXPECT_NEAR(right(Predictor(config, random, 2, {0}).predict(random_test), random_test), 0.5, 4 * 0.5 / 20) << kind;
  }
}

TEST(Predictor, RepeatsToTheBit) {
  const WordRows rows = random_rows(300, 6, 1);
  const Dataset train = separable(rows, 3);
  const PredictorConfig config{.epochs = 2};
  EXPECT_EQ(Predictor(config, train, 3, {0}).predict(train).nats, Predictor(config, train, 3, {0}).predict(train).nats);
  PredictorConfig other = config;
  other.seed = 2;
  EXPECT_NE(Predictor(config, train, 3, {0}).predict(train).nats, Predictor(other, train, 3, {0}).predict(train).nats);
}

TEST(Predictor, MixturesFindTheLayerThatKnows) {
  const WordRows rows = random_rows(1500, 8, 3);
  const Dataset train = separable(rows, 3, 1);  // layer 1 knows
  const Predictor mixed({.epochs = 40, .learning_rate = 2e-2}, train, 3, {0, 1});
  ASSERT_EQ(mixed.mixture().size(), 2u);
  EXPECT_GT(mixed.mixture()[1], 0.8);
  EXPECT_GT(right(mixed.predict(train), train), 0.9);
  EXPECT_EQ(mixed.parameters(), predictor_parameters({}, 8, false, 3, 2));
  // Weights far apart are those of one layer.
  const Tensor w = zeros({3}, DType::f64), g = zeros({1}, DType::f64);
  set_value(w, 1, 1000), set_value(g, 0, 1);
  const Tensor weights = mixture_weights(Var(w), Var(g)).value();
  EXPECT_EQ(value_at(weights, 0), 0);
  EXPECT_EQ(value_at(weights, 1), 1);
}

// oracle: probe.edge
TEST(EdgePredictor, SeesItsSpansAloneAndSeparatesWhatCanBe) {
  const WordRows rows = random_rows(900, 8, 4);
  Dataset train{&rows, {}};
  for (int64_t w = 0; w + 3 <= rows.words(); w += 3)
    if (const float x = rows.row(0, w + 2)[0]; std::abs(x) > 0.1f)  // with a margin
      train.instances.push_back({.first = {w, w + 2}, .second = {w + 2, w + 3}, .labels = {int32_t(x > 0)}});
  for (const std::string pooling : {"attention", "mean", "endpoint"}) {
    const PredictorConfig config{
        .kind = "edge", .pooling = pooling, .projection = 16, .hidden = 32, .epochs = 60, .learning_rate = 1e-2};
    const Predictor predictor(config, train, 2, {0});
    EXPECT_EQ(right(predictor.predict(train), train), 1) << pooling;
    EXPECT_EQ(predictor.parameters(), predictor_parameters(config, 8, true, 2, 0)) << pooling;
    // Other words outside of the spans change nothing.
    const Dataset one{&rows, {train.instances[3]}};
    std::vector<std::vector<float>> moved(2);
    for (size_t l = 0; l < 2; ++l) moved[l].assign(rows.layer(int64_t(l)).begin(), rows.layer(int64_t(l)).end());
    for (size_t i = 0; i < moved[0].size(); ++i)
      if (int64_t(i) / 8 < one.instances[0].first.begin || int64_t(i) / 8 >= one.instances[0].second.end)
        moved[0][i] += 1;
    const WordRows elsewhere(moved, 8);
    EXPECT_EQ(predictor.predict(one).nats, predictor.predict({&elsewhere, one.instances}).nats) << pooling;
  }
  EXPECT_EQ(predictor_parameters({.kind = "edge"}, 100, true, 5, 0),
            100 * 256 + 256 + 2 * 257 + 512 * 256 + 256 + 256 * 5 + 5);
  EXPECT_EQ(predictor_parameters({}, 100, false, 5, 0), 505);
}

TEST(EdgePredictor, PoolsAttentivelyAndWithGradients) {
  const Sequences spans({0, 1, 4, 6});
  std::vector<double> x, scores;
  for (size_t i = 0; i < 18; ++i) x.push_back(random_normal({1}, i));
  for (size_t i = 0; i < 6; ++i) scores.push_back(random_normal({2}, i));
  const Tensor rows = tensor_of({6, 3}, std::span<const double>(x)),
               s = tensor_of({6, 1}, std::span<const double>(scores));
  const Tensor pooled = attentive_pool(Var(rows), Var(s), spans).value();
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(value_at(pooled, c), value_at(rows, c));  // a span of one word
  Parameters none;
  std::string where;
  const auto pools = [&](const std::vector<Var>& in) { return std::vector<Var>{attentive_pool(in[0], in[1], spans)}; };
  EXPECT_LE(kit::gradient_error(none, pools, {rows, s}, &where), 1e-6) << where;
  const auto mixes = [&](const std::vector<Var>& in) { return std::vector<Var>{mixture_weights(in[0], in[1])}; };
  EXPECT_LE(kit::gradient_error(none, mixes, {s.reshape({6}), s.slice(0, 1).reshape({1})}, &where), 1e-6) << where;
}

TEST(Predictor, SigmoidsSayYesOrNoOfEachLabel) {
  const WordRows rows = random_rows(800, 6, 6);
  Dataset data{&rows, {}};
  for (int64_t w = 0; w < rows.words(); ++w) {
    Instance i{.first = {w, w + 1}};
    for (int32_t c = 0; c < 3; ++c)
      if (rows.row(0, w)[c] > 0) i.labels.push_back(c);
    data.instances.push_back(i);
  }
  const Outcome outcome = Predictor({.sigmoid = true, .epochs = 60, .learning_rate = 2e-2}, data, 3, {0}).predict(data);
  int64_t same = 0;
  for (size_t i = 0; i < data.instances.size(); ++i) same += outcome.chosen[i] == data.instances[i].labels;
  EXPECT_GT(double(same) / 800, 0.9);
}

// oracle: probe.word
TEST(Regression, OfAValueThatIsLinearInTheRowsIsExact) {
  const WordRows rows = random_rows(200, 5, 7);
  Dataset data{&rows, {}};
  for (int64_t w = 0; w < rows.words(); ++w) {
    const float* x = rows.row(0, w);
    data.instances.push_back({.first = {w, w + 1}, .value = 3.0 * double(x[0]) - 2.0 * double(x[3]) + 7});
  }
  const Outcome outcome = Predictor({}, data, 0, {0}).predict(data);
  for (size_t i = 0; i < data.instances.size(); ++i) EXPECT_NEAR(outcome.values[i], data.instances[i].value, 1e-5);
  EXPECT_EQ(Predictor({}, data, 0, {0}).parameters(), 6);
}

WordRows one_hot(int64_t words, int64_t times) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < times * words; ++i)
    for (int64_t c = 0; c < words; ++c) numbers.push_back(float(c == i % words));
  return {{numbers}, words};
}

TEST(Predictor, OneHotRowsTellEveryWordApart) {
  const WordRows rows = one_hot(12, 20);
  Dataset data{&rows, {}};
  for (int64_t i = 0; i < rows.words(); ++i)
    data.instances.push_back({.first = {i, i + 1}, .labels = {int32_t(i % 12)}});
  EXPECT_EQ(right(Predictor({.epochs = 40, .learning_rate = 1e-2}, data, 12, {0}).predict(data), data), 1);
}

// oracle: probe.sentence_length
TEST(SentenceLength, SumsOfOnesTellLengthsAndMeansTellNothing) {
  std::vector<float> ones;
  Dataset sums{nullptr, {}};
  int64_t first = 0;
  for (int64_t s = 0; s < 240; ++s) {
    const int64_t m = 1 + s % 4;
    for (int64_t i = 0; i < m; ++i) ones.insert(ones.end(), {1, 1});
    sums.instances.push_back({.first = {first, first + m}, .labels = {int32_t(m - 1)}});
    first += m;
  }
  const WordRows rows({ones}, 2);
  sums.rows = &rows;
  const PredictorConfig config{.pooling = "sum", .epochs = 150, .learning_rate = 5e-2};
  EXPECT_EQ(right(Predictor(config, sums, 4, {0}).predict(sums), sums), 1);
  PredictorConfig means = config;
  means.pooling = "mean", means.epochs = 5;
  EXPECT_NEAR(right(Predictor(means, sums, 4, {0}).predict(sums), sums), 0.25, 1e-9);
}

// oracle: probe.control
TEST(ControlLabels, AreOfTheWordAndTheSeedAlone) {
  const std::vector<int64_t> counts = {600, 300, 100};
  std::vector<int64_t> drawn(3, 0);
  int64_t other = 0;
  for (int64_t w = 0; w < 5000; ++w) {
    const std::string word = "word" + std::to_string(w);
    const int32_t label = control_label(word, counts, 1);
    EXPECT_EQ(label, control_label(word, counts, 1));
    ++drawn[size_t(label)];
    other += label != control_label(word, counts, 2);
  }
  for (size_t l = 0; l < 3; ++l) {
    const double p = double(counts[l]) / 1000;
    EXPECT_NEAR(double(drawn[l]) / 5000, p, 4 * std::sqrt(p * (1 - p) / 5000));
  }
  EXPECT_GT(other, 1000);
}

TEST(ControlLabels, ASelectiveProbeIsOneThatCannotMemorise) {
  // One-hot rows of 40 words: a linear probe learns any label of the words that it saw, and guesses the others.
  constexpr int64_t kWords = 40;
  const WordRows rows = one_hot(kWords, 10), nothing({std::vector<float>(size_t(kWords * kWords * 10), 0.0f)}, kWords);
  Dataset seen{&rows, {}}, unseen{&rows, {}};
  for (int64_t i = 0; i < rows.words(); ++i)
    (i % kWords < 30 ? seen : unseen)
        .instances.push_back(
            {.first = {i, i + 1}, .labels = {int32_t(i % kWords % 3 == 0)}, .type = std::to_string(i % kWords)});
  const Dataset control = with_control_labels(seen, seen, 2, 3),
                unseen_control = with_control_labels(unseen, seen, 2, 3);
  const PredictorConfig config{.epochs = 40, .learning_rate = 1e-2};
  const Predictor memorises(config, control, 2, {0});
  EXPECT_EQ(right(memorises.predict(control), control), 1);
  // What it says of words that it never saw is one and the same label: right as often as that label stands there.
  const std::vector<int32_t> guesses = memorises.predict(unseen_control).classes;
  EXPECT_EQ(std::count(guesses.begin(), guesses.end(), guesses[0]), int64_t(guesses.size()));
  // Rows that say nothing leave the bias: accuracies are those of the commonest labels, selectivity their difference.
  Dataset blank = seen, blank_control = control;
  blank.rows = blank_control.rows = &nothing;
  const auto most = [](const Dataset& data) {
    double ones = 0;
    for (const Instance& i : data.instances) ones += i.labels[0] / double(data.instances.size());
    return std::max(ones, 1 - ones);
  };
  EXPECT_NEAR(right(Predictor(config, blank, 2, {0}).predict(blank), blank), most(blank), 1e-9);
  EXPECT_NEAR(right(Predictor(config, blank_control, 2, {0}).predict(blank_control), blank_control),
              most(blank_control), 1e-9);
}

TEST(DescriptionLength, CompressesWhatCanBePredictedAndNothingElse) {
  const WordRows rows = random_rows(1000, 6, 8);
  const Dataset data = separable(rows, 2);
  const PredictorConfig config{.epochs = 30, .least_steps = 0, .learning_rate = 1e-2};
  const DescriptionLength known = description_length(config, data, 2, {0});
  EXPECT_EQ(known.uniform_bits, 1000);
  EXPECT_EQ(known.block_bits.size(), kCodingFractions.size());
  EXPECT_EQ(known.block_bits[0], 1);  // one instance, coded evenly
  EXPECT_GT(known.compression(), 1.7);
  Dataset random = data;
  for (size_t i = 0; i < random.instances.size(); ++i) random.instances[i].labels = {int32_t(random_below({4}, i, 2))};
  EXPECT_LT(description_length(config, random, 2, {0}).compression(), 1.05);
}

TEST(Predictor, RefusesWhatItCannotDo) {
  EXPECT_THROW(pooling_of({.kind = "conv"}), Error);
  EXPECT_THROW(pooling_of({.kind = "linear", .pooling = "attention"}), Error);
  EXPECT_THROW(pooling_of({.kind = "edge", .pooling = "sum"}), Error);
  EXPECT_EQ(pooling_of({.kind = "edge"}), "attention");
}

}  // namespace
}  // namespace lithe::probe
