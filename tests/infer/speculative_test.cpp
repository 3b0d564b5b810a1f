#include "lithe/infer/speculative.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lithe/base/threads.h"
#include "lithe/infer/sampler.h"
#include "lithe/ops/basic.h"
#include "tests/infer/infer_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Model> model_of(uint64_t seed, int64_t layers = 2, const std::string& mixer = "attention",
                                int64_t positions = 64) {
  return byte_model("rotary", positions, seed, layers, mixer);
}

std::vector<Generation> drafted(const Model& model, Drafter& drafter, const std::vector<std::string>& prompts,
                                const GenerateConfig& config, GenerateTimes* times = nullptr, int64_t count = 4) {
  std::vector<Generation> out(prompts.size());
  generate_each(model, *kBytes, prompts, config,
                {.on_text = {}, .on_done = [&](size_t i, Generation&& g) { out[i] = std::move(g); }}, times,
                {.drafter = &drafter, .draft_tokens = count});
  return out;
}

// oracle: search.speculative
// oracle: infer.kv_cache
TEST(Speculative, GreedyGivesTheTokensOfGreedy) {
  const auto model = model_of(4), other = model_of(9, 1);
  const std::vector<std::string> prompts = {"hello", "a", "some longer prompt some"};
  GenerateConfig config = settings(false, 40);
  for (const double penalty : {1.0, 1.3}) {
    config.repetition_penalty = penalty;
    const auto want = generate(*model, *kBytes, prompts, config);
    for (int64_t count : {1, 4, 7}) {
      const auto by_model = model_drafter(*other, *kBytes, config), by_text = lookup_drafter();
      for (Drafter* drafter : {by_model.get(), by_text.get()}) {
        const auto got = drafted(*model, *drafter, prompts, config, nullptr, count);
        for (size_t i = 0; i < prompts.size(); ++i) {
          EXPECT_EQ(got[i].tokens, want[i].tokens) << count;
          EXPECT_EQ(got[i].text, want[i].text);
          EXPECT_EQ(got[i].finish, want[i].finish);
        }
      }
    }
  }
}

// oracle: search.speculative
TEST(Speculative, WhatTheModelDraftsItselfIsTaken) {
  const auto model = model_of(4);
  for (const bool sample : {false, true}) {
    const GenerateConfig config = settings(sample, 30);
    const auto drafter = model_drafter(*model, *kBytes, config);
    GenerateTimes times;
    drafted(*model, *drafter, {"hello"}, config, &times);
    EXPECT_GT(times.drafted, 0);
    // Sampled: rounding may differ between rows that are read together and alone.
    EXPECT_GE(times.taken, sample ? times.drafted - 1 : times.drafted) << sample;
  }
}

TEST(Speculative, WrongDraftsGrowShortAndRare) {
  DraftLength length(4);
  const auto after = [&](int64_t drafted, int64_t taken) {
    length.found(drafted, taken);
    return length.next();
  };
  EXPECT_EQ(length.next(), 4);
  EXPECT_EQ(after(4, 2), 3);  // one more than was right
  EXPECT_EQ(after(3, 0), 1);
  EXPECT_EQ(after(0, 0), 1);  // a drafter that had nothing to say was not wrong
  EXPECT_EQ(after(1, 1), 3);
  EXPECT_EQ(after(3, 3), 4);
  EXPECT_EQ(after(4, 0), 1);
  for (const int64_t pause : {1, 2, 4, 8, 16, 16}) {
    length.found(1, 0);
    for (int64_t step = 0; step < pause; ++step) EXPECT_EQ(length.next(), 0) << pause;
    EXPECT_EQ(length.next(), 1) << pause;
  }
  EXPECT_EQ(after(1, 1), 3);  // once right, all is forgotten
  EXPECT_EQ(after(3, 0), 1);
}

// A drafter that is never right is asked for a twentieth of the tokens.
TEST(Speculative, ADrafterThatIsWrongIsHardlyAsked) {
  struct Wrong final : Drafter {
    void begin(int64_t) override {}
    std::vector<Draft> draft(const std::vector<int32_t>&, int64_t count, uint64_t, const GenerateConfig&) override {
      std::vector<Draft> out;
      for (int64_t i = 0; i < count; ++i) out.push_back({1, {.certain = 1, .probabilities = {}}});  // a control byte
      return out;
    }
  } wrong;
  const auto model = model_of(4, 2, "attention", 256);
  const GenerateConfig config = settings(false, 200);
  GenerateTimes times;
  const Generation got = drafted(*model, wrong, {"hello"}, config, &times)[0];
  EXPECT_EQ(got.tokens, generate(*model, *kBytes, {"hello"}, config)[0].tokens);
  ASSERT_EQ(times.taken, 0);
  EXPECT_LE(times.drafted, 4 + 1 + 5 + (200 - 31) / 17 + 1);
}

TEST(Speculative, EndsWhereTheModelsPositionsEnd) {
  const auto model = model_of(4, 2, "attention", 12), other = model_of(9, 1, "attention", 10);
  const GenerateConfig config = settings(false, 40);
  const auto drafter = model_drafter(*other, *kBytes, config);
  const Generation want = generate(*model, *kBytes, {"hello"}, config)[0],
                   got = drafted(*model, *drafter, {"hello"}, config)[0];
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.finish, want.finish);
}

// What comes out has the target's distribution whatever the drafter's is.
// oracle: search.speculative
TEST(Speculative, VerifiedTokensHaveTheModelsDistribution) {
  const std::vector<double> p0{0.1, 0.4, 0.05, 0.25, 0.2}, q0{0.5, 0.1, 0.2, 0.2, 0}, p1{0.7, 0, 0.1, 0.1, 0.1};
  const TokenDistribution target{.certain = {}, .probabilities = p0}, drafter{.certain = {}, .probabilities = q0},
      after{.certain = {}, .probabilities = p1};
  const int64_t draws = 100000;
  std::vector<double> first(5, 0), second(5, 0);
  int64_t taken = 0;
  for (int64_t n = 0; n < draws; ++n) {
    double left = random_uniform({.seed = 7, .step = uint64_t(n)}, 0);
    int32_t token = 0;
    while (token < 3 && (left -= q0[size_t(token)]) >= 0) ++token;
    const Verdict v = verify({{token, drafter}}, {target, after}, 1, n, 5);
    ++first[size_t(v.taken ? token : v.next)];
    if (v.taken) ++taken, ++second[size_t(v.next)];
  }
  const auto chi_square = [](const std::vector<double>& seen, const std::vector<double>& p, double total) {
    double out = 0;
    for (size_t i = 0; i < 5; ++i) {
      if (p[i] == 0) {
        EXPECT_EQ(seen[i], 0);
        continue;
      }
      out += (seen[i] - total * p[i]) * (seen[i] - total * p[i]) / (total * p[i]);
    }
    return out;
  };
  EXPECT_LT(chi_square(first, p0, double(draws)), 18.5);  // 4 degrees of freedom: one in a thousand
  EXPECT_LT(chi_square(second, p1, double(taken)), 16.3);
  EXPECT_NEAR(double(taken) / double(draws), 0.1 + 0.1 + 0.05 + 0.2, 0.01);  // sum of min(p, q)
}

std::unique_ptr<Model> model_with_exits(uint64_t seed) {
  auto model = std::make_unique<Model>(
      kit::model_config("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 4, max_position_embeddings: 64, mixer: "
                        "{type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}, stack: "
                        "{type: early_exit, layers: [1, 2, 3]}}"),
      ModelOptions{.seed = seed});
  kit::randomise(model->parameters(), seed, 0.4);
  return model;
}

// oracle: search.speculative
TEST(Speculative, AnExitOfTheModelDrafts) {
  const auto model = model_with_exits(4);
  const std::vector<std::string> prompts = {"hello", "a"};
  GenerateConfig config = settings(false, 30);
  const auto want = generate(*model, *kBytes, prompts, config);
  for (const int64_t layers : {1, 3}) {
    const auto drafter = exit_drafter(*model, layers, *kBytes, config);
    GenerateTimes times;
    const auto got = drafted(*model, *drafter, prompts, config, &times);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i].tokens, want[i].tokens) << layers;
    EXPECT_GT(times.drafted, 0);
  }
  EXPECT_EQ(kit::coded_error_of([&] { exit_drafter(*model, 4, *kBytes, config); }),
            "2 generate: exit:4 cannot draft: the model has exits after layers 1, 2, 3; name one of them");
  EXPECT_EQ(kit::coded_error_of([&] { exit_drafter(*model_of(4), 1, *kBytes, config); }),
            "2 generate: exit:1 cannot draft: the model has no exits; train one with model.stack: {type: early_exit}");
}

// The second of two tokens that are sampled with a drafting exit, over many seeds, against the model's distribution.
// oracle: search.speculative
TEST(Speculative, SampledWithAnExitTokensHaveTheModelsDistribution) {
  const auto model = model_with_exits(7);
  GenerateConfig config = settings(true, 3);
  config.top_k = 3;  // few enough to count
  const auto drafter = exit_drafter(*model, 1, *kBytes, config);
  std::map<int32_t, std::vector<double>> after;  // by the first token: how often each second one
  std::map<int32_t, std::vector<double>> expected;
  int64_t seen = 0;
  for (int64_t seed = 0; seed < 600; ++seed) {
    config.seed = seed;
    const Generation g = drafted(*model, *drafter, {"ab"}, config)[0];
    if (g.tokens.size() < 2) continue;
    const int32_t first = g.tokens[0];
    auto& counts = after[first];
    if (counts.empty()) {
      counts.assign(257, 0);
      std::vector<int32_t> text = kBytes->encode("ab");
      if (const auto begin = kBytes->specials().bos ? kBytes->specials().bos : kBytes->specials().eos)
        text.insert(text.begin(), *begin);
      text.push_back(first);
      const auto length = int64_t(text.size());
      const Rows rows = kit::run(*model, tensor_of({length}, text), Sequences::single(length));
      const Tensor logits = model->logits(rows, {length - 1}).value();
      expected[first] = token_distribution({logits.data<float>(), 257}, text, config).probabilities;
    }
    ++counts[size_t(g.tokens[1])];
    ++seen;
  }
  ASSERT_GT(seen, 400);
  double chi = 0;
  int64_t freedom = 0;
  for (const auto& [first, counts] : after) {
    double total = 0;
    for (double n : counts) total += n;
    int64_t classes = 0;
    for (size_t id = 0; id < 257; ++id) {
      const double want = total * expected[first][id];
      EXPECT_TRUE(want > 0 || counts[id] == 0);
      if (want < 5) continue;
      chi += (counts[id] - want) * (counts[id] - want) / want;
      ++classes;
    }
    freedom += std::max<int64_t>(classes - 1, 0);
  }
  ASSERT_GE(freedom, 2);
  EXPECT_LT(chi, double(freedom) + 4 * std::sqrt(2.0 * double(freedom)));
}

TEST(Speculative, LooksUpWhatStoodInTheText) {
  const auto drafter = lookup_drafter();
  const auto tokens_of = [](const std::vector<Drafter::Draft>& drafts) {
    std::vector<int32_t> out;
    for (const auto& draft : drafts) out.push_back(draft.token);
    return out;
  };
  EXPECT_EQ(tokens_of(drafter->draft({1, 2, 3, 9, 1, 2, 3}, 3, 0, {})), (std::vector<int32_t>{9, 1, 2}));
  EXPECT_EQ(tokens_of(drafter->draft({5, 1, 7, 8, 1}, 9, 0, {})), (std::vector<int32_t>{7, 8, 1}));
  EXPECT_TRUE(drafter->draft({1, 2, 3}, 3, 0, {}).empty());
}

TEST(Speculative, RefusesWhatCannotBeVerified) {
  const auto model = model_of(4);
  GenerateConfig config = settings(false);
  const auto drafter = lookup_drafter();
  config.use_cache = false;
  EXPECT_EQ(kit::coded_error_of([&] { drafted(*model, *drafter, {"a"}, config); }),
            "2 generate: drafting needs the cache; leave --no-cache or --draft out");
  const auto small = std::make_unique<Model>(
      kit::model_config("{vocab_size: 11, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 64}"),
      ModelOptions{});
  EXPECT_EQ(kit::coded_error_of([&] { model_drafter(*small, *kBytes, config); }),
            "2 generate: the drafter has a vocabulary of 11, the tokenizer one of 257; draft with a model of the same "
            "tokenizer");
}

}  // namespace
}  // namespace lithe
