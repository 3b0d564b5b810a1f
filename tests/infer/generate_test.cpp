#include "lithe/infer/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "tests/infer/infer_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::vector<Generation> continue_all(const Model& model, const std::vector<std::string>& prompts,
                                     GenerateConfig config) {
  return generate(model, *kBytes, prompts, config);
}

// The logits behind a text, computed at once.
std::vector<float> logits_behind(const Model& model, const std::vector<int32_t>& ids) {
  const NoGrad no_grad;
  const Sequences sequences = Sequences::single(int64_t(ids.size()));
  const Tensor logits = kit::logits(model, tensor_of({int64_t(ids.size())}, ids), sequences).value();
  const float* last = logits.data<float>() + (logits.rows() - 1) * logits.cols();
  return {last, last + logits.cols()};
}

// oracle: search.greedy
TEST(Generate, GreedyTakesTheMostLikelyTokenEachTime) {
  const auto model = byte_model();
  const Generation g = continue_all(*model, {"hello"}, settings(false))[0];
  std::vector<int32_t> ids = {256};  // the begin of text
  for (char c : std::string("hello")) ids.push_back(static_cast<unsigned char>(c));
  ASSERT_FALSE(g.tokens.empty());
  for (int32_t token : g.tokens) {
    const std::vector<float> logits = logits_behind(*model, ids);
    EXPECT_EQ(token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    ids.push_back(token);
  }
  EXPECT_EQ(continue_all(*model, {"hello"}, settings(false))[0].tokens, g.tokens);
  EXPECT_EQ(g.prompt_tokens, 6);
}

// oracle: infer.kv_cache
TEST(Generate, TheCacheDoesNotChangeTheTokens) {
  for (const char* position : {"rotary", "learned", "sinusoidal", "none"})
    for (bool sample : {false, true}) {
      const auto model = byte_model(position);
      GenerateConfig cached = settings(sample), uncached = cached;
      uncached.use_cache = false;
      const std::vector<std::string> prompts = {"a", "some longer prompt", "bc"};
      const auto a = continue_all(*model, prompts, cached), b = continue_all(*model, prompts, uncached);
      for (size_t i = 0; i < prompts.size(); ++i)
        EXPECT_EQ(a[i].tokens, b[i].tokens) << position << " " << sample << " " << i;
    }
}

TEST(Generate, ResultsDoNotDependOnTheBatch) {
  const auto model = byte_model();
  const std::vector<std::string> prompts = {"one", "two, longer", "3", "", "five five five five", "6"};
  GenerateConfig config = settings(true);
  const auto all = continue_all(*model, prompts, config);
  for (int64_t size : {1, 2, 4, 5, 100}) {
    config.batch_size = size;
    const auto parts = continue_all(*model, prompts, config);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(parts[i].tokens, all[i].tokens) << size << " " << i;
  }
  // Greedy: each alone is each in the batch.
  const auto greedy = continue_all(*model, prompts, settings(false));
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(continue_all(*model, {prompts[i]}, settings(false))[0].tokens, greedy[i].tokens);
  // Sequences that end earlier leave the batch without a trace.
  config.stop = {std::string(1, char(all[0].tokens[2]))};
  const auto stopped = continue_all(*model, prompts, config);
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_TRUE(std::equal(stopped[i].tokens.begin(), stopped[i].tokens.end(), all[i].tokens.begin())) << i;
}

TEST(Generate, SeedsChangeDrawsAndOnlyThey) {
  const auto model = byte_model();
  GenerateConfig a = settings(true), b = a;
  b.seed = 99;
  EXPECT_EQ(continue_all(*model, {"x"}, a)[0].tokens, continue_all(*model, {"x"}, a)[0].tokens);
  EXPECT_NE(continue_all(*model, {"x"}, a)[0].tokens, continue_all(*model, {"x"}, b)[0].tokens);
  a.do_sample = b.do_sample = false;
  EXPECT_EQ(continue_all(*model, {"x"}, a)[0].tokens, continue_all(*model, {"x"}, b)[0].tokens);
}

// A model whose text is known: the table makes each byte be followed by the next of a cycle.
class Parrot {
 public:
  explicit Parrot(const std::string& cycle, int64_t positions = 256) {
    // Nothing but embedding and head; the rows of the untied head point from a byte to its successor.
    model = std::make_unique<Model>(
        kit::model_config(cat("{vocab_size: 257, hidden_size: 257, num_hidden_layers: 0, max_position_embeddings: ",
                              positions, ", position: none, norm: {type: rms}, tie_word_embeddings: false}")),
        ModelOptions{});
    for (Parameter& p : model->parameters().all()) {
      const bool embedding = p.name.find("embedding") != std::string::npos,
                 head = p.name.find("head") != std::string::npos;
      if (!embedding && !head) continue;
      fill_zero(p.master.value());
      if (embedding)
        for (int64_t i = 0; i < 257; ++i) set_value(p.master.value(), i * 257 + i, 1);
      else
        for (size_t i = 0; i < cycle.size(); ++i)
          set_value(p.master.value(),
                    int64_t(static_cast<unsigned char>(cycle[i])) * 257 +
                        static_cast<unsigned char>(cycle[(i + 1) % cycle.size()]),
                    5);
    }
  }
  std::unique_ptr<Model> model;
};

// Pr(stop) >= Pr(goes on) + theta is Pr(stop) >= (1 + theta) / 2.
// oracle: cond.early_stop
TEST(Generate, EarlyStopsBothFormsAgree) {
  for (double p = 0; p <= 1; p += 0.0625)
    for (double theta = -1; theta <= 1; theta += 0.125)
      EXPECT_EQ(stops_early(p, theta), p >= (1 - p) + theta) << p << theta;
  EXPECT_TRUE(stops_early(1, 1));
  EXPECT_FALSE(stops_early(0.999, 1));
  EXPECT_TRUE(stops_early(0, -1));
}

// oracle: cond.early_stop
TEST(Generate, EarlyStoppedTextsBeginTheWholeOnes) {
  const auto of = [](const std::string& head) {
    Model model(
        kit::model_config("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 64, "
                          "mixer: {type: attention, num_attention_heads: 2}}",
                          "head: " + head),
        ModelOptions{.seed = 4});
    kit::randomise(model.parameters(), 4);
    return model;
  };
  const Model model = of("{type: lm, early_stop: true, stop_token: 256}");
  EXPECT_EQ(model.parameters().count(), of("lm").parameters().count() + 2 * 16 + 2);
  size_t stopped = 0;
  for (const bool sample : {false, true}) {
    GenerateConfig config = settings(sample, 30);
    const Generation whole = continue_all(model, {"hello"}, config)[0];
    config.early_stop = true;
    size_t longest = 0;
    for (const double theta : {-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0}) {
      config.early_stop_margin = theta;
      const Generation g = continue_all(model, {"hello"}, config)[0];
      ASSERT_LE(g.tokens.size(), whole.tokens.size());
      EXPECT_TRUE(std::equal(g.tokens.begin(), g.tokens.end(), whole.tokens.begin())) << theta;
      EXPECT_GE(g.tokens.size(), longest) << theta;  // a larger margin stops no earlier
      longest = g.tokens.size();
      EXPECT_TRUE(theta > -1 || g.tokens.empty());
      EXPECT_EQ(g.finish == Finish::early_stop, g.tokens.size() < whole.tokens.size()) << theta;
      stopped += g.finish == Finish::early_stop && !g.tokens.empty();
    }
    EXPECT_EQ(longest, whole.tokens.size());
  }
  const Model plain = of("lm");
  GenerateConfig config = settings(false);
  config.early_stop = true;
  EXPECT_EQ(kit::coded_error_of([&] { continue_all(plain, {"a"}, config); }).substr(0, 40),
            "2 generate: early_stop asks the head whe");
}

// A batch of texts leaves the layers where each would alone, and exits are those of the settings.
// oracle: exit.classifier
TEST(Generate, ExitsDoNotDependOnTheBatch) {
  Model model(kit::model_config("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 4, max_position_embeddings: 64, "
                                "mixer: {type: attention, num_attention_heads: 2}, stack: early_exit}"),
              ModelOptions{.seed = 4});
  kit::randomise(model.parameters(), 4, 0.4);
  const std::vector<std::string> prompts = {"hello", "a", "some longer prompt"};
  GenerateConfig config = settings(false, 12);
  const auto whole = continue_all(model, prompts, config);
  for (const char* rule : {"entropy:5", "patience:1", "similarity:0.9", "layer:2"}) {
    config.exit = rule;
    config.batch_size = 3;
    GenerateTimes times;
    const auto together = generate(model, *kBytes, prompts, config, {}, &times);
    EXPECT_GT(times.mean_layers, 0.99) << rule;
    EXPECT_LT(times.mean_layers, 4) << rule;
    config.batch_size = 1;
    const auto alone = continue_all(model, prompts, config);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(together[i].tokens, alone[i].tokens) << rule;
  }
  config.exit = "entropy:0";
  const auto none = continue_all(model, prompts, config);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(none[i].tokens, whole[i].tokens);
}

TEST(Generate, StopStringsEndBeforeThemAlsoAcrossTokens) {
  const Parrot parrot("abcdefgh");
  const auto with = [&](const std::vector<std::string>& stops, int64_t tokens = 30) {
    GenerateConfig c = settings(false, tokens);
    c.stop = stops;
    std::string streamed;
    const auto g = generate(*parrot.model, *kBytes, {"a"}, c, [&](size_t, std::string_view piece) {
      streamed += piece;
      return true;
    })[0];
    EXPECT_EQ(streamed, g.text);
    return g.text + " " + to_string(g.finish);
  };
  EXPECT_EQ(with({}, 10), "bcdefghabc length");
  EXPECT_EQ(with({"e"}), "bcd stop");
  EXPECT_EQ(with({"efg"}), "bcd stop");  // three tokens
  EXPECT_EQ(with({"gha", "xyz"}), "bcdef stop");
  EXPECT_EQ(with({"habcdefghabc"}), "bcdefg stop");
  EXPECT_EQ(with({"defx", "fgh"}), "bcde stop");  // the first begins to match and does not
  EXPECT_EQ(with({"fg", "ef"}), "bcd stop");      // the one that begins first
  EXPECT_EQ(with({"b"}), " stop");
  EXPECT_EQ(with({"ghx"}, 10), "bcdefghabc length");
  EXPECT_EQ(with({"cx"}, 2), "bc length");     // what was held back comes out at the end
  EXPECT_EQ(with({"ab"}, 9), "bcdefgh stop");  // a stop string that ends with the last token
}

TEST(Generate, CharactersAreStreamedWhole) {
  const Parrot parrot("a\xC3\xA4\xE2\x82\xAC");  // a, U+00E4, U+20AC
  GenerateConfig c = settings(false, 11);
  std::vector<std::string> pieces;
  const auto g = generate(*parrot.model, *kBytes, {"a"}, c, [&](size_t, std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  })[0];
  EXPECT_EQ(g.text,
            "\xC3\xA4\xE2\x82\xAC"
            "a\xC3\xA4\xE2\x82\xAC");
  EXPECT_EQ(pieces.size(), 5u);
  c.max_new_tokens = 4;  // cut inside U+20AC
  EXPECT_EQ(generate(*parrot.model, *kBytes, {"a"}, c)[0].text, "\xC3\xA4\xEF\xBF\xBD");
}

TEST(Generate, PositionsLimitTheLength) {
  const auto model = byte_model("learned", 12);
  const auto g = continue_all(*model, {"hello", "hello wor"}, settings(false, 1000));
  // 6 tokens of prompt: positions 6 to 11 hold what was generated, and what stands behind the last needs none.
  EXPECT_EQ(g[0].tokens.size(), 7u);
  EXPECT_EQ(g[1].tokens.size(), 3u);
  EXPECT_EQ(g[0].finish, Finish::positions);
  EXPECT_EQ(continue_all(*model, {"hello"}, settings(false, 7))[0].finish, Finish::length);
  try {
    continue_all(*model, {"ok", "far too long a prompt"}, settings(false));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "generate: prompt 2 has 22 tokens, the model has positions for 12; shorten it");
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

TEST(Generate, RefusesBadInput) {
  const auto model = byte_model();
  GenerateConfig c = settings(true);
  c.stop = {"a", ""};
  EXPECT_THROW(continue_all(*model, {"x"}, c), Error);
  for (double bad : {-1.0, std::nan(""), double(INFINITY)}) {
    c = settings(true);
    c.temperature = bad;
    EXPECT_THROW(continue_all(*model, {"x"}, c), Error) << bad;
    c = settings(true);
    c.repetition_penalty = bad;
    EXPECT_THROW(continue_all(*model, {"x"}, c), Error) << bad;
  }
  for (double bad : {0.0, -0.1, 1.5, std::nan("")}) {
    c = settings(true);
    c.top_p = bad;
    EXPECT_THROW(continue_all(*model, {"x"}, c), Error) << bad;
  }
  for (int64_t bad : {int64_t(0), int64_t(-5), INT64_MAX})
    EXPECT_THROW(continue_all(*model, {"x"}, settings(true, bad)), Error) << bad;
  EXPECT_TRUE(continue_all(*model, {}, settings(true)).empty());
}

TEST(Generate, AStopSignalEndsItWithWhatThereIs) {
  const auto model = byte_model();
  set_stop_signal(SIGTERM);
  const auto g = continue_all(*model, {"x", "y"}, settings(false));
  set_stop_signal(0);
  for (const Generation& one : g) EXPECT_EQ(one.finish, Finish::interrupted);
}

TEST(Generate, TimesCountTokens) {
  const auto model = byte_model();
  GenerateTimes times;
  generate(*model, *kBytes, {"ab", "cde"}, settings(false, 5), {}, &times);
  EXPECT_EQ(times.prompt_tokens, 3 + 4);
  EXPECT_LE(times.new_tokens, 10);
  EXPECT_EQ(times.peak_state_bytes % (2 * 2 * 16 * 4), 0);  // two layers, keys and values of 16 floats
  EXPECT_GT(times.peak_state_bytes, 0);
}

// oracle: infer.kv_cache, hpc.paged
TEST(Generate, TextsDoNotDependOnWhoRunsBeside) {
  const auto model = byte_model("rotary", 512);
  std::vector<std::string> prompts;
  for (int i = 0; i < 23; ++i) prompts.push_back(std::string(size_t(i * 37 % 150), char('a' + i)));
  for (const char* type : {"", "bf16", "int8", "int4"}) {
    GenerateConfig config = settings(true, 70);
    config.cache_dtype = type;
    config.prefill_tokens = 48;
    config.stop = {"q", "zz"};  // so that they end at different times
    config.batch_size = 1;
    config.cache_tokens = 0;
    const std::vector<Generation> alone = continue_all(*model, prompts, config);
    for (int64_t batch : {2, 5, 23})
      for (int64_t budget : {0, 300, 1000}) {
        config.batch_size = batch;
        config.cache_tokens = budget;
        const auto together = continue_all(*model, prompts, config);
        for (size_t i = 0; i < prompts.size(); ++i)
          EXPECT_EQ(together[i].tokens, alone[i].tokens) << type << " " << batch << " " << budget << " " << i;
      }
  }
}

TEST(Generate, HandsResultsOnInOrderAndKeepsToItsBudget) {
  const auto model = byte_model("rotary", 512);
  std::vector<std::string> prompts;
  for (int i = 0; i < 40; ++i) prompts.push_back(std::string(size_t(i % 7 * 20), 'x'));
  GenerateConfig config = settings(false, 30);
  config.batch_size = 8;
  config.cache_tokens = 320;
  std::vector<size_t> order;
  GenerateTimes times;
  generate_each(*model, *kBytes, prompts, config,
                {.on_text = {},
                 .on_done =
                     [&](size_t i, Generation&& result) {
                       order.push_back(i);
                       EXPECT_NE(result.finish, Finish::interrupted);
                     }},
                &times);
  std::vector<size_t> all(prompts.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  EXPECT_EQ(order, all);
  // Two layers of keys and values of 16 floats a token; a page of 64 tokens more for each of 8 sequences at most.
  EXPECT_LE(times.peak_state_bytes, 320 * 2 * 2 * 16 * 4);
  EXPECT_LE(times.peak_state_allocated, (320 + 8 * 63) * 2 * 2 * 16 * 4);
  EXPECT_GE(times.peak_state_allocated, times.peak_state_bytes);
  EXPECT_EQ(ledger(Device::cpu).current(MemoryClass::decode), 0);
  config.cache_tokens = 100;
  try {
    continue_all(*model, {"short", std::string(90, 'x')}, config);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "generate: prompt 2 may come to 121 tokens, cache_tokens allows 100; raise it or lower max_new_tokens");
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

TEST(Generate, AStopSignalKeepsWhatIsDone) {
  const auto model = byte_model();
  GenerateConfig config = settings(false, 5);
  config.batch_size = 2;
  std::vector<Finish> finishes;
  generate_each(*model, *kBytes, std::vector<std::string>(9, "x"), config,
                {.on_text = {}, .on_done = [&](size_t i, Generation&& result) {
                   finishes.push_back(result.finish);
                   if (i == 2) set_stop_signal(SIGINT);
                 }});
  set_stop_signal(0);
  // The fourth ends in the step of the third; no others begin.
  EXPECT_EQ(finishes, std::vector<Finish>(4, Finish::length));
}

// oracle: hpc.ptq, infer.kv_cache
TEST(Generate, ACacheOf8BitsMovesLogitsAsFarAsItsRoundingMay) {
  const auto model = byte_model();
  const auto logits = [&](std::optional<DType> type) {
    const NoGrad no_grad;
    const auto state = model->make_state(1, 40, type);
    std::vector<double> out;
    for (int32_t i = 0; i < 40; ++i) {
      const Tensor row = kit::logits(*model, tensor_of({1}, std::vector<int32_t>{i * 7 % 257}),
                                     model->continue_sequences(*state, {1}), state.get())
                             .value();
      for (int64_t c = 0; c < row.numel(); ++c) out.push_back(value_at(row, c));
    }
    EXPECT_EQ(state->bytes(), model->state_bytes({40}, {}, type));
    return out;
  };
  // What noise of the size of the rounding does: rows of a head are rounded to steps of max / 127, so a number is moved
  // by 1/254 of the largest beside it at most. A cache of bf16 moves it by 1/256 of itself at most.
  const auto exact = logits({}), half = logits(DType::bf16), bytes = logits(DType::i8);
  const auto distance = [&](const std::vector<double>& x) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - exact[i]) * (x[i] - exact[i]);
    return std::sqrt(sum / double(x.size()));
  };
  EXPECT_GT(distance(half), 0);
  EXPECT_GT(distance(bytes), 0);
  // The largest of 8 numbers is at most sqrt(8) of their root mean square, and the rounding of bf16 at least a quarter
  // of its bound in the mean (uniform in a binade): 8-bit noise is at most 4 sqrt(8) 256/254 times that of bf16.
  EXPECT_LT(distance(bytes), 4 * std::sqrt(8.0) * 1.01 * distance(half));
  EXPECT_EQ(model->state_bytes({40}, {}, DType::i8), 40 * 2 * 2 * (16 + 2 * 4));
  // In 4 bits a step is a 15th of what lies between the numbers of a head, not a 127th of the largest of them.
  const auto codes = logits(DType::u8);
  EXPECT_GT(distance(codes), distance(bytes));
  EXPECT_LT(distance(codes), 2.0 * 127 / 15 * 4 * distance(bytes));
  EXPECT_EQ(model->state_bytes({40}, {}, DType::u8), 40 * 2 * 2 * (8 + 2 * 2 * 2));
}

}  // namespace
}  // namespace lithe
