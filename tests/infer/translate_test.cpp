#include "lithe/infer/translate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <set>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compress/quantize.h"
#include "lithe/infer/beam_search.h"
#include "tests/infer/infer_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr int32_t kBytesEnd = 256;  // of the byte tokenizer, which also begins with it

// A model with generic weights: bytes in, bytes out.
std::unique_ptr<Model> translating_model(const std::string& architecture = "encoder_decoder",
                                         const std::string& position = "learned") {
  set_threads(1);  // models this small gain nothing from more
  auto model = std::make_unique<Model>(
      kit::model_config(cat("{architecture: ", architecture,
                            ", vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 24, "
                            "position: ",
                            position,
                            ", mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu, "
                            "intermediate_size: 24}}")),
      ModelOptions{.seed = 4});
  kit::randomise(model->parameters(), 4, 0.6);
  return model;
}

std::vector<std::vector<Translation>> run(const Model& model, const std::vector<std::string>& sentences,
                                          const TranslateConfig& config, const std::string& prefix = "") {
  return translate(model, *kBytes, *kBytes, sentences, config, prefix);
}

// spec syn.multi_encoder: a model whose decoder reads a context beside the source.
std::unique_ptr<Model> model_with_context() {
  set_threads(1);
  auto model = std::make_unique<Model>(
      kit::model_config("{architecture: encoder_decoder, vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, "
                        "max_position_embeddings: 24, position: learned, mixer: {type: attention, num_attention_heads: "
                        "2}, ffn: {type: swiglu, intermediate_size: 24}, encoders: {context: {}}, layers: {all: "
                        "{sub_layers: [mixer, cross, {cross: {type: attention, num_attention_heads: 2}, source: "
                        "context}, ffn]}}, layer_types: [all]}"),
      ModelOptions{.seed = 4});
  kit::randomise(model->parameters(), 4, 0.6);
  return model;
}

// oracle: syn.multi_encoder
TEST(Translate, FurtherEncodersReadTheirTexts) {
  const auto model = model_with_context();
  const std::vector<std::string> lines = {"ab", "cde", "", "f"};
  const FurtherTexts context{{"context", {"", "ab", "cde", "xyz"}}};
  const auto with = [&](const std::vector<std::string>& of, const FurtherTexts& further, TranslateConfig config) {
    return translate(*model, *kBytes, *kBytes, of, config, "", {}, 1, {.further = further});
  };
  for (const bool sample : {false, true}) {
    const TranslateConfig config{
        .num_beams = sample ? 1 : 3, .do_sample = sample, .max_new_tokens = 8, .batch_size = 4};
    const auto all = with(lines, context, config);
    TranslateConfig alone = config;
    alone.batch_size = 1;
    const auto one_by_one = with(lines, context, alone);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(all[i][0].tokens, one_by_one[i][0].tokens);
      EXPECT_EQ(all[i][0].log_probability, one_by_one[i][0].log_probability);
    }
    FurtherTexts other = context;
    other["context"][0] = "zz";
    const auto changed = with(lines, other, config);
    EXPECT_NE(changed[0][0].log_probability, all[0][0].log_probability);
    EXPECT_EQ(changed[1][0].log_probability, all[1][0].log_probability);
    other["nobody"] = {};  // what no encoder reads is left alone
    EXPECT_EQ(with(lines, other, config)[0][0].log_probability, changed[0][0].log_probability);
  }
  EXPECT_EQ(
      kit::coded_error_of([&] { with({"a"}, {}, {}); }),
      "2 translate: the model reads a text of context beside each sentence; there are 1 sentences and 0 of these");
  EXPECT_EQ(kit::coded_error_of([&] {
              with({"a"}, {{"context", {std::string(24, 'a')}}}, {});
            }),
            "2 translate: line 1 has 24 tokens of context, that encoder reads at most 23; shorten it");
}

TEST(Translate, FramesTheSourceBeginsTheTargetAndSearches) {
  const auto model = translating_model();
  const TranslateConfig config{.num_beams = 3, .length_penalty = 0.6, .num_return_sequences = 3, .max_new_tokens = 9};
  const auto found = run(*model, {"ab"}, config)[0];
  const SearchInput input{{'a', 'b', kBytesEnd}, {kBytesEnd}, 9};
  const auto expected = beam_search(
      *model, std::vector{input},
      {.num_beams = 3, .length_penalty = 0.6, .num_return_sequences = 3, .stop = {kBytesEnd}, .never = {}})[0];
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens);
    EXPECT_EQ(found[i].score, expected[i].score);
    EXPECT_EQ(found[i].log_probability, expected[i].log_probability);
  }
}

TEST(Translate, ResultsDoNotDependOnTheBatchOrTheOrder) {
  const auto model = translating_model();
  const std::vector<std::string> lines{"one", "two, longer", "3", "", "five five five five", "6", "   ", "8 eight"};
  TranslateConfig config{.num_return_sequences = 2};
  const auto all = run(*model, lines, config);
  for (int64_t size : {1, 2, 3, 100}) {
    config.batch_size = size;
    std::set<size_t> seen;
    const auto parts =
        translate(*model, *kBytes, *kBytes, lines, config, "", [&](size_t i, const std::vector<Translation>& t) {
          EXPECT_TRUE(seen.insert(i).second);
          EXPECT_EQ(t[0].text, all[i][0].text);
        });
    EXPECT_EQ(seen.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      ASSERT_EQ(parts[i].size(), all[i].size()) << i;
      for (size_t n = 0; n < parts[i].size(); ++n) {
        EXPECT_EQ(parts[i][n].tokens, all[i][n].tokens) << size << " " << i;
        EXPECT_EQ(parts[i][n].score, all[i][n].score) << size << " " << i;  // the same bits
      }
    }
  }
  const auto turned = run(*model, {lines.rbegin(), lines.rend()}, config);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(turned[lines.size() - 1 - i][0].tokens, all[i][0].tokens);
}

TranslateConfig drawing(int64_t sequences, int64_t seed = 3) {
  return {.num_beams = 1, .num_return_sequences = sequences, .do_sample = true, .seed = seed, .max_new_tokens = 9};
}

// What is drawn from the one most likely token is what a search with one beam finds.
TEST(Translate, DrawsOfTheLikeliestTokenAreTheGreedySearch) {
  const auto model = translating_model();
  const std::vector<std::string> lines = {"ab", "hello", "", "x y"};
  TranslateConfig greedy{.num_beams = 1, .max_new_tokens = 9}, draws = drawing(1);
  draws.top_k = 1;
  const auto want = run(*model, lines, greedy, "So"), got = run(*model, lines, draws, "So");
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(got[i].size(), 1u);
    EXPECT_EQ(got[i][0].tokens, want[i][0].tokens);
    EXPECT_EQ(got[i][0].text, want[i][0].text);
    // Ten log-probabilities of at most 16, each rounded to f32 in both.
    EXPECT_NEAR(got[i][0].log_probability, want[i][0].log_probability, 10 * 16 * 1.2e-7);
    EXPECT_NEAR(got[i][0].score, want[i][0].score, 10 * 16 * 1.2e-7);
  }
}

TEST(Translate, DrawsDependOnSeedAndLineAlone) {
  const auto model = translating_model();
  const std::vector<std::string> lines = {"ab", "hello", "", "x y", "hello", "z"};
  TranslateConfig config = drawing(5);
  const auto all = run(*model, lines, config);
  for (const int64_t size : {1, 2, 7}) {
    config.batch_size = size;
    const auto parts = run(*model, lines, config);
    for (size_t i = 0; i < lines.size(); ++i) {
      ASSERT_EQ(parts[i].size(), lines[i].empty() ? 1u : 5u);
      for (size_t n = 0; n < parts[i].size(); ++n) EXPECT_EQ(parts[i][n].tokens, all[i][n].tokens) << size << i;
    }
  }
  // A line by itself, as a window of lines that are read later.
  const auto alone = translate(*model, *kBytes, *kBytes, {lines[3]}, config, "", {}, 4);
  for (size_t n = 0; n < 5; ++n) EXPECT_EQ(alone[0][n].tokens, all[3][n].tokens);
  std::set<std::vector<int32_t>> different;
  for (const Translation& t : all[1]) different.insert(t.tokens);
  for (const Translation& t : all[4]) different.insert(t.tokens);
  EXPECT_GT(different.size(), 5u);  // one text on two lines has other draws
  for (size_t n = 1; n < 5; ++n) EXPECT_GE(all[1][n - 1].score, all[1][n].score);
  EXPECT_NE(run(*model, lines, drawing(5, 4))[1][0].tokens, all[1][0].tokens);
  const auto refusal = [&](auto change) {
    TranslateConfig bad = drawing(1);
    change(bad);
    return kit::coded_error_of([&] { run(*model, lines, bad); });
  };
  EXPECT_EQ(refusal([](TranslateConfig& c) { c.num_beams = 4; }),
            "2 translate: translations are drawn (do_sample) or searched with 4 beams; set num_beams 1, or do_sample "
            "false");
  EXPECT_EQ(refusal([](TranslateConfig& c) { c.temperature = 0; }),
            "2 translate: do_sample needs a temperature above 0, got 0");
}

// A model that ends at once nearly always: four beams find that nothing is the likeliest translation.
TEST(Translate, ASentenceHasATranslation) {
  int64_t empty = 0;
  for (const double scale : {40.0, -40.0}) {
    const auto model = translating_model();
    for (Parameter& p : model->parameters().all())
      if (p.name == "embedding.weight")
        for (int64_t i = kBytesEnd * 16; i < (kBytesEnd + 1) * 16; ++i)
          set_value(p.master.value(), i, scale * value_at(p.master.value(), i));
    model->parameters().refresh_views();
    TranslateConfig config{.min_new_tokens = 0};
    empty += run(*model, {"hello"}, config)[0][0].tokens.empty();
    config = {};
    EXPECT_GE(run(*model, {"hello"}, config)[0][0].tokens.size(), 1u);
    config.min_new_tokens = 3;
    EXPECT_GE(run(*model, {"hello"}, config)[0][0].tokens.size(), 3u);
    EXPECT_GE(run(*model, {"hello"}, config, "a")[0][0].tokens.size(), 3u);
    TranslateConfig draws = drawing(3);
    draws.min_new_tokens = 2;
    const auto drawn = run(*model, {"hello"}, draws);
    for (const Translation& t : drawn[0]) EXPECT_GE(t.tokens.size(), 2u);
  }
  EXPECT_GE(empty, 1);
}

TEST(Translate, BlankLinesStayBlank) {
  const auto model = translating_model();
  for (const auto& one : run(*model, {"", " \t", "\r"}, {}, "begin")) {
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].text, "");
    EXPECT_EQ(one[0].score, 0);
  }
  EXPECT_TRUE(run(*model, {}, {}).empty());
}

TEST(Translate, ThePrefixIsForced) {
  const auto model = translating_model();
  TranslateConfig config{.num_return_sequences = 4};
  const auto found = run(*model, {"hello", "you"}, config, "So ");
  for (const auto& sentence : found)
    for (const Translation& t : sentence) {
      EXPECT_EQ(t.text.substr(0, 3), "So ");
      EXPECT_EQ(t.tokens[0], 'S');
    }
  const SearchInput input{{'y', 'o', 'u', kBytesEnd}, {kBytesEnd, 'S', 'o', ' '}, 16};
  const auto expected =
      beam_search(*model, std::vector{input}, {.length_penalty = 0.6, .stop = {kBytesEnd}, .never = {}})[0][0];
  EXPECT_EQ(found[1][0].log_probability, expected.log_probability);
}

TEST(Translate, LengthsAreLimited) {
  // Positions 0 to 23 hold the begin and 23 tokens; what stands behind the last needs none.
  TranslateConfig config{.num_beams = 1, .max_new_tokens = 1000};
  const auto longest = [&](const std::string& position, const std::string& line) {
    const auto model = translating_model("encoder_decoder", position);
    for (Parameter& p : model->parameters().all())  // never ends: the logit of the end is 0, the highest is above
      if (p.name == "embedding.weight")
        for (int64_t i = 0; i < 16; ++i) set_value(p.master.value(), kBytesEnd * 16 + i, 0);
    return int64_t(run(*model, {line}, config)[0][0].tokens.size());
  };
  EXPECT_EQ(longest("learned", "abc"), 24);
  config.max_new_tokens = 5;
  EXPECT_EQ(longest("learned", "abc"), 5);
  config.max_new_tokens = 0;
  EXPECT_EQ(longest("learned", "abc"), 16);  // 2 * 3 + 10
  EXPECT_EQ(longest("learned", "abcdefghij"), 24);
  EXPECT_EQ(longest("rotary", "abcdefghij"), 30);

  const auto model = translating_model();
  EXPECT_NO_THROW(run(*model, {std::string(23, 'a')}, config));
  try {
    translate(*model, *kBytes, *kBytes, {"ok", std::string(24, 'a')}, config, "", {}, 7);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "translate: line 8 has 24 tokens, the model reads at most 23; split it");
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
  EXPECT_THROW(run(*model, {"ok"}, config, std::string(24, 'a')), Error);
}

TEST(Translate, RefusesWhatCannotBe) {
  const auto model = translating_model();
  for (const TranslateConfig& bad :
       {TranslateConfig{.num_beams = 0}, TranslateConfig{.num_return_sequences = 5},
        TranslateConfig{.length_penalty = std::nan("")}, TranslateConfig{.max_new_tokens = -1},
        TranslateConfig{.batch_size = 0}, TranslateConfig{.num_beams = INT64_MAX},
        TranslateConfig{.min_new_tokens = -1}, TranslateConfig{.max_new_tokens = 3, .min_new_tokens = 4}})
    EXPECT_THROW(run(*model, {"x"}, bad), Error);
  EXPECT_THROW(run(*translating_model("decoder"), {"x"}, {}), Error);
}

TEST(Translate, AStopSignalLeavesCompleteOnesAlone) {
  const auto model = translating_model();
  size_t done = 0;
  const auto found = translate(*model, *kBytes, *kBytes, {"a", "bcd", "ef"}, {.batch_size = 1}, "",
                               [&](size_t i, const std::vector<Translation>&) {
                                 EXPECT_EQ(i, 1u);  // the longest goes first
                                 ++done;
                                 set_stop_signal(SIGINT);
                               });
  set_stop_signal(0);
  EXPECT_EQ(done, 1u);
  EXPECT_FALSE(found[1].empty());
  EXPECT_TRUE(found[0].empty() && found[2].empty());
}

// Batches side by side, one thread each: of a model that is small, but not so small that this would not pay.
class SideBySide : public testing::Test {
 protected:
  const std::unique_ptr<Model> model_ = std::make_unique<Model>(
      kit::model_config(
          "{architecture: encoder_decoder, vocab_size: 257, hidden_size: 96, num_hidden_layers: 1, "
          "max_position_embeddings: 64, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu}}"),
      ModelOptions{.seed = 4});
  std::vector<std::string> lines_;
  TranslateConfig config_{.num_beams = 1, .max_new_tokens = 12, .batch_size = 96};

  SideBySide() {
    kit::randomise(model_->parameters(), 4, 0.1);
    for (int i = 0; i < 300; ++i) lines_.push_back(std::string(size_t(i * 37 % 19), char('a' + i % 26)) + cat(i));
    set_threads(2);
  }
  ~SideBySide() override {
    set_threads(1);
    set_stop_signal(0);
  }
};

TEST_F(SideBySide, EverySentenceHasTheSameBitsAsInTurn) {
  const kit::Scratch scratch;
  std::vector<QuantizedLayer> layers;
  const auto integers = quantize_model(*model_, {}, scratch.path() / "model.safetensors", layers);
  for (const Model* model : {const_cast<const Model*>(model_.get()), const_cast<const Model*>(integers.get())})
    for (const int64_t beams : {1, 4}) {
      config_.num_beams = beams;
      config_.num_return_sequences = beams;
      std::vector<int> done(lines_.size(), 0);
      std::atomic<int> at_once = 0;
      const auto beside = translate(*model, *kBytes, *kBytes, lines_, config_, "",
                                    [&](size_t i, const std::vector<Translation>& found) {
                                      EXPECT_EQ(++at_once, 1);
                                      EXPECT_TRUE(omp_in_parallel());
                                      EXPECT_EQ(found.size(), size_t(beams));
                                      ++done[i];
                                      --at_once;
                                    });
      EXPECT_EQ(done, std::vector<int>(lines_.size(), 1));
      for (const int alone : {1, 2}) {  // threads; few sentences are too little work for batches side by side
        set_threads(alone);
        const std::vector<std::string> some(lines_.begin(), lines_.begin() + (alone == 1 ? 300 : 12));
        const auto in_turn = translate(*model, *kBytes, *kBytes, some, config_, "",
                                       [](size_t, const auto&) { EXPECT_FALSE(omp_in_parallel()); });
        for (size_t i = 0; i < some.size(); ++i)
          for (size_t n = 0; n < size_t(beams); ++n) {
            EXPECT_EQ(beside[i][n].tokens, in_turn[i][n].tokens) << alone << " " << i;
            EXPECT_EQ(beside[i][n].score, in_turn[i][n].score) << alone << " " << i;  // the same bits
          }
      }
    }
}

TEST_F(SideBySide, ErrorsReachTheCaller) {
  int done = 0;
  const auto refuse = [&](size_t, const std::vector<Translation>&) {
    if (++done == 3) fail("test", "enough");
  };
  EXPECT_THROW(translate(*model_, *kBytes, *kBytes, lines_, config_, "", refuse), Error);
  set_value(model_->parameters().all().front().master.value(), 0, std::nan(""));
  EXPECT_THROW(run(*model_, lines_, config_), Error);
}

TEST_F(SideBySide, AStopSignalEndsAllBatches) {
  std::set<size_t> done;
  const auto found =
      translate(*model_, *kBytes, *kBytes, lines_, config_, "", [&](size_t i, const std::vector<Translation>&) {
        done.insert(i);
        set_stop_signal(SIGINT);
      });
  EXPECT_GE(done.size(), 1u);
  EXPECT_LT(done.size(), lines_.size());  // of four batches two were begun
  for (size_t i = 0; i < lines_.size(); ++i) EXPECT_EQ(found[i].size(), done.count(i)) << i;
}

}  // namespace
}  // namespace lithe
