#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>

#include "lithe/base/random.h"
#include "lithe/infer/generate.h"
#include "lithe/serve/completion_run.h"
#include "lithe/text/utf8.h"
#include "tests/serve/serve_kit.h"

namespace lithe {
namespace {

TEST_F(ServeTest, ACompletionIsWhatTheModelGenerates) {
  begin();
  GenerateConfig config;
  config.max_new_tokens = 12;
  config.seed = 7;
  const Generation want = generate(models_[0]->model(), models_[0]->tokenizer(), {"Once "}, config)[0];
  const std::string body = R"({"model": "tiny", "prompt": "Once ", "max_tokens": 12, "seed": 7})";
  const Json a = post("/v1/completions", body), b = post("/v1/completions", body);
  EXPECT_EQ(a["choices"][0]["text"], valid_utf8(want.text));
  EXPECT_EQ(a["choices"], b["choices"]);
  EXPECT_EQ(a["object"], "text_completion");
  EXPECT_EQ(a["usage"]["prompt_tokens"], want.prompt_tokens);
  EXPECT_EQ(a["usage"]["completion_tokens"], want.tokens.size());
}

// What the harness asks for: always one entry more than the prompt has, the first null, and greedy ones equal to the
// best.
TEST_F(ServeTest, PromptsAreScored) {
  begin();
  const Json answer =
      post("/v1/completions",
           R"({"model": "tiny", "prompt": [[72, 101, 108], [108, 111]], "max_tokens": 1, "logprobs": 1, "echo": true,
                               "temperature": 0, "seed": 1234})");
  ASSERT_EQ(answer["choices"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Json& scores = answer["choices"][i]["logprobs"];
    const size_t prompt = i == 0 ? 3 : 2;
    ASSERT_EQ(scores["tokens"].size(), prompt + 1);
    ASSERT_EQ(scores["token_logprobs"].size(), prompt + 1);
    EXPECT_TRUE(scores["token_logprobs"][0].is_null());
    const ServedModel::Scores want =
        models_[0]->score(i == 0 ? std::vector<int32_t>{72, 101, 108} : std::vector<int32_t>{108, 111}, 1);
    for (size_t t = 1; t < prompt; ++t) {
      EXPECT_EQ(scores["token_logprobs"][t].get<double>(), want.tokens[t - 1].token.log_probability);
      EXPECT_EQ(scores["top_logprobs"][t].begin().value().get<double>(), want.tokens[t - 1].best[0].log_probability);
    }
    EXPECT_EQ(scores["token_logprobs"][prompt], scores["top_logprobs"][prompt].begin().value());
  }
}

TEST_F(ServeTest, TheSameBytesWhateverElseRuns) {
  begin({}, {.budget = {.slots = 4}});
  const auto body = [](int seed) {
    return cat(R"({"prompt": "In the beginning", "max_tokens": 20, "logprobs": 2, "seed": )", seed, "}");
  };
  std::vector<Json> alone;
  for (int seed = 0; seed < 8; ++seed) alone.push_back(post("/v1/completions", body(seed))["choices"]);
  std::vector<std::thread> threads;
  std::vector<std::string> different(8);
  for (int seed = 0; seed < 8; ++seed)
    threads.emplace_back([&, seed] {
      httplib::Client client("127.0.0.1", port_);
      for (int round = 0; round < 3; ++round) {
        const auto result = client.Post("/v1/completions", body(seed), "application/json");
        if (!result || parse_json(result->body, "answer")["choices"] != alone[size_t(seed)])
          different[size_t(seed)] = "differs";
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : different) EXPECT_EQ(what, "");
}

// Random requests, alone and beside 1, 4 and 16 others, with kept prompts and without, drafted or not.
TEST_F(ServeTest, RandomRequestsHaveTheSameBytesInEveryCompany) {
  const auto body = [](uint64_t seed) {
    auto below = [&, used = uint64_t(0)](uint64_t n) mutable {
      return random_below({.seed = seed, .purpose = 5}, used++, n);
    };
    std::string prompt(1 + below(30), char('a' + below(3)));
    prompt += std::string(below(10), 'z');
    const bool greedy = below(2);
    return cat(R"({"prompt": ")", prompt, R"(", "max_tokens": )", 1 + below(12), R"(, "seed": )", below(5),
               greedy ? R"(, "temperature": 0)" : "", below(3) ? "" : R"(, "logprobs": 2)",
               greedy || below(5) ? "" : R"(, "n": 2)", below(4) ? "" : R"(, "grammar": "root ::= [a-f]+ \"!\"")", "}");
  };
  begin({}, {.budget = {.slots = 6, .prefix_bytes = 1 << 20}}, 8);
  std::vector<Json> alone;
  for (uint64_t seed = 0; seed < 48; ++seed) alone.push_back(post("/v1/completions", body(seed))["choices"]);
  std::mutex saying;
  std::vector<std::string> different;
  for (const uint64_t beside : {1, 4, 16}) {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t <= beside; ++t)
      threads.emplace_back([&, t] {
        httplib::Client client("127.0.0.1", port_);
        for (uint64_t seed = t; seed < alone.size(); seed += beside + 1) {
          const auto result = client.Post("/v1/completions", body(seed), "application/json");
          if (result && parse_json(result->body, "answer")["choices"] == alone[seed]) continue;
          const std::lock_guard lock(saying);
          different.push_back(cat(body(seed), " beside ", beside, ": ",
                                  result ? cat(result->status, " ", result->body, " alone ", dump(alone[seed], -1))
                                         : httplib::to_string(result.error())));
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  for (const std::string& what : different) ADD_FAILURE() << what;
  EXPECT_GT(models_[0]->load().times.cached_tokens, 0);
  // Another server, without kept prompts, and one that drafts.
  for (const bool drafts : {false, true}) {
    ServeOptions options;
    if (drafts) options.draft = "prompt";
    ServedModel other(kit_.scratch.path() / "tiny", options);
    for (uint64_t seed = 0; seed < alone.size(); ++seed) {
      const Json asked = parse_json(body(seed), "body");
      if (drafts && !asked.contains("temperature")) continue;  // drawn ones are as likely, not the same
      CompletionRun run(other, read_completion(asked, other, false), {});
      EXPECT_EQ(parse_json(dump(run.whole(std::chrono::milliseconds(100)), -1, Invalid::replaced), "answer")["choices"],
                alone[seed])
          << body(seed) << drafts;
    }
  }
}

TEST_F(ServeTest, KeptPromptsAreCounted) {
  begin({}, {.budget = {.prefix_bytes = 1 << 20}}, 8);
  const std::string body = R"({"prompt": "In the beginning was the word", "max_tokens": 3})";
  const Json first = post("/v1/completions", body), second = post("/v1/completions", body);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], 24);  // of 29, three pieces of 8
  EXPECT_EQ(first["choices"], second["choices"]);
  const auto metrics = client_->Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("lithe_prompt_tokens_cached_total{model=\"tiny\"} 24\n"), std::string::npos);
  EXPECT_NE(metrics->body.find("lithe_prefix_cache_entries{model=\"tiny\"} 1\n"), std::string::npos);
}

TEST_F(ServeTest, WaysOfDecodingThatTheModelLacksAreRefusedAtOnce) {
  begin();
  const Path run = kit_.scratch.path() / "tiny";
  EXPECT_NE(kit::error_of([&] { ServedModel(run, {.exit = "maxprob:0.9"}); }).find("exit"), std::string::npos);
  EXPECT_NE(kit::error_of([&] { ServedModel(run, {.early_stop = 0.0}); }).find("early_stop"), std::string::npos);
  EXPECT_NE(kit::error_of([&] { ServedModel(run, {.draft = "exit:1"}); }).find("exit:1 cannot draft"),
            std::string::npos);
}

TEST_F(ServeTest, MemoryIsPlannedAndKept) {
  begin();
  const Path run = kit_.scratch.path() / "tiny";
  const std::string refused = kit::coded_error_of([&] { ServedModel(run, {.memory = 10000}); });
  EXPECT_NE(refused.find("'tiny' has 1 MiB, it needs"), std::string::npos) << refused;
  const int64_t before = ledger(Device::cpu).current(), most = int64_t(3) << 20;
  ServedModel model(run, {.budget = {.slots = 2}, .memory = most});
  EXPECT_EQ(model.longest(), 65);
  ledger(Device::cpu).reset_peak();
  model.score(std::vector<int32_t>(64, 97), 3);
  model.encode(std::vector<std::string>(300, std::string(100, 'a')));
  CompletionRun all(
      model, read_completion(parse_json(R"({"prompt": "abc", "max_tokens": 60, "n": 6})", "body"), model, false), {});
  EXPECT_EQ(all.whole(std::chrono::milliseconds(100))["choices"].size(), 6u);
  EXPECT_LE(ledger(Device::cpu).peak() - before, most);
}

TEST_F(ServeTest, AStreamIsTheSameTextInPieces) {
  begin();
  const std::string body =
      R"({"prompt": "And ", "max_tokens": 15, "seed": 3, "stream": true, "stream_options": {"include_usage": true}})";
  const auto result = client_->Post("/v1/completions", body, "application/json");
  ASSERT_TRUE(result);
  std::string text, finish;
  int64_t usage = 0, events = 0;
  for (size_t at = 0, end; (end = result->body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string event = result->body.substr(at, end - at);
    ASSERT_EQ(event.rfind("data: ", 0), 0u) << event;
    if (event == "data: [DONE]") continue;
    ++events;
    const Json chunk = parse_json(event.substr(6), "event");
    if (chunk["choices"].empty()) {
      usage = chunk["usage"]["completion_tokens"].get<int64_t>();
      continue;
    }
    text += chunk["choices"][0]["text"].get<std::string>();
    if (!chunk["choices"][0]["finish_reason"].is_null())
      finish = chunk["choices"][0]["finish_reason"].get<std::string>();
  }
  EXPECT_TRUE(result->body.ends_with("data: [DONE]\n\n"));
  EXPECT_GT(events, 2);
  const Json whole = post("/v1/completions", R"({"prompt": "And ", "max_tokens": 15, "seed": 3})");
  EXPECT_EQ(text, whole["choices"][0]["text"]);
  EXPECT_EQ(finish, whole["choices"][0]["finish_reason"]);
  EXPECT_EQ(usage, whole["usage"]["completion_tokens"]);
}

TEST_F(ServeTest, ChatsAreWrittenByTheModelsTemplate) {
  begin();
  ASSERT_TRUE(models_[0]->chat_template());
  const Json messages = parse_json(R"([{"role": "user", "content": "Hi"}])", "messages");
  EXPECT_EQ(models_[0]->chat_template()->text(messages), "  <user>Hi\n<assistant>");
  const Json prefilled =
      parse_json(R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}])", "messages");
  EXPECT_EQ(models_[0]->chat_template()->text(prefilled), "  <user>Hi\n  <assistant>Well");
  const Json answer = post(
      "/v1/chat/completions",
      R"({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 5, "logprobs": true,
                               "top_logprobs": 2, "seed": 2})");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["content"].size(), answer["usage"]["completion_tokens"].get<size_t>());
  EXPECT_EQ(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 2u);
  const Json raw = post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})");
  EXPECT_EQ(raw["choices"][0]["index"], 0);
}

TEST_F(ServeTest, ContentsMayBeListsOfTexts) {
  begin();
  const char* path = "/v1/chat/completions";
  const std::string end = R"(}], "max_tokens": 4, "seed": 2})";
  EXPECT_EQ(
      post(path, R"({"messages": [{"role": "user", "content": "a\nb")" + end)["choices"],
      post(
          path,
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])" +
              end)["choices"]);
  EXPECT_NE(
      refused(path,
              R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}])" + end)
          .find("got {\"type\":\"image_url\""),
      std::string::npos);
  EXPECT_EQ(refused(path, R"({"messages": [{"role": "user", "content": "a"}], "parallel_tool_calls": true})"),
            "request: 'parallel_tool_calls' is not supported; leave it out");
}

// Of tokens whose characters are not ASCII, too, whole and in pieces.
TEST_F(ServeTest, OffsetsOfTokensAreCharacters) {
  begin();
  const std::string ask = R"({"prompt": "\u00e9t\u00e9 x", "max_tokens": 9, "seed": 4, "logprobs": 0)";
  const Json echoed = post("/v1/completions", ask + R"(, "echo": true})")["choices"][0]["logprobs"]["text_offset"];
  EXPECT_EQ(Json(std::vector<int64_t>(echoed.begin(), echoed.begin() + 8)), Json({0, 0, 1, 1, 2, 3, 3, 4}));
  const Json whole = post("/v1/completions", ask + "}")["choices"][0]["logprobs"];
  const auto streamed = client_->Post("/v1/completions", ask + R"(, "stream": true})", "application/json");
  ASSERT_TRUE(streamed);
  Json offsets = Json::array(), tokens = Json::array();
  for (size_t at = 0, end; (end = streamed->body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string event = streamed->body.substr(at + 6, end - at - 6);
    if (event == "[DONE]") continue;
    const Json scores = parse_json(event, "event")["choices"][0]["logprobs"];
    for (const Json& one : scores["text_offset"]) offsets.push_back(one);
    for (const Json& one : scores["tokens"]) tokens.push_back(one);
  }
  EXPECT_EQ(offsets, whole["text_offset"]);
  // A token that the client did not send is no text.
  const Json seen = post("/v1/completions", R"({"prompt": "In", "max_tokens": 1, "echo": true})")["choices"][0]["text"],
             sent = post("/v1/completions", R"({"prompt": [256, 73], "max_tokens": 1, "echo": true})")["choices"][0];
  EXPECT_TRUE(seen.get<std::string>().starts_with("In")) << seen;
  EXPECT_TRUE(sent["text"].get<std::string>().starts_with("<|endoftext|>I")) << sent;
  EXPECT_EQ(tokens, whole["tokens"]);
}

// Wherever a text to stop at begins and ends among tokens.
TEST_F(ServeTest, StopsAreFoundAcrossTokens) {
  begin();
  const std::string ask = R"({"prompt": "And ", "max_tokens": 15, "seed": 3, "n": 2)";
  const Json whole = post("/v1/completions", ask + "}")["choices"];
  for (size_t at = 0; at < whole[0]["text"].get<std::string>().size(); ++at) {
    const std::string text = whole[0]["text"].get<std::string>(), stop = text.substr(at, 2);
    if (!is_valid_utf8(stop) || stop.find("\xef") != stop.npos) continue;
    const Json got = post("/v1/completions",
                          ask + R"(, "stop": [")" + std::string("zzzz") + "\", " + dump(Json(stop)) + "]}")["choices"];
    EXPECT_EQ(got[0]["text"], text.substr(0, text.find(stop)));
    EXPECT_EQ(got[0]["finish_reason"], "stop");
  }
}

TEST_F(ServeTest, RowsOfTextsComeAsNumbersAndAsBase64) {
  begin();
  const Json numbers = post("/v1/embeddings", R"({"model": "tiny", "input": ["a b", "c"]})"),
             bytes = post("/v1/embeddings", R"({"input": "a b", "encoding_format": "base64"})");
  ASSERT_EQ(numbers["data"].size(), 2u);
  EXPECT_EQ(numbers["data"][0]["embedding"].size(), 16u);
  EXPECT_EQ(bytes["data"][0]["embedding"].get<std::string>().size(), 88u);
  const Json ranked = post("/v1/rerank", R"({"query": "a b", "documents": ["zzzz", "a b"], "top_n": 1})");
  ASSERT_EQ(ranked["results"].size(), 1u);
  EXPECT_EQ(ranked["results"][0]["index"], 1);
  EXPECT_NEAR(ranked["results"][0]["relevance_score"].get<double>(), 1, 1e-6);
  const Json all = post("/v1/rerank", R"({"query": "a b", "documents": ["zzzz", "a b", "a b"], "return_documents": true,
                        "top_n": null})");
  ASSERT_EQ(all["results"].size(), 3u);
  for (const size_t place : {0, 1, 2}) EXPECT_EQ(all["results"][place]["index"], Json({1, 2, 0})[place]);
  EXPECT_EQ(all["results"][2]["document"]["text"], "zzzz");
  EXPECT_EQ(refused("/v1/rerank", R"({"query": "a", "documents": ["b"], "top_n": 0})").substr(0, 49),
            "request: 'top_n' must be a whole number from 1 to");
  EXPECT_EQ(refused("/v1/rerank", R"({"query": ["a", "b"], "documents": ["b"]})"),
            "request: 'query' must be one text, got 2");
  EXPECT_EQ(refused("/v1/embeddings", R"({"input": "a", "dimensions": 8})"),
            "request: 'dimensions' must be the model's 16, got 8");
  const Json ids = post("/v1/embeddings", R"({"input": [[97, 32, 98], [99]]})");
  EXPECT_EQ(ids["data"], numbers["data"]);
  EXPECT_NE(refused("/v1/embeddings", R"({"input": [256]})").find("not the tokens of a text"), std::string::npos);
  EXPECT_EQ(refused("/v1/embeddings", R"({"input": [[97], "a"]})"),
            "request: 'input' must be a list of ids, got \"a\"");
  // Texts are cut only where the client says so, and what is read is counted.
  const std::string longest = std::string(size_t(models_[0]->longest_text()), 'a');
  const std::string too_long = R"({"input": ")" + longest + "bb\"";
  EXPECT_EQ(refused("/v1/embeddings", too_long + "}"),
            cat("request: text 0 of 'input' has ", longest.size() + 2, " tokens, the model reads ", longest.size(),
                "; shorten it, or give 'truncate_prompt_tokens': -1 to have its beginning read"));
  const Json cut = post("/v1/embeddings", too_long + R"(, "truncate_prompt_tokens": -1})");
  EXPECT_EQ(cut["usage"]["prompt_tokens"], longest.size());
  EXPECT_EQ(cut["data"], post("/v1/embeddings", R"({"input": ")" + longest + "\"}")["data"]);
  const Json begin = post("/v1/embeddings", R"({"input": ["a bc", "c"], "truncate_prompt_tokens": 3})");
  EXPECT_EQ(begin["data"], numbers["data"]);
  EXPECT_EQ(begin["usage"]["prompt_tokens"], 4);
  EXPECT_NE(
      refused("/v1/rerank", R"({"query": "a", "documents": [")" + longest + "bb\"]}").find("text 0 of 'documents'"),
      std::string::npos);
  EXPECT_EQ(refused("/v1/embeddings", R"({"input": "a", "encoding_format": "int8"})"),
            "request: 'encoding_format' must be float or base64, got \"int8\"");
  EXPECT_EQ(refused("/v1/embeddings", R"({"inputs": "a"})"), "request: 'input' is missing");
}

TEST_F(ServeTest, TokensGoThereAndBack) {
  begin();
  EXPECT_EQ(post("/tokenize", R"({"prompt": "ab", "add_special_tokens": false})")["tokens"], Json({97, 98}));
  EXPECT_EQ(post("/tokenize", R"({"content": "ab"})")["tokens"], Json({97, 98}));
  EXPECT_EQ(post("/detokenize", R"({"tokens": [97, 98]})")["prompt"], "ab");
  EXPECT_EQ(refused("/tokenize", R"({"prompt": "ab", "add_special_tokens": 1})"),
            "request: 'add_special_tokens' must be true or false, got 1");
  EXPECT_EQ(refused("/tokenize", R"({"prompt": ["ab"]})"), "request: 'prompt' or 'content' must be a text");
  EXPECT_EQ(refused("/detokenize", R"({"tokens": [97, 257]})"), "request: 'tokens' has the id 257, ids are below 257");
  EXPECT_EQ(refused("/detokenize", R"({"tokens": 97})"), "request: 'tokens' must be a list of ids, got 97");
  const auto info = client_->Get("/tokenizer_info");
  ASSERT_TRUE(info);
  EXPECT_EQ(parse_json(info->body, "info")["eos_token"], "<|endoftext|>");
  const auto models = client_->Get("/v1/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(parse_json(models->body, "models")["data"][0]["id"], "tiny");
  const auto one = client_->Get("/v1/models/tiny"), other = client_->Get("/v1/models/other");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(parse_json(one->body, "model"), parse_json(models->body, "models")["data"][0]);
  EXPECT_EQ(other->status, 404);
}

TEST_F(ServeTest, WhatCannotBeDoneIsRefusedBySentence) {
  begin();
  const char* path = "/v1/completions";
  EXPECT_NE(refused(path, "{").find("the body"), std::string::npos);
  EXPECT_EQ(refused(path, "[]"), "request: the body must be a JSON object");
  EXPECT_EQ(refused(path, "{}"), "request: 'prompt' is missing");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "best_of": 2})"), "request: 'best_of' is not supported; leave it out");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "temprature": 2})"), "request: unknown key 'temprature'");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "tool_choice": "required"})"),
            "request: 'tool_choice' is not supported; leave it out");
  post(path, R"({"prompt": "a", "max_tokens": 1, "tool_choice": "none", "service_tier": "auto"})");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "temperature": -1})"),
            "request: 'temperature' must be a number from 0 to 100, got -1");
  EXPECT_EQ(refused(path, R"({"prompt": [300]})"), "request: 'prompt' has the id 300, ids are below 257");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "response_format": {"type": "xml"}})"),
            "request: 'response_format' has the type 'xml'; known are text, json_object, json_schema");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "grammar": "root ::= root"})"),
            "grammar: rule 'root' never ends: each of its choices needs a rule that needs it again; give it one that "
            "does not");
  EXPECT_EQ(refused(path, R"({"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema":
                    {"not": {}}}}})"),
            "json_schema: # has 'not', which cannot be compiled; leave it out");
  EXPECT_EQ(refused(path, R"({"model": "other", "prompt": "a"})", 404),
            "no model is named 'other'; this server has 'tiny'");
  EXPECT_EQ(refused("/v1/chat/completions", R"({"messages": [{"role": "user"}]})"),
            "chat: message 0 of role 'user' must have a text as its content");
  EXPECT_EQ(refused("/nothing", "{}", 404), "nothing is at POST /nothing");
  EXPECT_EQ(post(path, R"({"prompt": "a", "max_tokens": 1})")["choices"].size(), 1u);
}

// An untrained model, whose texts are noise without it.
TEST_F(ServeTest, AnswersHaveTheFormThatIsAskedFor) {
  begin();
  for (int seed = 0; seed < 5; ++seed) {
    const Json schema =
        post("/v1/chat/completions", cat(R"({"messages": [{"role": "user", "content": "Hi"}], "seed": )", seed,
                                         R"(, "response_format": {"type": "json_schema", "json_schema":
        {"name": "x", "strict": true, "schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0,
        "maximum": 99}, "k": {"enum": ["a", "b"]}}, "required": ["n", "k"], "additionalProperties": false}}}})"));
    const std::string text = schema["choices"][0]["message"]["content"].get<std::string>();
    if (schema["choices"][0]["finish_reason"] == "stop") {
      const Json value = parse_json(text, text);
      EXPECT_LE(value["n"].get<int>(), 99) << text;
      EXPECT_TRUE(value["k"] == "a" || value["k"] == "b") << text;
    }
    const Json grammar = post("/v1/completions", cat(R"({"prompt": "", "max_tokens": 9, "logprobs": 1, "seed": )", seed,
                                                     R"(, "grammar": "root ::= (\"yes\" | \"no\") \"!\"?"})"));
    const std::string word = grammar["choices"][0]["text"].get<std::string>();
    EXPECT_TRUE(word == "yes" || word == "no" || word == "yes!" || word == "no!") << word;
    EXPECT_EQ(grammar["choices"][0]["finish_reason"], "stop");
  }
}

TEST_F(ServeTest, KeysAreAskedFor) {
  HttpOptions http;
  http.key_file = kit_.scratch.add("keys", "# ours\nsecret\n");
  begin(http);
  const std::string body = R"({"prompt": "a", "max_tokens": 1})";
  EXPECT_NE(refused("/v1/completions", body, 401).find("Authorization"), std::string::npos);
  httplib::Headers headers{{"Authorization", "Bearer secret"}}, wrong{{"Authorization", "Bearer secreT"}};
  EXPECT_EQ(client_->Post("/v1/completions", headers, body, "application/json")->status, 200);
  EXPECT_EQ(client_->Post("/v1/completions", wrong, body, "application/json")->status, 401);
  EXPECT_EQ(client_->Get("/health")->status, 200);
}

// Before its models are there, and while it stops; what is under way ends.
TEST_F(ServeTest, HealthSaysWhetherItServes) {
  begin();
  EXPECT_EQ(client_->Get("/health")->status, 200);
  std::promise<void> go;
  std::future<void> gone = go.get_future();
  int port = 0;
  {  // A port that is free.
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&at), size), 0);
    ASSERT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port = ntohs(at.sin_port);
    ::close(socket);
  }
  std::thread loading([&] {
    const auto load = [&]() -> const ServedModels& {
      gone.wait();
      return models_;
    };
    serve(load, {.port = port}, [](int) {});
  });
  httplib::Client early("127.0.0.1", port);
  auto health = early.Get("/health");
  for (int i = 0; i < 200 && !health; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    health = early.Get("/health");
  }
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 503);
  EXPECT_EQ(parse_json(health->body, "health")["status"], "loading");
  const auto asked = early.Post("/v1/completions", R"({"prompt": "a"})", "application/json");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->status, 503);
  EXPECT_EQ(asked->get_header_value("Retry-After"), "1");
  EXPECT_NE(asked->body.find("being loaded"), std::string::npos) << asked->body;
  go.set_value();
  for (int i = 0; i < 200 && health && health->status != 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    health = early.Get("/health");
  }
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  // A long stream goes on after the signal, and others are not begun.
  std::string streamed;
  std::atomic<bool> begun = false;
  std::thread stream([&] {
    httplib::Client client("127.0.0.1", port_);
    httplib::Request request;
    request.method = "POST", request.path = "/v1/completions";
    request.body = R"({"prompt": "a", "max_tokens": 60, "n": 60, "stream": true})";
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      streamed.append(data, size);
      begun = true;
      return true;
    };
    httplib::Response response;
    httplib::Error error{};
    client.send(request, response, error);
  });
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  set_stop_signal(15);
  server_.join();
  loading.join();
  stream.join();
  EXPECT_TRUE(streamed.ends_with("data: [DONE]\n\n")) << streamed.substr(streamed.size() - 200);
}

TEST_F(ServeTest, APortIsOfOneServer) {
  begin();
  EXPECT_NE(kit::error_of([&] {
              serve([this]() -> const ServedModels& { return models_; }, {.port = port_}, [](int) {});
            }).find("cannot be had; is it in use?"),
            std::string::npos);
}

// The name of a directory may be anything.
TEST_F(ServeTest, NamesAreEscapedInMetrics) {
  add("a\"b\\c");
  EXPECT_NE(metrics(models_, 0, 0).find("lithe_requests_processing{model=\"a\\\"b\\\\c\"} 0\n"), std::string::npos)
      << metrics(models_, 0, 0);
}

TEST_F(ServeTest, APlaceThatOthersReachNeedsKeys) {
  begin();
  EXPECT_EQ(kit::error_of([&] {
              serve([this]() -> const ServedModels& { return models_; }, {.host = "0.0.0.0", .port = 0}, [](int) {});
            }),
            "serve: '0.0.0.0' can be reached by others; give --api-key-file, or stay at 127.0.0.1");
}

}  // namespace
}  // namespace lithe
