// Requests that nobody would send, to a server of a tiny model: each gets an answer, or an error as JSON. In this
// process, from bytes to bytes, and some through a socket. LITHE_RANDOM_REQUESTS says how many (20,000).
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "lithe/base/json.h"
#include "lithe/serve/http_server.h"
#include "lithe/serve/routes.h"
#include "tests/fuzz/mutate.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

std::string http(const std::string& path, const std::string& body, const std::string& method = "POST",
                 const std::string& headers = "") {
  std::string out = cat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers);
  if (method != "GET") out += cat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  return out + "\r\n" + body;
}

struct Asked {
  std::string path, body;
};

// What is sound: every path, every key.
std::vector<Asked> sound_requests() {
  return {
      {"/v1/completions",
       R"({"model": "tiny", "prompt": ["a", "b"], "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1,
           "n": 2, "stop": ["x", "yz"], "seed": 1, "logprobs": 2, "presence_penalty": 1, "frequency_penalty": -1,
           "repetition_penalty": 1.1, "logit_bias": {"3": 4, "97": -100}, "user": "u"})"},
      {"/v1/completions",
       R"({"prompt": [[72, 101], [5]], "max_tokens": 1, "logprobs": 1, "echo": true, "temperature": 0})"},
      {"/v1/completions", R"({"prompt": "a", "max_tokens": 0, "logprobs": 0, "echo": true})"},
      {"/v1/completions",
       R"({"prompt": "a", "max_tokens": 4, "stream": true, "stream_options": {"include_usage": true}, "n": 2, "logprobs": 0})"},
      {"/v1/completions",
       R"({"prompt": [1, 2, 3], "max_tokens": 6, "grammar": "root ::= [a-z]+ (\",\" x)*\nx ::= \"b\" | \"c\"{2,3}"})"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "W"}],
           "stream": true, "logprobs": true, "top_logprobs": 2, "max_completion_tokens": 4})"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 5, "response_format": {"type":
           "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "object", "properties": {"a": {"type": "array",
           "items": {"enum": [1, "b"]}, "maxItems": 3}, "c": {"type": "number", "minimum": -2}}, "required": ["a"]}}}})"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_object"}, "max_tokens": 3})"},
      {"/v1/embeddings", R"({"model": "tiny", "input": ["a b", "c"], "encoding_format": "base64", "dimensions": 8})"},
      {"/v1/rerank", R"({"query": "a", "documents": ["b", "c", "a"], "top_n": 2, "return_documents": false})"},
      {"/tokenize", R"({"content": "abc", "add_special_tokens": true})"},
      {"/detokenize", R"({"tokens": [97, 98, 256]})"},
  };
}

const std::vector<std::string> kTokens = {"\"grammar\"",
                                          "\"schema\"",
                                          "\"type\"",
                                          "\"n\"",
                                          "\"echo\"",
                                          "\"stream\"",
                                          "\"prompt\"",
                                          "\"messages\"",
                                          "\"model\"",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "null",
                                          "true",
                                          "false",
                                          "0",
                                          "-1",
                                          "128",
                                          "1e400",
                                          "1e-320",
                                          "99999999999999999999",
                                          "9223372036854775807",
                                          "\"\\ud800\"",
                                          "\"\\u0000\"",
                                          "\"\"",
                                          "\xff",
                                          "\xc3",
                                          "::=",
                                          "{9999}",
                                          ",",
                                          ":",
                                          "\"tools\": []",
                                          "\"best_of\": 2"};
const std::vector<std::string> kHttpTokens = {"\r\n",
                                              "\n",
                                              "\r",
                                              " ",
                                              ":",
                                              "HTTP/1.0",
                                              "HTTP/9.9",
                                              "GET ",
                                              "HEAD ",
                                              "PRI ",
                                              "OPTIONS ",
                                              "DELETE ",
                                              "%",
                                              "%zz",
                                              "%00",
                                              "?",
                                              "?model=x&",
                                              "#",
                                              "/../",
                                              "Transfer-Encoding: chunked\r\n",
                                              "Content-Length: 5\r\n",
                                              "Content-Length: -1\r\n",
                                              "Content-Length: 99999999999999999999\r\n",
                                              "Expect: 100-continue\r\n",
                                              "Connection: close\r\n",
                                              "Range: bytes=0-3,5-\r\n",
                                              "Content-Encoding: gzip\r\n",
                                              "Accept-Encoding: gzip, br\r\n",
                                              "Content-Type: multipart/form-data; boundary=x\r\n",
                                              "--x\r\n",
                                              "0\r\n\r\n",
                                              "ffffffffffffffff\r\n",
                                              std::string(1, '\0'),
                                              std::string(9000, 'a')};

// A value in the place of another, anywhere in the tree.
void change(Json& at, Draw& draw) {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           false,
                                           0,
                                           1,
                                           -1,
                                           2.5,
                                           1e300,
                                           4294967296,
                                           INT64_MAX,
                                           "",
                                           "a",
                                           "tiny",
                                           "\n",
                                           std::string(300, 'x'),
                                           Json::array(),
                                           Json::object(),
                                           Json::array({1, "a"}),
                                           Json{{"type", "text"}}};
  if (at.is_structured() && !at.empty() && draw.below(4)) {
    auto child = at.begin();
    std::advance(child, draw.below(at.size()));
    if (draw.below(12) == 0)
      at.erase(child);
    else
      change(*child, draw);
  } else if (at.is_object() && draw.below(2)) {
    at[draw.below(2) ? "stop" : "extra"] = values[draw.below(values.size())];
  } else if (at.is_array() && at.size() < 200 && draw.below(2)) {
    at.push_back(at.empty() ? values[draw.below(values.size())] : at[draw.below(at.size())]);
  } else if (const size_t how = draw.below(8); how > 1 && at.is_number()) {
    at = how < 5 ? Json(int64_t(draw.below(6))) : Json(double(draw.below(40)) / 20);
  } else if (how > 1 && at.is_string()) {
    std::string text = at.get<std::string>();
    text.insert(draw.below(text.size() + 1), draw.below(2) ? "\xc3\xa9" : "\n");
    at = how < 5 ? Json(text) : Json(std::string(draw.below(20), char('a' + draw.below(4))));
  } else if (how > 1 && at.is_boolean()) {
    at = !at.get<bool>();
  } else {
    at = values[draw.below(values.size())];
  }
}

std::string random_request(uint64_t seed) {
  static const std::vector<Asked> sound = sound_requests();
  Draw draw(seed + 1);
  Asked asked = sound[draw.below(sound.size())];
  if (draw.below(40) == 0) asked.path = sound[draw.below(sound.size())].path;
  const size_t how = draw.below(10);
  if (how < 5) {
    Json body = parse_json(asked.body, "sound");
    for (size_t count = 1 + draw.below(3); count > 0; --count) change(body, draw);
    return http(asked.path, dump(body, -1, Invalid::replaced));
  }
  if (how < 8) return http(asked.path, mutated(asked.body, kTokens, draw));
  static const std::vector<std::string> others = {
      http("/v1/models", "", "GET"),
      http("/metrics", "", "GET"),
      http("/health", "", "GET"),
      http("/", "", "GET"),
      http("/tokenizer_info?model=tiny", "", "GET", "Accept-Encoding: gzip\r\n"),
      http("/nothing", "{}"),
      http("/v1/completions", "{}", "PUT"),
      "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"prompt\r\n6\r\n\":\"a\"}\r\n0\r\n\r\n",
      http("/tokenize", R"({"prompt": "a"})") + http("/v1/models", "", "GET")};
  return mutated(draw.below(2) ? others[draw.below(others.size())] : http(asked.path, asked.body), kHttpTokens, draw);
}

// One answer taken from the front of `bytes`. None: it is not whole.
struct Reply {
  int status = 0;
  std::string type, encoding, body;
};
std::optional<Reply> take_reply(std::string_view& bytes, bool head) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == bytes.npos || !bytes.starts_with("HTTP/1.")) return std::nullopt;
  const std::string_view headers = bytes.substr(0, end + 2);
  std::string_view rest = bytes.substr(end + 4);
  const auto header = [&](const std::string& name) -> std::string {
    const size_t at = headers.find("\r\n" + name + ": ");
    if (at == headers.npos) return "";
    const size_t from = at + name.size() + 4;
    return std::string(headers.substr(from, headers.find("\r\n", from) - from));
  };
  Reply out{std::atoi(std::string(headers.substr(9, 3)).c_str()), header("Content-Type"), header("Content-Encoding"),
            ""};
  if (out.status / 100 == 1) {  // goes on
    bytes = rest;
    return take_reply(bytes, head);
  }
  if (!head && header("Transfer-Encoding") == "chunked") {
    for (;;) {
      const size_t line = rest.find("\r\n");
      if (line == rest.npos) return std::nullopt;
      const auto size = size_t(std::strtoull(std::string(rest.substr(0, line)).c_str(), nullptr, 16));
      if (rest.size() < line + 4 + size) return std::nullopt;
      out.body += rest.substr(line + 2, size);
      rest.remove_prefix(line + 4 + size);
      if (size == 0) break;
    }
  } else if (!head) {
    const auto size = size_t(std::strtoull(header("Content-Length").c_str(), nullptr, 10));
    if (rest.size() < size) return std::nullopt;
    out.body = rest.substr(0, size);
    rest.remove_prefix(size);
  }
  bytes = rest;
  return out;
}

// What is wrong with an answer; empty: nothing.
std::string fault_of(const Reply& reply, bool head) {
  if (reply.status < 200 || reply.status > 599) return cat("status ", reply.status);
  if (!reply.encoding.empty()) return "";
  if (head || reply.type != "application/json") return reply.status >= 400 && !head ? "an error that is no JSON" : "";
  try {
    const Json body = parse_json(reply.body, "answer");
    if (reply.status >= 400 && !body["error"]["message"].is_string()) return "an error without a message";
    if (reply.status == 500) return "an error of the server";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// From bytes to bytes.
class Bytes final : public httplib::Stream {
 public:
  explicit Bytes(std::string_view in) : left_(in) {}
  bool done() const { return left_.empty(); }
  bool is_readable() const override { return !left_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const size_t count = std::min(size, left_.size());
    std::copy_n(left_.data(), count, to);
    left_.remove_prefix(count);
    return ssize_t(count);
  }
  ssize_t write(const char* from, size_t size) override {
    out.append(from, size);
    return ssize_t(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 1; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 2; }
  socket_t socket() const override { return -1; }
  std::string out;

 private:
  std::string_view left_;
};

class Server final : public HttpServer {
 public:
  Server() : HttpServer(1 << 16) {
    svr_sock_ = 1;  // what streams ask, to learn whether the server goes on
    set_keep_alive_timeout(0);
    set_read_timeout(0, 200000);
  }
  /// All answers to what came on one connection.
  std::string answers(std::string_view request) {
    Bytes bytes(request);
    for (int i = 0; i < 8 && !bytes.done(); ++i) {
      bool closed = false;
      if (!answer(bytes, false, closed) || closed) break;
    }
    return std::move(bytes.out);
  }
};

int64_t wanted_requests() {
  const char* text = std::getenv("LITHE_RANDOM_REQUESTS");
  return text ? std::atoll(text) : 20000;
}

class HttpRequests : public ::testing::Test {
 protected:
  HttpRequests() {
    TrainRun run = kit_.run(
        "{vocab_size: 257, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 64, mixer: {type: attention, "
        "num_attention_heads: 1}, ffn: {type: relu, intermediate_size: 8}}",
        kit::kHeldOutData, "{max_steps: 1, batch_tokens: 64}", "tiny");
    run.initialise = true;
    train(run);
    kit_.scratch.add("tiny/chat_template.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    models_.push_back(std::make_unique<ServedModel>(
        run.out, ServeOptions{.budget = {.longest = 32, .prefix_bytes = 1 << 20}, .queue = 1000}));
    routes_.open(models_);
    routes_.add_to(server_);
  }
  // What comes back of a connection of its own, until an answer is whole or it is closed.
  std::string asked(const std::string& request, bool head) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(uint16_t(port_)), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval most{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    std::string out;
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
      for (size_t at = 0; at < request.size();) {
        const ssize_t sent = ::send(socket, request.data() + at, request.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += size_t(sent);
      }
      char bytes[65536];
      for (ssize_t got; (got = ::recv(socket, bytes, sizeof bytes, 0)) > 0;) {
        out.append(bytes, size_t(got));
        std::string_view rest = out;
        if (take_reply(rest, head)) break;
      }
    }
    ::close(socket);
    return out;
  }

  kit::TrainKit kit_;
  ServedModels models_;
  int port_ = 0;
  HttpOptions options_;
  Routes routes_{options_};
  Server server_;
};

TEST_F(HttpRequests, SoundOnesAreAnswered) {
  for (const Asked& asked : sound_requests()) {
    const std::string out = server_.answers(http(asked.path, asked.body));
    std::string_view rest = out;
    const std::optional<Reply> reply = take_reply(rest, false);
    ASSERT_TRUE(reply) << out;
    EXPECT_EQ(reply->status, 200) << asked.body << "\n" << out;
    EXPECT_EQ(fault_of(*reply, false), "") << out;
  }
}

TEST_F(HttpRequests, EachGetsAnAnswerOrAnErrorAsJson) {
  std::map<int, int64_t> statuses;
  const int64_t count = wanted_requests();
  for (int64_t i = 0; i < count; ++i) {
    const std::string request = random_request(uint64_t(i));
    const bool head = request.starts_with("HEAD ");
    const std::string out = server_.answers(request);
    std::string_view rest = out;
    const std::optional<Reply> reply = take_reply(rest, head);
    if (!reply) {  // nothing but what has no line to be read
      ASSERT_TRUE(out.empty() && request.find('\n') == request.npos) << "request " << i << ":\n"
                                                                     << request << "\nanswer:\n"
                                                                     << out;
      continue;
    }
    ++statuses[reply->status];
    ASSERT_EQ(fault_of(*reply, head), "") << "request " << i << ":\n" << request << "\nanswer:\n" << out;
  }
  for (const auto& [status, n] : statuses) std::printf("status %d: %lld\n", status, static_cast<long long>(n));
  EXPECT_GT(statuses[200] * 8, count);
  EXPECT_GT(statuses[400] * 20, count);
  EXPECT_FALSE(routes_.busy());
}

TEST_F(HttpRequests, AlsoThroughASocket) {
  port_ = server_.bind_to_any_port("127.0.0.1");
  server_.new_task_queue = [] { return new httplib::ThreadPool(16); };
  std::thread listener([&] { server_.listen_after_bind(); });
  const int64_t count = std::max<int64_t>(400, wanted_requests() / 100);
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> silent = 0;
  std::vector<std::string> faults(8);
  std::vector<std::thread> clients;
  for (size_t t = 0; t < faults.size(); ++t)
    clients.emplace_back([&, t] {
      for (int64_t i; (i = next++) < count && faults[t].empty();) {
        const std::string request = random_request(uint64_t(i) + 1000000007);
        const bool head = request.starts_with("HEAD ");
        const std::string out = asked(request, head);
        std::string_view rest = out;
        const std::optional<Reply> reply = take_reply(rest, head);
        if (!reply && out.empty()) ++silent;  // it was not whole, and nobody waits for the rest for ever
        if (!reply && !out.empty()) faults[t] = cat("half an answer to ", request, ": ", out);
        if (reply && !fault_of(*reply, head).empty())
          faults[t] = cat(fault_of(*reply, head), " to ", request, ": ", out);
      }
    });
  for (std::thread& client : clients) client.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
  EXPECT_LT(silent * 20, count);
  const std::string last = asked(http("/health", "", "GET"), false);
  EXPECT_NE(last.find("{\"status\":\"ok\"}"), std::string::npos) << last;
  server_.stop();
  listener.join();
  EXPECT_FALSE(routes_.busy());
}

}  // namespace
}  // namespace lithe
