#include "lithe/serve/server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <cmath>
#include <ctime>
#include <sstream>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/infer/generate.h"
#include "lithe/serve/completion_run.h"
#include "lithe/serve/page.h"
#include "lithe/text/base64.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using httplib::Request;
using httplib::Response;
using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(200);  // how often a client is looked after
constexpr auto kPing = std::chrono::seconds(15);
constexpr const char* kJson = "application/json";

/// What is answered in place of a result.
struct Refusal {
  int status;
  std::string message, type;
};

void answer(Response& to, int status, const Json& body) {
  to.status = status;
  to.set_content(dump(body, -1, Invalid::replaced), kJson);
}

Refusal refusal_of(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const QueueIsFull& full) {
    return {429, full.what(), "rate_limit_error"};
  } catch (const Error& e) {
    if (e.code() == ExitCode::usage) return {400, e.what(), "invalid_request_error"};
    return {500, e.what(), "server_error"};
  } catch (const std::exception& e) {
    return {500, e.what(), "server_error"};
  }
}

void refuse(Response& to, const Refusal& refusal) {
  if (refusal.status == 429) to.set_header("Retry-After", "1");
  answer(to, refusal.status, error_body(refusal.message, refusal.type));
}

// The time depends on the length of what is given alone.
bool equal_in_constant_time(const std::string& a, const std::string& given) {
  unsigned different = a.size() != given.size();
  for (size_t i = 0; i < given.size(); ++i)
    different |= unsigned(uint8_t(given[i]) ^ uint8_t(a[i % std::max<size_t>(1, a.size())]));
  return different == 0 && !a.empty();
}

std::vector<std::string> keys_of(const std::string& file) {
  std::vector<std::string> out;
  if (file.empty()) return out;
  std::istringstream lines(read_file(file, 1 << 20));
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && std::isspace(uint8_t(line.back()))) line.pop_back();
    if (!line.empty() && line[0] != '#') out.push_back(line);
  }
  check_usage(!out.empty(), "serve", "'", file, "' has no key; write one a line");
  return out;
}

class Routes {
 public:
  Routes(const std::vector<std::unique_ptr<ServedModel>>& models, const HttpOptions& options)
      : models_(models), options_(options), keys_(keys_of(options.key_file)) {}

  void add_to(httplib::Server& server) {
    server.set_pre_routing_handler([this](const Request& in, Response& out) {
      if (keys_.empty() || in.path == "/health" || allowed(in)) return httplib::Server::HandlerResponse::Unhandled;
      refuse(out, {401, "give a key of this server: header Authorization: Bearer KEY", "authentication_error"});
      return httplib::Server::HandlerResponse::Handled;
    });
    server.Get("/", [](const Request&, Response& out) { out.set_content(page(), "text/html; charset=utf-8"); });
    server.Get("/health", [this](const Request&, Response& out) {
      answer(out, stop_signal() ? 503 : 200, {{"status", stop_signal() ? "stopping" : "ok"}});
    });
    server.Get("/v1/models", [this](const Request&, Response& out) { answer(out, 200, list()); });
    server.Get("/metrics",
               [this](const Request&, Response& out) { out.set_content(metrics(), "text/plain; version=0.0.4"); });
    get(server, "/tokenizer_info",
        [this](const Request& in) { return tokenizer_info(model_named(in.get_param_value("model"))); });
    post(server, "/v1/completions", [this](const Json& body, Response& out) { complete(body, out, false); });
    post(server, "/v1/chat/completions", [this](const Json& body, Response& out) { complete(body, out, true); });
    post(server, "/v1/embeddings", [this](const Json& body, Response& out) { answer(out, 200, embeddings(body)); });
    post(server, "/v1/rerank", [this](const Json& body, Response& out) { answer(out, 200, rerank(body)); });
    post(server, "/tokenize", [this](const Json& body, Response& out) { answer(out, 200, tokenize(body)); });
    post(server, "/detokenize", [this](const Json& body, Response& out) { answer(out, 200, detokenize(body)); });
    server.set_error_handler([](const Request& in, Response& out) {
      if (!out.body.empty()) return;
      const std::string what = out.status == 404   ? cat("nothing is at ", in.method, " ", in.path)
                               : out.status == 413 ? "the body is larger than this server takes"
                               : out.status == 400 ? "the request is no HTTP that this server reads"
                                                   : cat("status ", out.status);
      out.set_content(dump(error_body(what, "invalid_request_error"), -1, Invalid::replaced), kJson);
    });
    server.set_exception_handler(
        [](const Request&, Response& out, std::exception_ptr error) { refuse(out, refusal_of(error)); });
    server.set_logger([this](const Request& in, const Response& out) {
      log_info(in.method, " ", in.path, " ", out.status, options_.log_prompts && !in.body.empty() ? " " : "",
               options_.log_prompts ? valid_utf8(in.body.substr(0, 2000)) : "");
    });
  }

 private:
  const std::vector<std::unique_ptr<ServedModel>>& models_;
  const HttpOptions& options_;
  std::vector<std::string> keys_;
  std::atomic<uint64_t> next_ = 1, requests_ = 0, refused_ = 0;

  bool allowed(const Request& in) const {
    const std::string header = in.get_header_value("Authorization");
    const std::string given = header.rfind("Bearer ", 0) == 0 ? header.substr(7) : "";
    bool found = false;
    for (const std::string& key : keys_) found |= equal_in_constant_time(key, given);
    return found;
  }

  template <class Handler>
  void get(httplib::Server& server, const char* path, Handler handler) {
    server.Get(path, [handler](const Request& in, Response& out) {
      try {
        answer(out, 200, handler(in));
      } catch (...) {
        refuse(out, refusal_of(std::current_exception()));
      }
    });
  }
  template <class Handler>
  void post(httplib::Server& server, const char* path, Handler handler) {
    server.Post(path, [this, handler](const Request& in, Response& out) {
      ++requests_;
      try {
        check_usage(!stop_signal(), "serve", "the server stops");
        Json body;
        try {
          body = parse_json(in.body, "the body");
        } catch (const Error& error) {
          throw Refusal{400, error.what(), "invalid_request_error"};
        }
        handler(body, out);
      } catch (...) {
        ++refused_;
        refuse(out, refusal_of(std::current_exception()));
      }
    });
  }

  ServedModel& model_named(const std::string& name) const {
    if (name.empty()) return *models_.front();
    std::string names;
    for (const auto& model : models_) {
      if (model->name() == name) return *model;
      names += (names.empty() ? "'" : ", '") + model->name() + "'";
    }
    throw Refusal{404, cat("no model is named '", name, "'; this server has ", names), "invalid_request_error"};
  }
  ServedModel& model_of(const Json& body) const {
    check_usage(body.is_object(), "request", "the body must be a JSON object");
    const auto at = body.find("model");
    check_usage(at == body.end() || at->is_string(), "request", "'model' must be a text");
    return model_named(at == body.end() ? "" : at->get<std::string>());
  }

  void complete(const Json& body, Response& out, bool chat) {
    ServedModel& model = model_of(body);
    CompletionRequest request = read_completion(body, model, chat);
    const bool stream = request.stream;
    const CompletionHead head{cat(chat ? "chatcmpl-" : "cmpl-", next_++), model.name(), int64_t(std::time(nullptr))};
    const auto run = std::make_shared<CompletionRun>(model, std::move(request), head);
    const auto begin = Clock::now();
    const auto late = [begin, most = options_.timeout_seconds] {
      return most && Clock::now() - begin > std::chrono::seconds(most);
    };
    if (!stream) {
      // By a provider, since only that learns when the client goes away.
      out.set_chunked_content_provider(kJson, [run, late](size_t, httplib::DataSink& sink) {
        std::string text;
        try {
          const auto whole = run->whole(kLook, [&] { return sink.is_writable() && !late(); });
          if (!whole && !late()) return false;
          text = dump(whole ? *whole : error_body("the request took too long", "timeout_error"), -1, Invalid::replaced);
        } catch (...) {
          const Refusal refusal = refusal_of(std::current_exception());
          text = dump(error_body(refusal.message, refusal.type), -1, Invalid::replaced);
        }
        sink.write(text.data(), text.size());
        sink.done();
        return true;
      });
      return;
    }
    const auto spoke = std::make_shared<Clock::time_point>(begin);
    out.set_header("Cache-Control", "no-cache");
    out.set_chunked_content_provider("text/event-stream", [run, late, spoke](size_t, httplib::DataSink& sink) {
      std::string text;
      bool last = false;
      try {
        text = run->events(kLook);
        last = run->done();
        if (late() && !last) throw Refusal{500, "the request took too long", "timeout_error"};
      } catch (...) {
        const Refusal refusal = refusal_of(std::current_exception());
        text += "data: " + dump(error_body(refusal.message, refusal.type), -1, Invalid::replaced) + "\n\n";
        last = true;
      }
      if (text.empty() && Clock::now() - *spoke > kPing) text = ": ping\n\n";
      if (!text.empty()) *spoke = Clock::now();
      if (!sink.is_writable() || (!text.empty() && !sink.write(text.data(), text.size()))) return false;
      if (last) sink.done();
      return true;
    });
  }

  static std::vector<std::string> texts_of(const Json& body, const char* key) {
    const auto at = body.find(key);
    check_usage(at != body.end(), "request", "'", key, "' is missing");
    if (at->is_string()) return {at->get<std::string>()};
    check_usage(at->is_array() && !at->empty(), "request", "'", key, "' must be a text or a list of texts");
    std::vector<std::string> out;
    for (const Json& one : *at) {
      check_usage(one.is_string(), "request", "'", key, "' must have texts alone; ids are not supported there");
      out.push_back(one.get<std::string>());
    }
    return out;
  }
  static void check_keys(const Json& body, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : body.items())
      check_usage(std::find(known.begin(), known.end(), key) != known.end(), "request", "unknown key '", key, "'");
  }

  Json embeddings(const Json& body) const {
    ServedModel& model = model_of(body);
    check_keys(body, {"model", "input", "encoding_format", "dimensions", "user"});
    const std::vector<std::string> texts = texts_of(body, "input");
    const std::string format = body.value("encoding_format", Json("float")).is_string()
                                   ? body.value("encoding_format", Json("float")).get<std::string>()
                                   : "";
    check_usage(format == "float" || format == "base64", "request", "'encoding_format' must be float or base64");
    const Tensor rows = model.encode(texts);
    const auto wanted = body.find("dimensions");
    check_usage(wanted == body.end() || *wanted == rows.cols(), "request", "'dimensions' must be the model's ",
                rows.cols());
    Json data = Json::array();
    int64_t tokens = 0;
    for (const std::string& text : texts) tokens += int64_t(model.tokenizer().encode(text).size());
    for (int64_t i = 0; i < rows.rows(); ++i) {
      const float* row = rows.data<float>() + i * rows.cols();
      Json one = {{"object", "embedding"}, {"index", i}};
      if (format == "base64")
        one["embedding"] = to_base64({reinterpret_cast<const char*>(row), size_t(rows.cols()) * sizeof(float)});
      else
        one["embedding"] = std::vector<float>(row, row + rows.cols());
      data.push_back(std::move(one));
    }
    return {{"object", "list"},
            {"data", data},
            {"model", model.name()},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  }

  // By the cosine of rows, the highest first.
  Json rerank(const Json& body) const {
    ServedModel& model = model_of(body);
    check_keys(body, {"model", "query", "documents", "top_n", "return_documents"});
    const std::vector<std::string> query = texts_of(body, "query"), documents = texts_of(body, "documents");
    check_usage(query.size() == 1, "request", "'query' must be one text");
    std::vector<std::string> all = documents;
    all.push_back(query[0]);
    const Tensor rows = model.encode(all);
    const auto dot = [&](int64_t a, int64_t b) {
      double sum = 0;
      for (int64_t c = 0; c < rows.cols(); ++c)
        sum += value_at(rows, a * rows.cols() + c) * value_at(rows, b * rows.cols() + c);
      return sum;
    };
    const auto last = int64_t(documents.size());
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t i = 0; i < last; ++i)
      order.push_back({-dot(i, last) / std::max(1e-300, std::sqrt(dot(i, i) * dot(last, last))), i});
    std::sort(order.begin(), order.end());
    const auto top = body.find("top_n");
    check_usage(top == body.end() || (top->is_number_integer() && top->get<int64_t>() >= 1), "request",
                "'top_n' must be at least 1");
    if (top != body.end()) order.resize(std::min(order.size(), size_t(top->get<int64_t>())));
    Json results = Json::array();
    for (const auto& [score, i] : order) results.push_back({{"index", i}, {"relevance_score", -score}});
    return {{"model", model.name()}, {"results", results}};
  }

  Json list() const {
    Json data = Json::array();
    for (const auto& model : models_)
      data.push_back({{"id", model->name()},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "lithe"},
                      {"max_model_len", model->generates() ? Json(model->longest() - 1) : Json()},
                      {"vocab_size", model->tokenizer().vocab_size()},
                      {"chat", model->chat_template() != nullptr},
                      {"completions", model->generates()}});
    return {{"object", "list"}, {"data", data}};
  }

  static Json tokenizer_info(const ServedModel& model) {
    const Specials& specials = model.tokenizer().specials();
    const auto text = [&](const std::optional<int32_t>& id) {
      return id ? Json(model.tokenizer().decode(std::vector<int32_t>{*id})) : Json();
    };
    return {{"bos_token", text(specials.bos)},
            {"eos_token", text(specials.eos)},
            {"pad_token", text(specials.pad)},
            {"unk_token", text(specials.unk)},
            {"chat_template", model.chat_template() ? Json(model.chat_template()->source()) : Json()}};
  }
  // The harness calls the text `prompt`, llama.cpp `content`.
  Json tokenize(const Json& body) const {
    ServedModel& model = model_of(body);
    check_keys(body, {"model", "prompt", "content", "add_special_tokens"});
    const char* key = body.contains("prompt") ? "prompt" : "content";
    check_usage(body.contains(key) && body[key].is_string(), "request", "'prompt' must be a text");
    GenerateConfig config;
    config.add_bos_token = body.value("add_special_tokens", Json(false)) == Json(true);
    const std::string text = body[key].get<std::string>();
    const std::vector<int32_t> tokens =
        config.add_bos_token ? prompt_tokens(model.tokenizer(), text, config) : model.tokenizer().encode(text);
    return {{"tokens", tokens}, {"count", tokens.size()}};
  }
  Json detokenize(const Json& body) const {
    ServedModel& model = model_of(body);
    check_keys(body, {"model", "tokens"});
    check_usage(body.contains("tokens") && body["tokens"].is_array(), "request", "'tokens' must be a list of ids");
    std::vector<int32_t> ids;
    for (const Json& id : body["tokens"]) {
      check_usage(
          id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < model.tokenizer().vocab_size(),
          "request", "'tokens' has ", dump(id, -1, Invalid::replaced), ", the tokenizer has ids below ",
          model.tokenizer().vocab_size());
      ids.push_back(id.get<int32_t>());
    }
    const std::string text = model.tokenizer().decode(ids);
    return {{"prompt", text}, {"content", text}};
  }

  std::string metrics() const {
    std::string out;
    const auto put = [&](const char* name, const char* type, const char* help, auto&& value) {
      out += cat("# HELP lithe_", name, " ", help, "\n# TYPE lithe_", name, " ", type, "\n");
      for (const auto& model : models_)
        if (model->generates()) out += cat("lithe_", name, "{model=\"", model->name(), "\"} ", value(*model), "\n");
    };
    put("prompt_tokens_total", "counter", "Tokens of prompts.",
        [](const ServedModel& m) { return m.load().times.prompt_tokens; });
    put("generated_tokens_total", "counter", "Tokens that were added.",
        [](const ServedModel& m) { return m.load().times.new_tokens; });
    put("prompt_seconds_total", "counter", "Seconds of reading prompts.",
        [](const ServedModel& m) { return m.load().times.prefill_seconds; });
    put("generated_seconds_total", "counter", "Seconds of adding tokens.",
        [](const ServedModel& m) { return m.load().times.decode_seconds; });
    put("requests_processing", "gauge", "Requests under way.", [](const ServedModel& m) { return m.load().running; });
    put("requests_deferred", "gauge", "Requests that wait.", [](const ServedModel& m) { return m.load().waiting; });
    put("prompt_tokens_cached_total", "counter", "Tokens of prompts that were kept from earlier ones.",
        [](const ServedModel& m) { return m.load().times.cached_tokens; });
    put("prefix_cache_entries", "gauge", "Beginnings of prompts that are kept.",
        [](const ServedModel& m) { return m.load().times.prefixes; });
    put("prefix_cache_bytes", "gauge", "Bytes of beginnings of prompts that are kept.",
        [](const ServedModel& m) { return m.load().times.prefix_bytes; });
    put("drafted_tokens_total", "counter", "Tokens that were drafted.",
        [](const ServedModel& m) { return m.load().times.drafted; });
    put("accepted_tokens_total", "counter", "Drafted tokens that the model took.",
        [](const ServedModel& m) { return m.load().times.taken; });
    put("decode_state_bytes_peak", "gauge", "Most bytes of decode state.",
        [](const ServedModel& m) { return m.load().times.peak_state_bytes; });
    out += cat("# HELP lithe_requests_total Requests.\n# TYPE lithe_requests_total counter\nlithe_requests_total ",
               requests_.load(),
               "\n# HELP lithe_requests_refused_total Requests that were refused.\n# TYPE lithe_requests_refused_total "
               "counter\n"
               "lithe_requests_refused_total ",
               refused_.load(), "\n");
    return out;
  }
};

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

}  // namespace

void serve(const std::vector<std::unique_ptr<ServedModel>>& models, const HttpOptions& options,
           const std::function<void(int port)>& ready) {
  check_usage(is_loopback(options.host) || !options.key_file.empty(), "serve", "'", options.host,
              "' can be reached by others; give --api-key-file, or stay at 127.0.0.1");
  Routes routes(models, options);
  httplib::Server server;
  server.new_task_queue = [n = size_t(options.connections)] { return new httplib::ThreadPool(n); };
  server.set_payload_max_length(size_t(options.body_bytes));
  server.set_keep_alive_max_count(1000);
  server.set_keep_alive_timeout(5);
  server.set_read_timeout(30);
  server.set_tcp_nodelay(true);
  routes.add_to(server);
  int door = -1;
  server.set_socket_options([&](int socket) {
    httplib::default_socket_options(socket);
    door = socket;
  });
  int port = int(options.port);
  if (port == 0)
    port = server.bind_to_any_port(options.host);
  else if (!server.bind_to_port(options.host, port))
    port = -1;
  check_usage(port > 0, "serve", "port ", options.port, " of '", options.host, "' cannot be had; is it in use?");
  // The library lets five clients wait at the door; more at once were turned away without an answer.
  check(::listen(door, SOMAXCONN) == 0, "serve", "port ", port, " cannot be listened to");
  std::thread listener([&] { server.listen_after_bind(); });
  ready(port);
  while (!stop_signal()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto busy = [&] {
    for (const auto& model : models)
      if (const auto load = model->load(); load.running || load.waiting) return true;
    return false;
  };
  const auto begin = Clock::now();
  while (busy() && Clock::now() - begin < std::chrono::seconds(options.drain_seconds))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
  listener.join();
}

}  // namespace lithe
