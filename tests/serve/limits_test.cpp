// What a server takes at once: requests that wait, sizes, times.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "lithe/serve/completion_run.h"
#include "tests/serve/serve_kit.h"

namespace lithe {
namespace {

int connected_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK), at.sin_port = htons(uint16_t(port));
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? socket : -1;
}

TEST_F(ServeTest, AFullQueueSaysSo) {
  begin({}, {.budget = {.slots = 1}, .queue = 0});
  // Who comes while nobody waits is let in, with any number of choices.
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "a", "n": 100, "max_tokens": 1})")["choices"].size(), 100u);
  std::thread first([&] {
    httplib::Client client("127.0.0.1", port_);
    client.Post("/v1/completions", R"({"prompt": "a", "n": 128, "max_tokens": 60})", "application/json");
  });
  while (models_[0]->load().waiting == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto result =
      client_->Post("/v1/completions", R"({"prompt": "a", "echo": true, "max_tokens": 50})", "application/json");
  const auto rows = client_->Post("/v1/embeddings", R"({"input": "a"})", "application/json");
  first.join();
  ASSERT_TRUE(result && rows);
  EXPECT_EQ(result->status, 429);
  EXPECT_EQ(rows->status, 429);
  EXPECT_EQ(result->get_header_value("Retry-After"), "1");
  // Nothing is lost; the place is free a moment after the answer.
  const auto later = [&] {
    return client_->Post("/v1/completions", R"({"prompt": "a", "max_tokens": 2})", "application/json");
  };
  auto after = later();
  for (int i = 0; i < 500 && after && after->status == 429; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = later();
  }
  ASSERT_TRUE(after);
  EXPECT_EQ(parse_json(after->body, "answer")["choices"].size(), 1u) << after->body;
}

// A client that sends more than is read hears why, however it sends it, and the next one is served.
TEST_F(ServeTest, LargeBodiesAreRefused) {
  begin({.body_bytes = 10000});
  const std::string large = R"({"prompt": ")" + std::string(300000, 'x') + "\"}";
  EXPECT_EQ(refused("/v1/completions", large, 413), "the body is larger than this server takes");
  const auto chunked = client_->Post(
      "/v1/completions",
      [&](size_t offset, httplib::DataSink& sink) {
        if (offset < large.size())
          return sink.write(large.data() + offset, std::min<size_t>(8192, large.size() - offset));
        sink.done();
        return true;
      },
      "application/json");
  ASSERT_TRUE(chunked);
  EXPECT_EQ(chunked->status, 413);
  EXPECT_NE(chunked->body.find("larger than"), std::string::npos);
  // By its length alone, before any of it comes.
  const int socket = connected_to(port_);
  ASSERT_GE(socket, 0);
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n";
  ASSERT_EQ(::send(socket, head.data(), head.size(), 0), ssize_t(head.size()));
  std::string said(12, ' ');
  ASSERT_EQ(::recv(socket, said.data(), said.size(), MSG_WAITALL), ssize_t(said.size()));
  EXPECT_EQ(said, "HTTP/1.1 413");
  ::close(socket);
  EXPECT_EQ(client_->Put("/v1/completions", large, "application/json")->status, 404);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})")["choices"].size(), 1u);
}

TEST_F(ServeTest, WhatTakesTooLongEndsWithAnError) {
  begin({.timeout_seconds = 1}, {.budget = {.slots = 1}, .queue = 5000});
  std::atomic<bool> over = false;
  std::vector<std::thread> others;  // who stand before it in the queue
  for (int i = 0; i < 32; ++i)
    others.emplace_back([&] {
      httplib::Client client("127.0.0.1", port_);
      while (!over)
        client.Post("/v1/completions", R"({"prompt": "a", "max_tokens": 60, "n": 128})", "application/json");
    });
  int status = 0;
  std::string answer;  // the first that the others hold up for long enough
  for (int i = 0; i < 50 && (!status || status == 200); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto late =
        client_->Post("/v1/completions", R"({"prompt": "a", "max_tokens": 60, "n": 128})", "application/json");
    if (late) status = late->status, answer = late->body;
  }
  over = true;
  for (std::thread& other : others) other.join();
  ASSERT_EQ(status, 504) << answer;
  EXPECT_EQ(parse_json(answer, "answer")["error"]["message"], "the request took too long (--timeout)");
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})")["choices"].size(), 1u);
}

TEST_F(ServeTest, TheLogSaysWhatARequestTook) {
  testing::internal::CaptureStderr();
  begin({.log_format = "json"});
  post("/v1/completions", R"({"prompt": "abc", "max_tokens": "two"})", 400);
  post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2, "model": "tiny"})");
  client_->Post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2, "stream": true})", "application/json");
  client_->Get("/nothing");
  TearDown();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::vector<Json> logged;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{")) logged.push_back(parse_json(line, "log"));
  ASSERT_EQ(logged.size(), 4u);
  // A stream is logged when its last bytes are out, which may be after the request behind it.
  std::ranges::stable_sort(logged, {}, [](const Json& line) { return line["status"] == 404; });
  EXPECT_EQ(logged[0]["status"], 400);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(logged[i]["path"], "/v1/completions");
    EXPECT_EQ(logged[i]["model"], "tiny");
    EXPECT_GE(int64_t(logged[i]["prompt_tokens"]), 3);
    EXPECT_GE(int64_t(logged[i]["completion_tokens"]), 1);
    EXPECT_GT(double(logged[i]["seconds"]), 0);
  }
  EXPECT_EQ(logged[3]["status"], 404);
  EXPECT_TRUE(logged[3]["model"].is_null());
}

// Between passes of what is scored and encoded, too.
TEST_F(ServeTest, WhatNobodyWaitsForEnds) {
  begin();
  int64_t asked = 0;
  const auto third = [&] { check(++asked % 3 != 0, "test", "gone"); };
  const Json body =
      parse_json(R"({"prompt": ["a", "b", "c", "d", "e", "f"], "echo": true, "logprobs": 1, "max_tokens": 1})", "body");
  EXPECT_EQ(kit::error_of([&] { CompletionRun(*models_[0], read_completion(body, *models_[0], false), {}, third); }),
            "test: gone");
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(kit::error_of([&] { models_[0]->encode(std::vector<std::string>(1000, "a"), nullptr, third); }),
            "test: gone");
  EXPECT_EQ(asked, 6);
}

// Where all requests share a budget, one that says nothing of its length leaves room for others.
TEST_F(ServeTest, AChatThatSaysNothingHasASlotsShare) {
  begin({}, {.budget = {.slots = 2, .tokens = 64}});
  const Json body = parse_json(R"({"messages": [{"role": "user", "content": "a"}]})", "body");
  EXPECT_EQ(read_completion(body, *models_[0], true).config.max_new_tokens, 32);
}

// Whoever begins a request and does not go on holds a place for a few seconds alone.
TEST_F(ServeTest, HalfRequestsEndSoon) {
  begin({.connections = 1});
  const int socket = connected_to(port_);
  ASSERT_GE(socket, 0);
  ASSERT_EQ(::send(socket, "GET /he", 7, 0), 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  client_->set_read_timeout(15);
  const auto health = client_->Get("/health");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  ::close(socket);
}

}  // namespace
}  // namespace lithe
