#include "lithe/infer/ctc_prefix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "lithe/data/features.h"
#include "lithe/infer/beam_search.h"
#include "lithe/objective/device_batch.h"
#include "lithe/ops/ctc.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

using Labels = std::vector<int32_t>;

// log P of every label sequence that T rows can write, by all C^T alignments.
std::map<Labels, double> brute(const Tensor& logits) {
  const int64_t T = logits.rows(), C = logits.cols();
  std::vector<std::vector<double>> p(static_cast<size_t>(T));
  for (int64_t t = 0; t < T; ++t) {
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) p[size_t(t)].push_back(std::exp(value_at(logits, t * C + c)));
    for (const double x : p[size_t(t)]) sum += x;
    for (double& x : p[size_t(t)]) x /= sum;
  }
  std::map<Labels, double> out;
  const std::function<void(size_t, Labels, int32_t, double)> go = [&](size_t t, Labels labels, int32_t last, double q) {
    if (t == size_t(T)) {
      out[labels] += q;
      return;
    }
    for (int32_t c = 0; c < C; ++c) {
      Labels more = labels;
      if (c != C - 1 && c != last) more.push_back(c);
      go(t + 1, more, c, q * p[t][size_t(c)]);
    }
  };
  go(0, {}, int32_t(C - 1), 1);
  return out;
}

// oracle: app.ctc
TEST(CtcPrefixScores, AreSumsOverAllThatBeginSo) {
  const Tensor logits = kit::normal({5, 3}, DType::f64, 11);
  const CtcPrefixScores scores(logits);
  const auto all = brute(logits);
  for (const auto& [labels, q] : all) {
    EXPECT_NEAR(scores.whole(labels), std::log(q), 1e-12);
    double begins = 0;
    for (const auto& [other, p] : all)
      if (other.size() >= labels.size() && std::equal(labels.begin(), labels.end(), other.begin())) begins += p;
    EXPECT_NEAR(scores.prefix(labels), std::log(begins), 1e-12);
    const std::vector<double> next = scores.next(labels);
    double sum = 0;
    for (const double x : next) sum += std::exp(x);
    EXPECT_NEAR(sum, 1, 1e-12);
    for (int32_t c = 0; c < 2; ++c) {
      Labels longer = labels;
      longer.push_back(c);
      if (std::isfinite(next[size_t(c)])) {
        EXPECT_NEAR(next[size_t(c)], scores.prefix(longer) - scores.prefix(labels), 1e-12);
      }
    }
    EXPECT_NEAR(next[2], scores.whole(labels) - scores.prefix(labels), 1e-12);
  }
  EXPECT_EQ(scores.prefix({}), 0);
  EXPECT_EQ(scores.prefix(Labels{0, 0, 0, 0}), -INFINITY);  // needs seven rows
  EXPECT_EQ(CtcPrefixScores(empty({0, 3}, DType::f64)).whole({}), 0);
}

TEST(CtcPrefixScores, OfTheSpecificationsExample) {
  const Tensor logits = empty({2, 2}, DType::f64);
  const double p[] = {.6, .4, .7, .3};
  for (int64_t i = 0; i < 4; ++i) set_value(logits, i, std::log(p[i]));
  const CtcPrefixScores scores(logits);
  EXPECT_NEAR(scores.whole(Labels{0}), std::log(.88), 1e-12);
  EXPECT_NEAR(scores.prefix(Labels{0}), std::log(.88), 1e-12);
  EXPECT_NEAR(scores.next({})[1], std::log(.12), 1e-12);
}

TEST(CtcPrefixScores, AreMixedByWeight) {
  const CtcPrefixScores scores(kit::normal({6, 4}, DType::f64, 5));
  const std::vector<double> before{-1, -2, -3, -4, -5};
  const auto mixed = [&](double weight) {
    std::vector<double> out = before;
    rescore_by_ctc(scores, weight, 4, Labels{1}, out);
    return out;
  };
  const std::vector<double> next = scores.next(Labels{1});
  EXPECT_EQ(mixed(0), before);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(mixed(0.3)[c], 0.7 * before[c] + 0.3 * next[c], 1e-12);
    EXPECT_EQ(mixed(1)[c], next[c]);
  }
  EXPECT_EQ(mixed(0.3)[3], -INFINITY);  // no label
  EXPECT_NEAR(mixed(0.3)[4], 0.7 * before[4] + 0.3 * next[3], 1e-12);
}

// With all the weight on the encoder's head and beams enough, the text is the likeliest of all labels.
TEST(JointDecoding, FindsTheLikeliestLabelsOfTheEncodersHead) {
  Model model(kit::model_config("{architecture: encoder_decoder, hidden_size: 8, num_hidden_layers: 1, vocab_size: 5, "
                                "max_position_embeddings: 24, position: sinusoidal, mixer: {type: attention, "
                                "num_attention_heads: 2}, encoder: {num_hidden_layers: 2, modalities: {audio: {type: "
                                "features, num_features: 3}}, layers: {plain: {}, text: {compressor: {type: "
                                "ctc_adapter, num_labels: 4, shrink: merge}}}, layer_types: [plain, text]}}"),
              kit::kExact);
  kit::randomise(model.parameters(), 9);
  std::vector<float> numbers;
  for (int i = 0; i < 18; ++i) numbers.push_back(float(std::sin(i * 1.3)));
  lithe::Batch batch{.offsets = {0, 0}};
  add_feature_rows(batch, "audio", 6, 3, numbers);
  const std::map<std::string, ModelInput> sources{{kSource, to_device(batch, Device::cpu).input}};
  const Tensor logits = encoder_ctc_logits(model, sources.at(kSource));
  ASSERT_EQ(logits.shape(), (Shape{6, 5}));
  const auto all = brute(logits);
  const auto best = std::max_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.second < b.second; });
  const CtcPrefixScores scores(logits);
  const SearchInput input{.source = {}, .prompt = {4}, .max_new_tokens = 7};
  const auto search = [&](double weight, int64_t beams) {
    const BeamSearchConfig config{
        .num_beams = beams, .stop = {4}, .rescore = [&](size_t, std::span<const int32_t> t, std::span<double> s) {
          rescore_by_ctc(scores, weight, 4, t, s);
        }};
    return beam_search(model, {&input, 1}, config, sources)[0][0];
  };
  const Hypothesis found = search(1, 400);
  EXPECT_EQ(found.tokens, best->first);
  EXPECT_NEAR(found.log_probability, std::log(best->second), 1e-9);
  // Without weight it is the decoder's own search.
  const BeamSearchConfig plain{.num_beams = 3, .stop = {4}};
  EXPECT_EQ(search(0, 3).tokens, beam_search(model, {&input, 1}, plain, sources)[0][0].tokens);
  Model other(kit::model_config("{architecture: encoder_decoder, hidden_size: 8, num_hidden_layers: 1, vocab_size: 5, "
                                "max_position_embeddings: 24, mixer: {type: attention, num_attention_heads: 2}, "
                                "encoder: {modalities: {audio: {type: features, num_features: 3}}}}"),
              kit::kExact);
  EXPECT_NE(kit::error_of([&] { encoder_ctc_logits(other, sources.at(kSource)); }).find("no compressor ctc_adapter"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
