#include "lithe/serve/routes.h"

#include <cstdio>
#include <ctime>
#include <iostream>
#include <sstream>
#include <utility>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/serve/completion_run.h"
#include "lithe/serve/http_server.h"
#include "lithe/serve/page.h"
#include "lithe/serve/task_endpoints.h"
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

// What the log says of the request that this thread answers, beside its path and status.
struct LogEntry {
  Clock::time_point begin = {};  // behind its body; none: no route took it
  std::string model;
  Json usage = Json::object();
};
thread_local LogEntry logged;

// One line: "POST /v1/completions 200 gpt2 12+34 tokens 0.512 s", or an object.
void log_request(const Request& in, const Response& out, bool json) {
  const LogEntry of = std::exchange(logged, {});
  const bool timed = of.begin != Clock::time_point();
  const double seconds = timed ? std::chrono::duration<double>(Clock::now() - of.begin).count() : 0;
  const auto tokens = [&](const char* key) { return of.usage.value(key, int64_t(0)); };
  if (json) {
    Json line = {{"time", std::time(nullptr)},
                 {"remote", in.remote_addr},
                 {"method", in.method},
                 {"path", in.path},
                 {"status", out.status},
                 {"seconds", timed ? Json(seconds) : Json()},
                 {"model", of.model.empty() ? Json() : Json(of.model)}};
    for (const char* key : {"prompt_tokens", "completion_tokens"}) line[key] = tokens(key);
    std::cerr << dump(line, -1, Invalid::replaced) + "\n";
    return;
  }
  char time[32] = "";
  if (timed) std::snprintf(time, sizeof time, " %.3f s", seconds);
  log_info(in.method, " ", in.path, " ", out.status, of.model.empty() ? "" : " " + of.model,
           of.usage.empty() ? "" : cat(" ", tokens("prompt_tokens"), "+", tokens("completion_tokens"), " tokens"),
           time);
}

void answer(Response& to, int status, const Json& body) {
  to.status = status;
  if (const auto usage = body.find("usage"); usage != body.end() && usage->is_object()) logged.usage = *usage;
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
  if (refusal.status == 429 || refusal.status == 503) to.set_header("Retry-After", "1");
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

/// A request whose answer is not written yet.
struct UnderWay {
  std::atomic<int64_t>& count;
  explicit UnderWay(std::atomic<int64_t>& of) : count(of) { ++count; }
  ~UnderWay() { --count; }
  UnderWay(const UnderWay&) = delete;
};

std::string reason_of(const Request& in, int status) {
  switch (status) {
    case 404: return cat("nothing is at ", in.method, " ", in.path);
    case 413: return "the body is larger than this server takes";
    case 415: return "the body must be JSON";
    case 400: return "the request is no HTTP that this server reads";
    default: return cat("status ", status);
  }
}

Refusal not_found(const ServedModels& models, const std::string& name) {
  return {404, cat("no model is named '", name, "'; this server has ", model_names(models)), "invalid_request_error"};
}

bool is_late(Clock::time_point begin, int64_t seconds) {
  return seconds && Clock::now() - begin > std::chrono::seconds(seconds);
}

}  // namespace

Routes::Routes(const HttpOptions& options) : options_(options), keys_(keys_of(options.key_file)) {}

void Routes::add_to(HttpServer& server) {
  server.Get("/", [](const Request&, Response& out) { out.set_content(page(), "text/html; charset=utf-8"); });
  server.Get("/health", [this](const Request&, Response& out) {
    const bool stops = stop_signal(), loaded = models_;
    answer(out, loaded && !stops ? 200 : 503, {{"status", stops ? "stopping" : loaded ? "ok" : "loading"}});
  });
  get(server, "/v1/models", [this](const Request&, Response& out) { answer(out, 200, model_list(*models_)); });
  get(server, "/v1/models/(.+)", [this](const Request& in, Response& out) {
    const std::string name = in.matches[1];
    const Json entry = model_entry(*models_, name);
    if (entry.is_null()) throw not_found(*models_, name);
    answer(out, 200, entry);
  });
  get(server, "/metrics", [this](const Request&, Response& out) {
    out.set_content(metrics(*models_, requests_, refused_), "text/plain; version=0.0.4");
  });
  get(server, "/tokenizer_info", [this](const Request& in, Response& out) {
    answer(out, 200, tokenizer_info(model_named(in.get_param_value("model")).model));
  });
  post(server, "/v1/completions", [this](const Json& body, Response& out) { complete(body, out, false); });
  post(server, "/v1/chat/completions", [this](const Json& body, Response& out) { complete(body, out, true); });
  post(server, "/v1/embeddings",
       [this](const Json& body, Response& out) { answer(out, 200, embeddings(model_of(body), body, still_wanted())); });
  post(server, "/v1/rerank",
       [this](const Json& body, Response& out) { answer(out, 200, rerank(model_of(body), body, still_wanted())); });
  for (const char* path : {"/v1/classify", "/classify"})
    post(server, path,
         [this](const Json& body, Response& out) { answer(out, 200, classify(model_of(body), body, still_wanted())); });
  post(server, "/v1/translations", [this](const Json& body, Response& out) {
    answer(out, 200, translations(model_of(body), body, still_wanted()));
  });
  post(server, "/tokenize",
       [this](const Json& body, Response& out) { answer(out, 200, tokenize(model_of(body).model, body)); });
  post(server, "/detokenize",
       [this](const Json& body, Response& out) { answer(out, 200, detokenize(model_of(body).model, body)); });
  server.refuse_others();
  server.set_error_handler([](const Request& in, Response& out) {
    if (out.body.empty()) answer(out, out.status, error_body(reason_of(in, out.status), "invalid_request_error"));
  });
  server.set_exception_handler(
      [](const Request&, Response& out, std::exception_ptr error) { refuse(out, refusal_of(error)); });
  server.set_logger(
      [json = options_.log_format == "json"](const Request& in, const Response& out) { log_request(in, out, json); });
}

bool Routes::allowed(const Request& in) const {
  const std::string header = in.get_header_value("Authorization");
  const std::string given = header.rfind("Bearer ", 0) == 0 ? header.substr(7) : "";
  bool found = false;
  for (const std::string& key : keys_) found |= equal_in_constant_time(key, given);
  return found;
}

void Routes::check_open(const Request& in) const {
  if (!keys_.empty() && !allowed(in))
    throw Refusal{401, "give a key of this server: header Authorization: Bearer KEY", "authentication_error"};
  if (!models_ || stop_signal())
    throw Refusal{503, models_ ? "the server stops" : "the models are being loaded", "service_unavailable"};
}

void Routes::get(HttpServer& server, const char* path, std::function<void(const Request&, Response&)> handler) {
  server.Get(path, [this, handler = std::move(handler)](const Request& in, Response& out) {
    logged = {.begin = Clock::now()};
    try {
      check_open(in);
      handler(in, out);
    } catch (...) {
      refuse(out, refusal_of(std::current_exception()));
    }
  });
}

void Routes::post(HttpServer& server, const char* path, std::function<void(const Json&, Response&)> handler) {
  server.post(path, [this, handler = std::move(handler)](const Request& in, const std::string& text, Response& out) {
    ++requests_;
    logged = {.begin = Clock::now()};
    const UnderWay here(under_way_);
    try {
      check_open(in);
      if (options_.log_prompts) log_info(in.path, " ", valid_utf8(text.substr(0, 2000)));
      Json body;
      try {
        body = parse_json(text, "the body");
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

Chosen Routes::model_named(const std::string& name) const {
  if (const std::optional<Chosen> found = find_model(*models_, name)) {
    logged.model = found->name;
    return *found;
  }
  throw not_found(*models_, name);
}

// From now on: the client is there, and its time is not over.
StillWanted Routes::still_wanted() const {
  return [begin = Clock::now(), seconds = options_.timeout_seconds] {
    if (is_late(begin, seconds)) throw Refusal{504, "the request took too long (--timeout)", "timeout_error"};
    if (!HttpServer::client_is_there()) throw Refusal{400, "the client went away", "invalid_request_error"};
  };
}

Chosen Routes::model_of(const Json& body) const {
  check_usage(body.is_object(), "request", "the body must be a JSON object");
  const auto at = body.find("model");
  check_usage(at == body.end() || at->is_string(), "request", "'model' must be a text");
  return model_named(at == body.end() ? "" : at->get<std::string>());
}

void Routes::complete(const Json& body, Response& out, bool chat) {
  const Chosen chosen = model_of(body);
  CompletionRequest request = read_completion(body, chosen.model, chat);
  request.adapter = chosen.adapter;
  const bool streams = request.stream;
  const CompletionHead head{cat(chat ? "chatcmpl-" : "cmpl-", next_++), chosen.name, int64_t(std::time(nullptr))};
  const StillWanted wanted = still_wanted();
  const auto run = std::make_shared<CompletionRun>(chosen.model, std::move(request), head, wanted);
  if (streams) return stream(run, out);
  answer(out, 200, run->whole(kLook, wanted));
}

void Routes::stream(const std::shared_ptr<CompletionRun>& run, Response& out) {
  const auto open = std::make_shared<UnderWay>(under_way_);  // as long as the answer is written
  const auto begin = Clock::now();
  const auto spoke = std::make_shared<Clock::time_point>(begin);
  out.status = 200;
  out.set_header("Cache-Control", "no-cache");
  out.set_chunked_content_provider("text/event-stream", [this, run, begin, spoke, open](size_t, httplib::DataSink& to) {
    std::string text;
    bool last = false;
    try {
      text = run->events(kLook);
      last = run->done();
      logged.usage = run->spent();
      if (!last && is_late(begin, options_.timeout_seconds))
        throw Refusal{504, "the request took too long (--timeout)", "timeout_error"};
    } catch (...) {
      const Refusal refusal = refusal_of(std::current_exception());
      text += "data: " + dump(error_body(refusal.message, refusal.type), -1, Invalid::replaced) + "\n\n";
      last = true;
    }
    if (text.empty() && Clock::now() - *spoke > kPing) text = ": ping\n\n";
    if (!text.empty()) *spoke = Clock::now();
    if (!to.is_writable() || (!text.empty() && !to.write(text.data(), text.size()))) return false;
    if (last) to.done();
    return true;
  });
}

}  // namespace lithe
