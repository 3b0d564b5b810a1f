#include "lithe/serve/endpoints.h"

#include <algorithm>
#include <cmath>

#include "lithe/infer/generate.h"
#include "lithe/text/base64.h"

namespace lithe {
namespace {

std::vector<std::string> texts_of(const Json& body, const char* key) {
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
void check_keys(const Json& body, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : body.items())
    check_usage(std::find(known.begin(), known.end(), key) != known.end(), "request", "unknown key '", key, "'");
}

}  // namespace

std::optional<Chosen> find_model(const ServedModels& models, const std::string& name, std::string* names) {
  if (name.empty()) return Chosen{*models.front(), models.front()->name()};
  const auto list = [&](const std::string& one) { *names += (names->empty() ? "'" : ", '") + one + "'"; };
  for (const auto& model : models) {
    if (model->name() == name) return Chosen{*model, name};
    list(model->name());
    for (const auto& [id, adapter] : model->adapters()) {
      if (name == id || name == model->name() + ":" + id) return Chosen{*model, id, adapter.get()};
      list(id);
    }
  }
  return std::nullopt;
}

Json embeddings(const Chosen& chosen, const Json& body) {
  ServedModel& model = chosen.model;
  check_keys(body, {"model", "input", "encoding_format", "dimensions", "user"});
  const std::vector<std::string> texts = texts_of(body, "input");
  const std::string format = body.value("encoding_format", Json("float")).is_string()
                                 ? body.value("encoding_format", Json("float")).get<std::string>()
                                 : "";
  check_usage(format == "float" || format == "base64", "request", "'encoding_format' must be float or base64");
  const Tensor rows = model.encode(texts, chosen.adapter);
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
          {"model", chosen.name},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

Json rerank(const Chosen& chosen, const Json& body) {
  ServedModel& model = chosen.model;
  check_keys(body, {"model", "query", "documents", "top_n", "return_documents"});
  const std::vector<std::string> query = texts_of(body, "query"), documents = texts_of(body, "documents");
  check_usage(query.size() == 1, "request", "'query' must be one text");
  std::vector<std::string> all = documents;
  all.push_back(query[0]);
  const Tensor rows = model.encode(all, chosen.adapter);
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
  return {{"model", chosen.name}, {"results", results}};
}

Json model_list(const ServedModels& models) {
  Json data = Json::array();
  for (const auto& model : models) {
    Json one = {{"id", model->name()},
                {"object", "model"},
                {"created", 0},
                {"owned_by", "lithe"},
                {"parent", nullptr},
                {"max_model_len", model->generates() ? Json(model->longest() - 1) : Json()},
                {"vocab_size", model->tokenizer().vocab_size()},
                {"chat", model->chat_template() != nullptr},
                {"completions", model->generates()}};
    data.push_back(one);
    one["parent"] = model->name();
    for (const auto& [id, adapter] : model->adapters()) {
      one["id"] = id;
      data.push_back(one);
    }
  }
  return {{"object", "list"}, {"data", data}};
}

Json tokenizer_info(const ServedModel& model) {
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
Json tokenize(const ServedModel& model, const Json& body) {
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
Json detokenize(const ServedModel& model, const Json& body) {
  check_keys(body, {"model", "tokens"});
  check_usage(body.contains("tokens") && body["tokens"].is_array(), "request", "'tokens' must be a list of ids");
  std::vector<int32_t> ids;
  for (const Json& id : body["tokens"]) {
    check_usage(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < model.tokenizer().vocab_size(),
                "request", "'tokens' has ", dump(id, -1, Invalid::replaced), ", the tokenizer has ids below ",
                model.tokenizer().vocab_size());
    ids.push_back(id.get<int32_t>());
  }
  const std::string text = model.tokenizer().decode(ids);
  return {{"prompt", text}, {"content", text}};
}

std::string metrics(const ServedModels& models, uint64_t requests, uint64_t refused) {
  std::string out;
  using Load = ServedModel::Load;
  std::vector<std::pair<std::string, Load>> loads;  // all numbers of a model are of one moment
  for (const auto& model : models)
    if (model->generates()) loads.emplace_back(model->name(), model->load());
  const auto put = [&](const char* name, const char* type, const char* help, auto&& value) {
    out += cat("# HELP lithe_", name, " ", help, "\n# TYPE lithe_", name, " ", type, "\n");
    for (const auto& [model, load] : loads) out += cat("lithe_", name, "{model=\"", model, "\"} ", value(load), "\n");
  };
  put("prompt_tokens_total", "counter", "Tokens of prompts.", [](const Load& l) { return l.times.prompt_tokens; });
  put("generated_tokens_total", "counter", "Tokens that were added.", [](const Load& l) { return l.times.new_tokens; });
  put("prompt_seconds_total", "counter", "Seconds of reading prompts.",
      [](const Load& l) { return l.times.prefill_seconds; });
  put("generated_seconds_total", "counter", "Seconds of adding tokens.",
      [](const Load& l) { return l.times.decode_seconds; });
  put("requests_processing", "gauge", "Requests under way.", [](const Load& l) { return l.running; });
  put("requests_deferred", "gauge", "Requests that wait.", [](const Load& l) { return l.waiting; });
  put("prompt_tokens_cached_total", "counter", "Tokens of prompts that were kept from earlier ones.",
      [](const Load& l) { return l.times.cached_tokens; });
  put("prefix_cache_entries", "gauge", "Beginnings of prompts that are kept.",
      [](const Load& l) { return l.times.prefixes; });
  put("prefix_cache_bytes", "gauge", "Bytes of beginnings of prompts that are kept.",
      [](const Load& l) { return l.times.prefix_bytes; });
  put("drafted_tokens_total", "counter", "Tokens that were drafted.", [](const Load& l) { return l.times.drafted; });
  put("accepted_tokens_total", "counter", "Drafted tokens that the model took.",
      [](const Load& l) { return l.times.taken; });
  put("decode_state_bytes_peak", "gauge", "Most bytes of decode state.",
      [](const Load& l) { return l.times.peak_state_bytes; });
  out +=
      cat("# HELP lithe_requests_total Requests.\n# TYPE lithe_requests_total counter\nlithe_requests_total ", requests,
          "\n# HELP lithe_requests_refused_total Requests that were refused.\n# TYPE lithe_requests_refused_total "
          "counter\n"
          "lithe_requests_refused_total ",
          refused, "\n");
  return out;
}

}  // namespace lithe
