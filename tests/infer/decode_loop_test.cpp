#include "lithe/infer/decode_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "lithe/base/random.h"
#include "lithe/infer/speculative.h"
#include "tests/infer/infer_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

using Random = std::mt19937_64;
using Id = DecodeLoop::Id;

int64_t below(Random& random, int64_t n) { return int64_t(random() % uint64_t(n)); }

std::unique_ptr<Model> model_with_exits() {
  set_threads(1);
  auto model = std::make_unique<Model>(
      kit::model_config("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 4, max_position_embeddings: 96, mixer: "
                        "{type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}, stack: "
                        "early_exit}"),
      ModelOptions{.seed = 4});
  kit::randomise(model->parameters(), 4, 0.4);
  return model;
}

std::unique_ptr<Model> model_that_translates(const std::string& cross) {
  set_threads(1);
  auto model = std::make_unique<Model>(
      kit::model_config(cat("{architecture: encoder_decoder, vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, "
                            "max_position_embeddings: 96, mixer: {type: attention, num_attention_heads: 2}, "
                            "cross_attention: ",
                            cross, "}")),
      ModelOptions{.seed = 4});
  kit::randomise(model->parameters(), 4, 0.6);
  return model;
}

std::vector<int32_t> tokens_of(const std::string& text) { return kBytes->encode(text); }

DecodeRequest request_of(const std::string& text, int64_t tokens = 8, bool sample = false, uint64_t key = 0) {
  DecodeRequest out{.tokens = tokens_of(text), .config = settings(sample, tokens), .key = key, .end_tokens = {256}};
  return out;
}

struct Outcome {
  std::vector<int32_t> tokens;
  Finish finish = Finish::interrupted;
  bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& o, std::ostream* out) {
  *out << to_string(o.finish) << " after " << testing::PrintToString(o.tokens);
}

// What became of requests, by the number that the test gave them.
struct Outcomes {
  std::map<size_t, DecodeResult> of;
  std::function<void(DecodeResult&&)> put(size_t i) {
    return [this, i](DecodeResult&& result) {
      EXPECT_TRUE(of.emplace(i, std::move(result)).second) << "done twice: " << i;
    };
  }
  Outcome operator[](size_t i) const {
    const auto at = of.find(i);
    return at == of.end() ? Outcome{} : Outcome{at->second.tokens, at->second.finish};
  }
};

Outcome alone(const Model& model, DecodeRequest request, DecodeBudget budget = {}) {
  Outcomes done;
  request.on_done = done.put(0);
  budget.slots = 1;
  budget.longest = 96;
  DecodeLoop loop(model, budget);
  loop.submit(std::move(request));
  while (loop.step()) continue;
  return done[0];
}

struct FromFunction final : RowStep {
  explicit FromFunction(std::function<void(LogitRow&)> function) : function(std::move(function)) {}
  void apply(LogitRow& row) const override { function(row); }
  std::function<void(LogitRow&)> function;
};

std::shared_ptr<const LogitStep> from(std::function<void(LogitRow&)> function) {
  return std::make_shared<FromFunction>(std::move(function));
}

// A request whose settings are its own in every respect.
DecodeRequest random_request(Random& random, bool exits, bool source) {
  DecodeRequest out = request_of(std::string(size_t(1 + below(random, 40)), char('a' + below(random, 20))),
                                 1 + below(random, 20), below(random, 4) > 0, random() % 1000);
  for (int32_t& token : out.tokens) token = (token + int32_t(below(random, 3))) % 256;
  GenerateConfig& c = out.config;
  c.seed = below(random, 100);
  c.temperature = 0.25 * double(1 + below(random, 6));
  if (below(random, 3) == 0) c.top_k = 1 + below(random, 30);
  if (below(random, 3) == 0) c.top_p = 0.5 + 0.05 * double(below(random, 10));
  if (below(random, 3) == 0) c.min_p = 0.02 * double(below(random, 10));
  if (below(random, 3) == 0) c.repetition_penalty = 0.8 + 0.1 * double(below(random, 6));
  c.prefill_tokens = 1 + below(random, 50);
  const char* rules[] = {"", "", "entropy:5", "similarity:0.9", "layer:2"};
  if (exits) c.exit = rules[below(random, 5)];
  for (int64_t n = 1 + below(random, 30); source && n > 0; --n) out.source.push_back(int32_t(below(random, 257)));
  if (below(random, 4) == 0) out.steps.push_back(never({97, 98, 99, int32_t(below(random, 256))}));
  return out;
}

// Requests that come and go at random, some of them cancelled, are what they would be alone.
// oracle: infer.kv_cache, hpc.paged
TEST(DecodeLoop, WhoRunsBesideDoesNotMatter) {
  struct Case {
    std::unique_ptr<Model> model;
    bool exits;
    std::optional<DType> cache;
    bool source = false;
  };
  std::vector<Case> cases;
  cases.push_back({byte_model("rotary", 96), false, {}});
  cases.push_back({byte_model("rotary", 96), false, DType::i8});
  cases.push_back({byte_model("rotary", 96), false, DType::u8});
  cases.push_back({byte_model("learned", 96), false, {}});
  cases.push_back({byte_model("none", 96, 4, 2, "retention"), false, {}});
  cases.push_back({model_with_exits(), true, {}});
  cases.push_back({model_that_translates("{type: attention, num_attention_heads: 2}"), false, {}, true});
  cases.push_back({model_that_translates("{type: approx, num_attention_heads: 2}"), false, {}, true});
  cases.push_back(
      {model_that_translates("{type: linformer, projected_keys: 3, num_attention_heads: 2}"), false, {}, true});
  cases.push_back({model_that_translates("{type: conv_kv, num_attention_heads: 2}"), false, {}, true});
  for (size_t c = 0; c < cases.size(); ++c) {
    const Model& model = *cases[c].model;
    Random random(7 + c);
    std::vector<DecodeRequest> requests;
    std::vector<Outcome> want;
    for (int i = 0; i < 24; ++i) {
      requests.push_back(random_request(random, cases[c].exits, cases[c].source));
      want.push_back(alone(model, requests.back(), {.cache = cases[c].cache}));
    }
    for (int round = 0; round < 6; ++round) {
      Outcomes done;
      DecodeLoop loop(model, {.slots = 1 + below(random, 6),
                              .tokens = below(random, 2) ? 200 : 0,
                              .longest = 96,
                              .cache = cases[c].cache,
                              .prefill_tokens = 1 + below(random, 64)});
      std::vector<size_t> order(requests.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::map<size_t, Id> ids;
      std::set<size_t> cancelled;
      for (size_t next = 0; next < order.size() || !ids.empty();) {
        for (int64_t n = below(random, 4); n > 0 && next < order.size(); --n, ++next) {
          DecodeRequest request = requests[order[next]];
          request.on_done = done.put(order[next]);
          ids[order[next]] = loop.submit(std::move(request));
        }
        if (below(random, 5) == 0 && !ids.empty()) {
          const size_t who = std::next(ids.begin(), below(random, int64_t(ids.size())))->first;
          cancelled.insert(who);
          loop.cancel(ids[who]);
        }
        if (!loop.step() && next == order.size()) break;
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        const Outcome got = done[i];
        if (got.finish != Finish::cancelled) {
          EXPECT_EQ(got, want[i]) << "case " << c << ", round " << round << ", request " << i;
          continue;
        }
        EXPECT_TRUE(cancelled.count(i));
        ASSERT_LE(got.tokens.size(), want[i].tokens.size());
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want[i].tokens.begin())) << c << " " << i;
      }
      EXPECT_EQ(loop.running(), 0);
    }
  }
}

TEST(DecodeLoop, DrawsAreKeyedByTheRequest) {
  const auto model = byte_model();
  const Outcome first = alone(*model, request_of("hello", 20, true, 5));
  Outcomes done;
  DecodeLoop loop(*model, {.slots = 3, .longest = 96});
  for (size_t i = 0; i < 6; ++i) {
    DecodeRequest request = request_of("hello", 20, true, i < 3 ? i : 5);
    request.on_done = done.put(i);
    loop.submit(std::move(request));
  }
  while (loop.step()) continue;
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(done[i] == first, i >= 3) << i;
}

// One slot, which a second request waits for: whoever is cancelled, the second has its first token in the next step.
TEST(DecodeLoop, ACancelledRequestFreesItsSlotWithinAStep) {
  const auto model = byte_model();
  const auto run = [&](int64_t steps_before) {
    Outcomes done;
    int64_t begun = 0;
    DecodeLoop loop(*model, {.slots = 1, .longest = 96});
    DecodeRequest long_one = request_of(std::string(20, 'x'), 30), next = request_of("ab", 3);
    long_one.config.prefill_tokens = 4;
    long_one.on_done = done.put(0);
    next.on_token = [&](int32_t) { return ++begun > 0; };
    next.on_done = done.put(1);
    const Id first = loop.submit(std::move(long_one));
    loop.submit(std::move(next));
    for (int64_t i = 0; i < steps_before; ++i) EXPECT_TRUE(loop.step());
    EXPECT_EQ(begun, 0);
    EXPECT_TRUE(done.of.empty());
    loop.cancel(first);
    loop.step();
    EXPECT_EQ(begun, 1) << steps_before;
    EXPECT_EQ(done.of.at(0).finish, Finish::cancelled);
    EXPECT_EQ(done.of.at(0).begun, steps_before > 0);
    const size_t added = done.of.at(0).tokens.size();
    while (loop.step()) continue;
    EXPECT_EQ(done[1], alone(*model, request_of("ab", 3)));
    loop.cancel(first);  // who is done already is not done again
    EXPECT_FALSE(loop.step());
    return added;
  };
  EXPECT_EQ(run(0), 0u);  // in the queue
  EXPECT_EQ(run(2), 0u);  // its prompt is read in five pieces
  EXPECT_EQ(run(9), 5u);  // the fifth step gives a token
  // Behind others in the queue.
  Outcomes done;
  DecodeLoop loop(*model, {.slots = 1, .longest = 96});
  std::vector<Id> ids;
  for (size_t i = 0; i < 3; ++i) {
    DecodeRequest request = request_of("x", 5);
    request.on_done = done.put(i);
    ids.push_back(loop.submit(std::move(request)));
  }
  loop.step();
  EXPECT_EQ(loop.waiting(), 2);
  loop.cancel(ids[1]);
  loop.step();
  EXPECT_EQ(loop.waiting(), 1);
  EXPECT_EQ(done[1].finish, Finish::cancelled);
  while (loop.step()) continue;
  EXPECT_EQ(done[0], done[2]);
  EXPECT_EQ(done[2].finish, Finish::length);
}

TEST(DecodeLoop, RefusesWhatCanNeverRun) {
  const auto model = byte_model("learned", 64);
  DecodeLoop loop(*model, {.tokens = 50, .longest = 40});
  const auto refused = [&](DecodeRequest request) {
    return kit::coded_error_of([&] { loop.submit(std::move(request)); });
  };
  EXPECT_EQ(refused({}), "2 generate: the request has no tokens; give it one to begin with");
  EXPECT_EQ(refused(request_of(std::string(65, 'x'))),
            "2 generate: the request has 65 tokens, the model has positions for 64; shorten it");
  EXPECT_EQ(refused(request_of("hello", 46)),
            "2 generate: the request may come to 51 tokens, cache_tokens allows 50; raise it or lower max_new_tokens");
  EXPECT_EQ(refused(request_of("hello", 36)),
            "2 generate: the request may come to 41 tokens, the loop allows one 40; raise longest or lower "
            "max_new_tokens");
  DecodeRequest bad = request_of("hello");
  bad.tokens[2] = 257;
  EXPECT_EQ(refused(bad), "2 generate: the request has token 257, the model has 257");
  bad = request_of("hello");
  bad.vocab_size = 300;
  EXPECT_EQ(refused(bad), "2 generate: the request is limited to a vocabulary of 300, the model has 257");
  bad = request_of("hello");
  bad.config.cache_dtype = "int8";
  EXPECT_EQ(refused(bad),
            "2 generate: the request names another cache than the loop's; leave use_cache and cache_dtype out");
  bad = request_of("hello");
  bad.config.early_stop = true;
  EXPECT_EQ(refused(bad).substr(0, 40), "2 generate: early_stop asks the head whe");
  bad = request_of("hello");
  bad.config.exit = "layer:1";
  EXPECT_EQ(refused(bad).substr(0, 40), "2 exit: rule layer:1: this model's stack");
  bad = request_of("hello");
  bad.config.top_p = 2;
  EXPECT_EQ(refused(bad), "2 generate: top_p must be above 0 and at most 1, got 2");
  EXPECT_FALSE(loop.step());
  EXPECT_EQ(kit::coded_error_of([&] { DecodeLoop(*model, {.slots = 0}); }).substr(0, 40),
            "2 generate: a loop needs a slot and a to");
  const auto endless = byte_model("rotary");
  EXPECT_EQ(kit::coded_error_of([&] { DecodeLoop(*endless, {}); }),
            "2 generate: the model has positions without end; say how many tokens a request may come to (longest)");
  EXPECT_EQ(alone(*endless, request_of("hello")), alone(*endless, request_of("hello"), {.tokens = 13}));
}

TEST(DecodeLoop, RefusesSourcesThatDoNotFit) {
  const auto plain = byte_model("learned"),
             translating = model_that_translates("{type: attention, num_attention_heads: 2}");
  const auto refused = [](const Model& model, std::vector<int32_t> source) {
    DecodeLoop loop(model, {.longest = 40});
    DecodeRequest request = request_of("hello");
    request.source = std::move(source);
    return kit::coded_error_of([&] { loop.submit(request); });
  };
  EXPECT_EQ(refused(*plain, {1}), "2 generate: the request has a source of 1 tokens; architecture decoder reads none");
  EXPECT_EQ(refused(*translating, {}),
            "2 generate: the request has a source of 0 tokens; architecture encoder_decoder needs one");
  EXPECT_EQ(refused(*translating, {1, 257}),
            "2 generate: the request has token 257 in its source, the encoder has 257");
  EXPECT_EQ(refused(*translating, {1, 256}), "no error");
}

// What the model says of its tokens, whatever steps make of that: the sum of each row is 1.
TEST(DecodeLoop, GivesTheModelsLogProbabilities) {
  const auto model = byte_model();
  std::vector<double> sums;
  Outcomes done;
  DecodeLoop loop(*model, {.longest = 96});
  for (size_t i = 0; i < 257; ++i) {
    DecodeRequest request = request_of("hello", 1);
    request.steps = {from([i](LogitRow& row) { row.choice.take(int32_t(i)); })};
    request.log_probabilities = true;
    request.on_done = done.put(i);
    loop.submit(std::move(request));
  }
  DecodeRequest request = request_of("hello", 6);
  request.on_done = done.put(1000);
  loop.submit(std::move(request));
  while (loop.step()) continue;
  double sum = 0, most = -INFINITY;
  for (size_t i = 0; i < 257; ++i) {
    ASSERT_EQ(done.of.at(i).log_probabilities.size(), 1u) << i;
    EXPECT_EQ(done.of.at(i).finish, i == 256 ? Finish::end : Finish::length);
    sum += std::exp(done.of.at(i).log_probabilities[0]);
    most = std::max(most, done.of.at(i).log_probabilities[0]);
  }
  EXPECT_NEAR(sum, 1, 257 * 10 * std::numeric_limits<float>::epsilon());  // logits of about 10, each rounded to f32
  EXPECT_EQ(done.of.at(size_t(done[1000].tokens[0])).log_probabilities[0], most);
  EXPECT_TRUE(done.of.at(1000).log_probabilities.empty());
}

TEST(DecodeLoop, ForgettingStatesAloneAreDrafted) {
  const auto model = byte_model("none", 64, 4, 2, "retention");
  const auto drafter = lookup_drafter();
  DecodeLoop loop(*model, {.longest = 96});
  DecodeRequest request = request_of("hello");
  request.drafter = drafter.get();
  EXPECT_EQ(kit::coded_error_of([&] { loop.submit(request); }).substr(0, 41),
            "2 generate: drafted tokens that are not t");
}

// Requests with drafters of their own run beside others, and greedy ones are what they are without.
// oracle: search.speculative
TEST(DecodeLoop, DraftedRequestsRunBesideOthers) {
  const auto model = byte_model("rotary", 96), other = byte_model("rotary", 96, 9, 1);
  Outcomes done;
  DecodeLoop loop(*model, {.slots = 4, .longest = 96});
  std::vector<std::unique_ptr<Drafter>> drafters;
  std::vector<DecodeRequest> requests;
  for (size_t i = 0; i < 9; ++i) {
    DecodeRequest request = request_of(std::string(5 * i + 1, char('a' + i)) + "xyxy", 30, i % 3 == 2, i);
    request.config.repetition_penalty = 1 + 0.1 * double(i % 2);
    requests.push_back(request);
    if (i % 3 == 0) drafters.push_back(lookup_drafter());
    if (i % 3 == 1) drafters.push_back(model_drafter(*other, *kBytes, request.config));
    if (i % 3 < 2) request.drafter = drafters.back().get();
    request.on_done = done.put(i);
    loop.submit(std::move(request));
  }
  while (loop.step()) continue;
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(done[i], alone(*model, requests[i])) << i;
  EXPECT_GT(loop.times().drafted, 0);
  EXPECT_LE(loop.times().taken, loop.times().drafted);
}

TEST(DecodeLoop, AnErrorEndsItsRequestAlone) {
  const auto model = byte_model();
  Outcomes done;
  DecodeLoop loop(*model, {.slots = 6, .longest = 96});
  const auto submit = [&](size_t i, DecodeRequest request) {
    request.on_done = done.put(i);
    loop.submit(std::move(request));
  };
  const auto behind = [](size_t n, auto what) {  // in the choice of token n
    return from([n, what](LogitRow& row) {
      if (row.tokens.size() == size_t(row.prompt_tokens) + n) what(row);
    });
  };
  DecodeRequest request = request_of("hello");
  submit(0, request);
  request.steps = {behind(2, [](LogitRow&) { fail("grammar", "no such rule"); })};
  submit(1, request);
  request.steps = {behind(3, [](LogitRow& row) { row.choice.scores()[7] = NAN; })};
  submit(2, request);
  request.steps = {behind(1, [](LogitRow& row) {
    for (int32_t token = 0; token < 257; ++token) row.choice.forbid(token);
  })};
  submit(3, request);
  request.steps = {};
  request.on_token = [](int32_t) -> bool { throw std::runtime_error("gone"); };
  submit(4, request);
  while (loop.step()) continue;
  EXPECT_EQ(done[0], alone(*model, request_of("hello")));
  const auto error_of = [&](size_t i) -> std::string {
    EXPECT_EQ(done[i].finish, Finish::failed) << i;
    try {
      std::rethrow_exception(done.of.at(i).error);
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  EXPECT_EQ(error_of(1), "grammar: no such rule");
  EXPECT_EQ(done[1].tokens.size(), 2u);
  EXPECT_EQ(error_of(2), "generate: the model's logits are not finite; its weights are damaged or diverged");
  EXPECT_EQ(error_of(3), "generate: no token is left to choose from: each has probability 0");
  EXPECT_EQ(error_of(4), "gone");
  EXPECT_EQ(loop.running(), 0);
}

// A constraint of one request: digits alone, then a full stop, whatever the model prefers.
TEST(DecodeLoop, ConstraintsAreSteps) {
  const auto model = byte_model();
  const auto digits = from([](LogitRow& row) {
    const bool last = row.tokens.size() == size_t(row.prompt_tokens) + 4;
    for (int32_t token = 0; token < 257; ++token)
      if (last ? token != '.' : token < '0' || token > '9') row.choice.forbid(token);
  });
  Outcomes done;
  DecodeLoop loop(*model, {.longest = 96});
  for (size_t i = 0; i < 4; ++i) {
    DecodeRequest request = request_of("7", 5, i % 2 == 0, i);
    if (i < 2) request.steps = {digits};
    request.on_done = done.put(i);
    loop.submit(std::move(request));
  }
  while (loop.step()) continue;
  for (size_t i = 0; i < 2; ++i) {
    const std::string text = kBytes->decode(done[i].tokens);
    EXPECT_EQ(text.find_first_not_of("0123456789"), 4u) << text;
    EXPECT_EQ(text.substr(4), ".");
  }
  for (size_t i = 2; i < 4; ++i) EXPECT_EQ(done[i], alone(*model, request_of("7", 5, i % 2 == 0, i)));
}

TEST(DecodeLoop, AStepThatRequestsShareRunsOnceForAllOfThem) {
  struct Counting final : LogitStep {
    mutable std::vector<size_t> calls;
    void apply(std::span<LogitRow* const> rows) const override { calls.push_back(rows.size()); }
  };
  const auto model = byte_model();
  const auto shared = std::make_shared<Counting>();
  DecodeLoop loop(*model, {.slots = 8, .longest = 96});
  for (int i = 0; i < 5; ++i) {
    DecodeRequest request = request_of(std::string(size_t(i + 1), 'x'), 3);
    if (i < 4) request.steps = {shared};
    request.end_tokens = {};
    loop.submit(std::move(request));
  }
  while (loop.step()) continue;
  EXPECT_EQ(shared->calls, (std::vector<size_t>{4, 4, 4}));
}

TEST(DecodeLoop, SaysWhyARequestIsDone) {
  const auto model = byte_model("learned", 12);
  DecodeRequest request = request_of("hello", 3);
  request.end_tokens = {};
  const Outcome three = alone(*model, request);
  EXPECT_EQ(three.finish, Finish::length);
  ASSERT_EQ(three.tokens.size(), 3u);
  request.config.max_new_tokens = 100;
  EXPECT_EQ(alone(*model, request).finish, Finish::positions);
  EXPECT_EQ(alone(*model, request).tokens.size(), 8u);
  int seen = 0;
  request.on_token = [&](int32_t) { return ++seen < 2; };
  EXPECT_EQ(alone(*model, request), (Outcome{{three.tokens[0], three.tokens[1]}, Finish::stop}));
  request.on_token = {};
  request.end_tokens = {three.tokens[2]};
  const Outcome ended = alone(*model, request);
  EXPECT_EQ(ended.finish, Finish::end);
  EXPECT_EQ(ended.tokens.size(),
            size_t(std::find(three.tokens.begin(), three.tokens.end(), three.tokens[2]) - three.tokens.begin()));

  Outcomes done;
  DecodeLoop loop(*model, {.slots = 1, .longest = 96});
  for (size_t i = 0; i < 2; ++i) {
    DecodeRequest one = request_of("hello", 5);
    one.end_tokens = {};
    one.on_done = done.put(i);
    loop.submit(std::move(one));
  }
  loop.step();
  loop.interrupt();
  EXPECT_EQ(done[0], (Outcome{{three.tokens[0]}, Finish::interrupted}));
  EXPECT_EQ(done[1], (Outcome{{}, Finish::interrupted}));
  EXPECT_TRUE(done.of.at(0).begun);
  EXPECT_FALSE(done.of.at(1).begun);
  EXPECT_FALSE(loop.step());
}

TEST(DecodeLoop, KeepsToItsBudget) {
  const auto model = byte_model("rotary", 512);
  Random random(3);
  {
    DecodeLoop loop(*model, {.slots = 8, .tokens = 320});
    for (int i = 0; i < 40; ++i) loop.submit(request_of(std::string(size_t(1 + below(random, 90)), 'x'), 30));
    while (loop.step()) EXPECT_LE(loop.running(), 8);
    // Two layers of keys and values of 16 floats a token; a page of 64 tokens more for each of 8 sequences at most.
    EXPECT_GT(loop.times().peak_state_bytes, 160 * 2 * 2 * 16 * 4);
    EXPECT_LE(loop.times().peak_state_bytes, 320 * 2 * 2 * 16 * 4);
    EXPECT_LE(loop.times().peak_state_allocated, (320 + 8 * 63) * 2 * 2 * 16 * 4);
    EXPECT_EQ(ledger(Device::cpu).current(MemoryClass::decode), 0);  // who is done leaves nothing
  }
}

// Threads submit and cancel while another steps; callbacks do, too.
TEST(DecodeLoop, AnyThreadMaySubmitAndCancel) {
  const auto model = byte_model();
  constexpr size_t kThreads = 4, kEach = 12;
  std::vector<Outcome> want;
  for (size_t i = 0; i < kThreads * kEach; ++i)
    want.push_back(alone(*model, request_of(std::string(1 + i % 7, char('a' + i % 26)), 6, true, i)));
  Outcomes done;  // of the stepping thread
  DecodeLoop loop(*model, {.slots = 5, .longest = 96});
  std::atomic<size_t> left = kThreads;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t * kEach; i < (t + 1) * kEach; ++i) {
        DecodeRequest request = request_of(std::string(1 + i % 7, char('a' + i % 26)), 6, true, i);
        request.on_done = done.put(i);
        const Id id = loop.submit(std::move(request));
        if (i % 4 == 3) loop.cancel(id);
        if (i % 3 == 0) std::this_thread::yield();
      }
      --left;
    });
  bool followed = false;
  DecodeRequest last = request_of("z", 4);
  last.on_done = [&](DecodeResult&& result) { followed = result.finish == Finish::cancelled; };
  DecodeRequest first = request_of("y", 4);
  first.on_done = [&](DecodeResult&&) { loop.cancel(loop.submit(std::move(last))); };
  loop.submit(std::move(first));
  while (left > 0 || loop.wait(std::chrono::milliseconds(0))) {
    loop.wait(std::chrono::milliseconds(20));
    loop.step();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(followed);
  EXPECT_EQ(done.of.size(), kThreads * kEach);
  for (size_t i = 0; i < want.size(); ++i) {
    const Outcome got = done[i];
    if (i % 4 == 3 && got.finish == Finish::cancelled)
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want[i].tokens.begin()));
    else
      EXPECT_EQ(got, want[i]) << i;
  }
}

TEST(DecodeLoop, MayStepNoMoreAfterAnErrorOfACallback) {
  const auto model = byte_model();
  DecodeLoop loop(*model, {.longest = 96});
  DecodeRequest request = request_of("a", 1);
  request.on_done = [](DecodeResult&&) { throw std::runtime_error("no room"); };
  loop.submit(std::move(request));
  EXPECT_THROW(loop.step(), std::runtime_error);
  EXPECT_EQ(kit::coded_error_of([&] { loop.step(); }).substr(0, 38), "1 generate: the loop steps already, or");
}

}  // namespace
}  // namespace lithe
