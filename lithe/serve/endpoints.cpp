#include "lithe/serve/endpoints.h"

#include <algorithm>

#include "lithe/eval/similarity.h"
#include "lithe/infer/generate.h"
#include "lithe/serve/body.h"
#include "lithe/text/base64.h"

namespace lithe {
namespace {

// Tokens of a text, as the model's tokenizer writes them: others would be read as another text.
std::string text_of_ids(const Json& list, const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = ids_of(list, "input", tokenizer.vocab_size());
  check_usage(tokenizer.width() == 1, "request", "'input' has ids, and the model's tokens are none; give the text");
  std::string text = tokenizer.decode(ids);
  check_usage(tokenizer.encode(text) == ids, "request",
              "'input' has ids that are not the tokens of a text by this model's tokenizer; give the text");
  return text;
}

std::vector<std::string> input_of(Body& body, const Tokenizer& tokenizer) {
  const Json& given = body.get("input");
  if (!given.is_array() || given.empty() || given[0].is_string()) return body.texts("input");
  if (!given[0].is_array()) return {text_of_ids(given, tokenizer)};
  std::vector<std::string> out;
  for (const Json& one : given) out.push_back(text_of_ids(one, tokenizer));
  return out;
}

/// How many tokens of a text are read at most, and how many of all texts are.
struct TextLimit {
  int64_t most = 0, tokens = 0;
};
// Texts are cut only where the request says so.
TextLimit limit_of(Body& body, const ServedModel& model, const std::vector<std::string>& texts, const char* key) {
  const int64_t longest = model.longest_text(), asked = body.integer("truncate_prompt_tokens", 0, -1, longest);
  TextLimit out{asked > 0 ? asked : longest};
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t tokens = int64_t(model.tokenizer().encode(texts[i]).size()) / model.tokenizer().width();
    check_usage(asked || tokens <= longest, "request", "text ", i, " of '", key, "' has ", tokens,
                " tokens, the model reads ", longest,
                "; shorten it, or give 'truncate_prompt_tokens': -1 to have its beginning read");
    out.tokens += std::min(tokens, out.most);
  }
  return out;
}

// A text of a label in the format of Prometheus.
std::string label_of(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    c == '\n' ? out += "\\n" : out += c;
  }
  return out;
}

}  // namespace

std::optional<Chosen> find_model(const ServedModels& models, const std::string& name) {
  if (name.empty()) return Chosen{*models.front(), models.front()->name()};
  for (const auto& model : models) {
    if (model->name() == name) return Chosen{*model, name};
    for (const auto& [id, adapter] : model->adapters())
      if (name == id || name == model->name() + ":" + id) return Chosen{*model, id, adapter.get()};
  }
  return std::nullopt;
}

std::string model_names(const ServedModels& models) {
  std::string out;
  const auto list = [&](const std::string& one) { out += (out.empty() ? "'" : ", '") + one + "'"; };
  for (const auto& model : models) {
    list(model->name());
    for (const auto& [id, adapter] : model->adapters()) list(id);
  }
  return out;
}

Json embeddings(const Chosen& chosen, const Json& given, const StillWanted& wanted) {
  ServedModel& model = chosen.model;
  Body body(given);
  body.ignore({"model", "user"});
  const std::vector<std::string> texts = input_of(body, model.tokenizer());
  const TextLimit limit = limit_of(body, model, texts, "input");
  const Json *format = body.find("encoding_format"), *dimensions = body.find("dimensions");
  const int64_t width = model.model().config().hidden_size;
  check_usage(!format || *format == "float" || *format == "base64", "request",
              "'encoding_format' must be float or base64, got ", format ? shown(*format) : "");
  check_usage(!dimensions || *dimensions == width, "request", "'dimensions' must be the model's ", width, ", got ",
              dimensions ? shown(*dimensions) : "");
  body.finish();
  const bool bytes = format && *format == "base64";
  const Tensor rows = model.encode(texts, chosen.adapter, wanted, limit.most);
  Json data = Json::array();
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const float* row = rows.data<float>() + i * rows.cols();
    Json one = {{"object", "embedding"}, {"index", i}};
    if (bytes)
      one["embedding"] = to_base64({reinterpret_cast<const char*>(row), size_t(rows.cols()) * sizeof(float)});
    else
      one["embedding"] = std::vector<float>(row, row + rows.cols());
    data.push_back(std::move(one));
  }
  return {{"object", "list"},
          {"data", data},
          {"model", chosen.name},
          {"usage", {{"prompt_tokens", limit.tokens}, {"total_tokens", limit.tokens}}}};
}

Json rerank(const Chosen& chosen, const Json& given, const StillWanted& wanted) {
  Body body(given);
  body.ignore({"model"});
  std::vector<std::string> texts = body.texts("documents");
  const std::vector<std::string> query = body.texts("query");
  const auto last = int64_t(texts.size());
  check_usage(query.size() == 1, "request", "'query' must be one text, got ", query.size());
  const int64_t top = std::min(last, body.integer("top_n", last, 1, INT64_MAX));
  const bool with_documents = body.flag("return_documents", false);
  const int64_t most = limit_of(body, chosen.model, texts, "documents").most;
  limit_of(body, chosen.model, query, "query");
  body.finish();
  texts.push_back(query[0]);
  const Tensor rows = chosen.model.encode(texts, chosen.adapter, wanted, most);
  const Neighbours nearest = nearest_rows(rows.slice(last, last + 1), rows.slice(0, last), top, Similarity::cosine);
  Json results = Json::array();
  for (size_t n = 0; n < nearest.index.size(); ++n) {
    const int64_t i = nearest.index[n];
    results.push_back({{"index", i}, {"relevance_score", nearest.score[n]}});
    if (with_documents) results.back()["document"] = {{"text", texts[size_t(i)]}};
  }
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
                {"completions", model->generates()},
                {"classifies", model->predicts()},
                {"translates", model->translates()}};
    data.push_back(one);
    one["parent"] = model->name();
    for (const auto& [id, adapter] : model->adapters()) {
      one["id"] = id;
      data.push_back(one);
    }
  }
  return {{"object", "list"}, {"data", data}};
}

Json model_entry(const ServedModels& models, const std::string& name) {
  const Json list = model_list(models);
  for (const Json& one : list["data"])
    if (one["id"] == name) return one;
  return {};
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
Json tokenize(const ServedModel& model, const Json& given) {
  Body body(given);
  body.ignore({"model"});
  const Json *prompt = body.find("prompt"), *content = body.find("content"), *text = prompt ? prompt : content;
  check_usage(text && text->is_string() && !(prompt && content), "request", "'prompt' or 'content' must be a text");
  GenerateConfig config;
  config.add_bos_token = body.flag("add_special_tokens", false);
  body.finish();
  const std::string whole = text->get<std::string>();
  const std::vector<int32_t> tokens =
      config.add_bos_token ? prompt_tokens(model.tokenizer(), whole, config) : model.tokenizer().encode(whole);
  return {{"tokens", tokens}, {"count", tokens.size()}};
}
Json detokenize(const ServedModel& model, const Json& given) {
  Body body(given);
  body.ignore({"model"});
  const std::vector<int32_t> ids = ids_of(body.get("tokens"), "tokens", model.tokenizer().vocab_size());
  body.finish();
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
    for (const auto& [model, load] : loads)
      out += cat("lithe_", name, "{model=\"", label_of(model), "\"} ", value(load), "\n");
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
