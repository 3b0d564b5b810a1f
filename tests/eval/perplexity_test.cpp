#include "lithe/eval/perplexity.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <set>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/eval/loss_by_position.h"
#include "lithe/train/step.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TokenStore store_of(const std::vector<std::vector<int32_t>>& documents, int64_t vocab,
                    std::optional<int32_t> begin = {}, std::optional<int32_t> end = {}) {
  return TokenStore::from_documents(documents, {.vocab_size = vocab, .begin_of_text = begin, .end_of_text = end});
}

std::vector<int32_t> random_document(int64_t n, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(int32_t(random_below({.seed = seed}, uint64_t(i), uint64_t(vocab))));
  return ids;
}

std::unique_ptr<Model> model_of(int64_t vocab, const std::string& position = "rotary", DType dtype = DType::f32,
                                uint64_t seed = 3) {
  set_threads(1);  // models this small gain nothing from more
  auto model = std::make_unique<Model>(
      kit::model_config(cat(
          "{vocab_size: ", vocab, ", hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 64, position: ",
          position, ", mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}")),
      ModelOptions{.dtype = dtype, .compute = dtype, .seed = seed});
  kit::randomise(model->parameters(), seed, 0.6);
  return model;
}

EvalConfig window(int64_t context, int64_t stride, int64_t batch_tokens = 8192) {
  return {.context_length = context, .stride = stride, .batch_tokens = batch_tokens};
}

// oracle: app.lm
TEST(Perplexity, OfAUniformModelIsTheVocabulary) {
  const auto model = model_of(7);
  for (Parameter& p : model->parameters().all()) fill_zero(p.master.value());
  const Perplexity p = perplexity(*model, store_of({random_document(50, 7, 1)}, 7), window(16, 0), 16);
  EXPECT_NEAR(p.token_perplexity(), 7.0, 1e-6);
  EXPECT_EQ(p.tokens, 49);
}

// Each token's negative log-likelihood by its definition: one forward pass per token, over its own window.
double by_definition(const Model& model, const std::vector<int32_t>& string, int64_t context, int64_t stride,
                     int64_t* scored) {
  const NoGrad no_grad;
  const int64_t rows = int64_t(string.size()) - 1;
  double nll = 0;
  for (int64_t target = 1; target <= rows; ++target) {
    // The first window ends at row min(rows, context); every later one `stride` further on.
    int64_t end = std::min(rows, context);
    while (end < target) end = std::min(rows, end + stride);
    const int64_t begin = std::max<int64_t>(0, end - context);
    const std::vector<int32_t> ids(string.begin() + begin, string.begin() + target);
    const auto length = int64_t(ids.size());
    const Tensor logits = kit::logits(model, tensor_of({length}, ids), Sequences::single(length)).value();
    double sum = 0;
    const int64_t at = (logits.rows() - 1) * logits.cols();
    for (int64_t v = 0; v < logits.cols(); ++v) sum += std::exp(value_at(logits, at + v));
    nll -= value_at(logits, at + string[size_t(target)]) - std::log(sum);
    ++*scored;
  }
  return nll;
}

TEST(Perplexity, EveryTokenIsScoredOnceWithItsWindow) {
  const auto model = model_of(11, "rotary", DType::f64);
  const std::vector<std::vector<int32_t>> documents = {random_document(23, 10, 1), random_document(1, 10, 2),
                                                       random_document(8, 10, 3), random_document(40, 10, 4)};
  const TokenStore text = store_of(documents, 11, 10, 10);
  for (const auto& [context, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {8, 3}, {8, 1}, {1, 1}, {5, 4}, {24, 7}, {64, 64}, {64, 1}}) {
    int64_t scored = 0;
    double nll = 0;
    for (const auto& document : documents) {
      std::vector<int32_t> string = {10};
      string.insert(string.end(), document.begin(), document.end());
      string.push_back(10);
      nll += by_definition(*model, string, context, stride, &scored);
    }
    const Perplexity p = perplexity(*model, text, window(context, stride), 16);
    EXPECT_EQ(p.tokens, 23 + 1 + 8 + 40 + 4) << context << "/" << stride;
    EXPECT_EQ(p.tokens, scored);
    EXPECT_NEAR(p.nll, nll, 1e-9 * nll) << context << "/" << stride;
  }
}

TEST(LossByPosition, BinsByHalfOctavesOfTheTokensBefore) {
  const auto model = model_of(11);
  const TokenStore text = store_of({random_document(60, 11, 5), random_document(20, 11, 6)}, 11);
  TokenScores each;
  const Perplexity p = perplexity(*model, text, window(32, 0), 9, {}, nullptr, &each);
  ASSERT_EQ(int64_t(each.positions.size()), p.tokens);
  EXPECT_EQ(each.positions[0], 0);
  EXPECT_EQ(each.positions[31], 31);
  EXPECT_EQ(each.positions[32], 5);  // the second window ends with the document and begins 5 rows before
  const std::vector<PositionLoss> bins = loss_by_position(each);
  const std::vector<int64_t> from{0, 8, 12, 16, 24}, to{8, 12, 16, 24, 32};
  ASSERT_EQ(bins.size(), from.size());
  int64_t tokens = 0;
  double nll = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    EXPECT_EQ(bins[i].from, from[i]);
    EXPECT_EQ(bins[i].to, to[i]);
    tokens += bins[i].tokens, nll += bins[i].nll;
  }
  EXPECT_EQ(tokens, p.tokens);
  EXPECT_NEAR(nll, p.nll, 1e-4 * p.nll);
  // A window whose rows all have tokens before them leaves the first bins out.
  TokenScores late;
  late.positions = {100, 130, 95}, late.nll = {1, 2, 3};
  const std::vector<PositionLoss> few = loss_by_position(late);
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[0].from, 64);
  EXPECT_EQ(few[0].to, 96);
  EXPECT_EQ(few[1].to, 128);
  EXPECT_EQ(few[2].loss(), 2);
}

TEST(Perplexity, StrideOfTheWholeWindowIsDisjointBlocks) {
  const auto model = model_of(11, "learned");
  const TokenStore text = store_of({random_document(100, 11, 5)}, 11);
  const Perplexity a = perplexity(*model, text, window(16, 16), 9), b = perplexity(*model, text, window(16, 0), 9),
                   c = perplexity(*model, text, window(0, 0), 16);
  EXPECT_EQ(std::bit_cast<uint64_t>(a.nll), std::bit_cast<uint64_t>(b.nll));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.nll), std::bit_cast<uint64_t>(c.nll));
  // The blocks by themselves, as documents that share their border token; only the last window reaches back.
  std::vector<std::vector<int32_t>> blocks;
  const std::vector<int32_t> ids = random_document(100, 11, 5);
  for (size_t at = 0; at + 1 < 97; at += 16) blocks.emplace_back(ids.begin() + long(at), ids.begin() + long(at) + 17);
  const TokenStore whole = store_of({std::vector<int32_t>(ids.begin(), ids.begin() + 97)}, 11);
  EXPECT_EQ(perplexity(*model, whole, window(16, 16), 16).nll,
            perplexity(*model, store_of(blocks, 11), window(16, 16), 16).nll);
}

TEST(Perplexity, ResultsHaveTheSameBitsForEveryBatchSize) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto model = model_of(50, "rotary", dtype);
    std::vector<std::vector<int32_t>> documents;
    for (uint64_t d = 0; d < 30; ++d) documents.push_back(random_document(1 + int64_t(d * 7 % 60), 50, d));
    const TokenStore text = store_of(documents, 50, 1, 1);
    const double expected = perplexity(*model, text, window(16, 5, 1), 16).nll;
    for (int64_t tokens : {2, 17, 64, 300, 8192, 1 << 20})
      EXPECT_EQ(std::bit_cast<uint64_t>(perplexity(*model, text, window(16, 5, tokens), 16).nll),
                std::bit_cast<uint64_t>(expected))
          << name_of(dtype) << " " << tokens;
  }
}

// The same by feeding one token at a time to a state that keeps keys and values in a type.
double by_decoding(const Model& model, const std::vector<int32_t>& string, int64_t context, DType cache) {
  const NoGrad no_grad;
  double nll = 0;
  std::unique_ptr<DecodeState> state;
  for (size_t i = 0; i + 1 < string.size(); ++i) {
    if (i % size_t(context) == 0) state = model.make_state(1, context, cache);
    const Sequences one = model.continue_sequences(*state, {1});
    const Tensor logits = kit::logits(model, tensor_of({1}, std::vector<int32_t>{string[i]}), one, state.get()).value();
    double sum = 0;
    for (int64_t v = 0; v < logits.cols(); ++v) sum += std::exp(value_at(logits, v));
    nll -= value_at(logits, string[i + 1]) - std::log(sum);
  }
  return nll;
}

// oracle: infer.kv_cache
TEST(Perplexity, ThroughACacheIsThatOfDecodingWithIt) {
  const auto model = model_of(11, "rotary", DType::f64);
  const std::vector<int32_t> ids = random_document(49, 11, 7);  // three whole windows of 16 rows
  const TokenStore text = store_of({ids}, 11);
  EvalConfig config = window(16, 16);
  const double without = perplexity(*model, text, config, 16).nll;
  for (const auto& [name, type] : std::vector<std::pair<std::string, DType>>{
           {"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::i8}, {"int4", DType::u8}}) {
    config.cache_dtype = name;
    const Perplexity p = perplexity(*model, text, config, 16);
    EXPECT_EQ(p.tokens, 48);
    if (name != "f32") {
      EXPECT_GT(std::abs(p.nll - without), 1e-7 * without) << name;
    }
    EXPECT_NEAR(p.nll, without, 0.05 * without) << name;
    const double expected = by_decoding(*model, ids, 16, type);
    EXPECT_NEAR(p.nll, expected, 1e-9 * expected) << name;
    config.batch_tokens = 1;
    EXPECT_EQ(std::bit_cast<uint64_t>(perplexity(*model, text, config, 16).nll), std::bit_cast<uint64_t>(p.nll));
    config.batch_tokens = 8192;
  }
}

TEST(Perplexity, OfAMemorisedSequenceGoesToOne) {
  const std::vector<int32_t> ids = random_document(24, 12, 9);
  const TokenStore text = store_of({ids}, 12);
  set_threads(1);
  Model model(
      kit::model_config("{vocab_size: 12, hidden_size: 32, num_hidden_layers: 1, max_position_embeddings: 64, mixer: "
                        "{type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 48}}"),
      {.trainable = true});
  TrainConfig config;
  config.weight_decay = 0;
  AdamW optimizer(model.parameters(), config);
  const TrainedObjective objective(config, model);
  Batch batch;
  batch.tokens.assign(ids.begin(), ids.end() - 1);
  batch.labels.assign(ids.begin() + 1, ids.end());
  batch.offsets = {0, int64_t(batch.tokens.size())};
  for (int64_t step = 1; step <= 150; ++step) {
    accumulate_gradients(model, objective, {to_device(batch, Device::cpu)}, config, step);
    optimizer.step(step, 0.01, optimizer.gradient_norm());
  }
  const double value = perplexity(model, text, window(32, 0), 32).token_perplexity();
  EXPECT_LT(value, 1.02);
  EXPECT_GE(value, 1.0);
}

TEST(Perplexity, UnitsAreTheSameSumOverOtherCounts) {
  const Perplexity p{.nll = 100, .tokens = 50, .words = 20, .lines = 5, .bytes = 90};
  EXPECT_DOUBLE_EQ(p.loss(), 2);
  EXPECT_DOUBLE_EQ(p.token_perplexity(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(p.word_perplexity(), std::exp(5.0));
  EXPECT_DOUBLE_EQ(p.word_and_line_perplexity(), std::exp(4.0));
  EXPECT_DOUBLE_EQ(p.bits_per_byte(), 100 / std::log(2.0) / 90);
}

TEST(Perplexity, SaysItsWindows) {
  const auto model = model_of(11);
  const TokenStore text = store_of({random_document(30, 11, 5)}, 11);
  const auto said = [&](const EvalConfig& config) { return perplexity(*model, text, config, 16).json(); };
  EXPECT_EQ(said(window(0, 0))["context_length"], 16);
  EXPECT_EQ(said(window(0, 0))["stride"], 16);
  EXPECT_EQ(said(window(12, 5))["context_length"], 12);
  EXPECT_EQ(said(window(12, 5))["stride"], 5);
  const Json one = said(window(12, 5));
  EXPECT_EQ(one["carry_state"], false);
  EXPECT_EQ(one["tokens"], 29);
  EXPECT_EQ(one["word_perplexity"], 0);  // no words were counted
}

TEST(Perplexity, RefusesWhatMakesNoSense) {
  const auto model = model_of(11, "learned");
  const TokenStore text = store_of({random_document(30, 11, 5)}, 11);
  const auto error = [&](const EvalConfig& c, const TokenStore& t) {
    return kit::coded_error_of([&] { perplexity(*model, t, c, 16); });
  };
  EXPECT_EQ(error(window(8, 9), text), "2 eval: stride 9 must not exceed context_length 8");
  EXPECT_EQ(error(window(65, 1), text),
            "2 eval: context_length 65 is beyond the model's 64 positions; choose that or less");
  EXPECT_EQ(error(window(8, 8), store_of({random_document(5, 20, 1)}, 20)).substr(0, 7), "2 eval:");
  EXPECT_EQ(error(window(8, 8), store_of({{3}}, 11)), "1 eval: the text has no token to predict");
  EvalConfig cached = window(8, 8);
  cached.cache_dtype = "int8";
  Model without(kit::model_config("{vocab_size: 11, max_position_embeddings: 64, hidden_size: 16, num_hidden_layers: "
                                  "1, mixer: linear, ffn: {type: "
                                  "swiglu, intermediate_size: 24}}"),
                {});
  EXPECT_THROW(perplexity(without, text, cached, 16), Error);
  set_stop_signal(SIGINT);
  EXPECT_EQ(error(window(8, 8), text), "1 eval: stopped by signal 2");
  set_stop_signal(0);
}

}  // namespace
}  // namespace lithe
