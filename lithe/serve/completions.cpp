#include "lithe/serve/completions.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lithe/infer/generate.h"
#include "lithe/serve/answer_format.h"
#include "lithe/serve/body.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr int64_t kMostLogprobs = 20, kMostChoices = 128, kMostStops = 16;

// Scores lose what presence and frequency cost, for each token that stands behind the prompt.
class Penalties final : public RowStep {
 public:
  Penalties(double presence, double frequency, std::map<int32_t, double> biases)
      : presence_(presence), frequency_(frequency), biases_(std::move(biases)) {}
  void apply(LogitRow& row) const override {
    std::map<int32_t, int64_t> counts;
    for (size_t i = size_t(row.prompt_tokens); i < row.tokens.size(); ++i) ++counts[row.tokens[i]];
    const std::span<float> scores = row.choice.scores();
    for (const auto& [token, count] : counts) scores[size_t(token)] -= float(presence_ + frequency_ * double(count));
    for (const auto& [token, bias] : biases_) scores[size_t(token)] += float(bias);
  }

 private:
  double presence_, frequency_;
  std::map<int32_t, double> biases_;
};

std::map<int32_t, double> biases_of(const Json* given, int64_t vocab) {
  std::map<int32_t, double> out;
  if (!given) return out;
  check_usage(given->is_object(), "request", "'logit_bias' must be an object of token ids");
  for (const auto& [key, value] : given->items()) {
    const bool whole = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    check_usage(whole && std::stol(key) < vocab && value.is_number() && std::abs(value.get<double>()) <= 100, "request",
                "'logit_bias' must have ids below ", vocab, " and numbers from -100 to 100, got '", key,
                "': ", shown(value));
    out[int32_t(std::stol(key))] = value.get<double>();
  }
  return out;
}

std::vector<std::string> stops_of(const Json* given) {
  std::vector<std::string> out;
  if (!given) return out;
  const Json list = given->is_string() ? Json::array({*given}) : *given;
  check_usage(list.is_array() && int64_t(list.size()) <= kMostStops, "request",
              "'stop' must be a text or a list of at most ", kMostStops, " texts");
  for (const Json& one : list) {
    check_usage(one.is_string() && !one.get_ref<const std::string&>().empty(), "request",
                "'stop' must have texts that are not empty");
    out.push_back(one.get<std::string>());
  }
  return out;
}

void add_prompt(CompletionRequest& to, const Json& prompt, const ServedModel& model) {
  if (prompt.is_string()) {
    const std::string text = prompt.get<std::string>();
    to.prompts.push_back(prompt_tokens(model.tokenizer(), text, to.config));
    to.empty.push_back(text.empty());
    const std::vector<int32_t>& tokens = to.prompts.back();
    to.begun.push_back(!tokens.empty() && model.tokenizer().is_special(tokens[0]));  // texts themselves have none
    return;
  }
  check_usage(prompt.is_array() && !prompt.empty(), "request",
              "a prompt must be a text or a list of ids, at least one");
  to.prompts.push_back(ids_of(prompt, "prompt", model.model().config().vocab_size));
  to.empty.push_back(false);
  to.begun.push_back(false);
}

void read_prompts(CompletionRequest& to, const Json* given, const ServedModel& model) {
  check_usage(given, "request", "'prompt' is missing");
  const bool several = given->is_array() && !given->empty() && !(*given)[0].is_number();
  check_usage(!given->is_array() || !given->empty(), "request", "'prompt' is an empty list");
  if (!several) return add_prompt(to, *given, model);
  for (const Json& one : *given) add_prompt(to, one, model);
}

// Contents that are lists of texts, as lines.
Json with_plain_contents(Json messages) {
  if (!messages.is_array()) return messages;
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    std::string text;
    for (const Json& part : message["content"]) {
      const bool plain =
          part.is_object() && part.value("type", Json()) == "text" && part.contains("text") && part["text"].is_string();
      check_usage(plain, "request", "'content' as a list must have {\"type\": \"text\", \"text\": ...} alone, got ",
                  shown(part));
      text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
    }
    message["content"] = text;
  }
  return messages;
}

void read_chat(CompletionRequest& to, Body& body, const ServedModel& model) {
  const Json* messages = body.find("messages");
  check_usage(messages, "request", "'messages' is missing");
  check_usage(model.chat_template(), "request", "model '", model.name(),
              "' has no chat template; start the server with --chat-template FILE, or use /v1/completions");
  std::vector<int32_t> tokens = model.chat_template()->tokens(with_plain_contents(*messages), model.tokenizer());
  check_usage(!tokens.empty(), "request", "the chat template makes an empty text of these messages");
  to.prompts.push_back(std::move(tokens));
  to.empty.push_back(false);
  to.begun.push_back(false);
  const bool wanted = body.flag("logprobs", false);
  const int64_t top = body.integer("top_logprobs", 0, 0, kMostLogprobs);
  check_usage(wanted || top == 0, "request", "'top_logprobs' needs 'logprobs': true");
  if (wanted) to.logprobs = top;
}

std::string text_of(const Tokenizer& tokenizer, int32_t id) { return tokenizer.piece(id, false); }

Json bytes_of(const std::string& text) {
  Json out = Json::array();
  for (const char c : text) out.push_back(int(uint8_t(c)));
  return out;
}

}  // namespace

CompletionRequest read_completion(const Json& given, const ServedModel& model, bool chat) {
  check_usage(model.generates(), "request", "model '", model.name(), "' continues no texts; ask it for /v1/",
              model.translates() ? "translations"
              : model.predicts() ? "classify"
                                 : "embeddings");
  Body body(given);
  CompletionRequest out;
  out.chat = chat;
  GenerateConfig& config = out.config = model.base_config();
  config.prompt.clear();
  body.ignore({"model", "user", "metadata", "store", "safety_identifier", "prompt_cache_key"});
  body.refuse({"best_of", "suffix", "tools", "functions", "function_call", "modalities", "audio", "prediction",
               "reasoning_effort", "web_search_options", "parallel_tool_calls", "verbosity"});
  // What others say by these values is what happens here.
  for (const auto& [key, values] : {std::pair("tool_choice", std::set<Json>{"none", "auto"}),
                                    std::pair("service_tier", std::set<Json>{"auto", "default"})}) {
    const Json* given_value = body.find(key);
    check_usage(!given_value || values.count(*given_value), "request", "'", key, "' is not supported; leave it out");
  }
  const Json *format = body.find("response_format"), *grammar = body.find("grammar");
  out.stream = body.flag("stream", false);
  if (const Json* options = body.find("stream_options")) {
    check_usage(out.stream && options->is_object(), "request", "'stream_options' needs 'stream': true");
    Body inner(*options);
    out.include_usage = inner.flag("include_usage", false);
    inner.finish();
  }
  if (chat) {
    read_chat(out, body, model);
  } else {
    read_prompts(out, body.find("prompt"), model);
    out.echo = body.flag("echo", false);
    if (body.find("logprobs")) out.logprobs = body.integer("logprobs", 0, 0, kMostLogprobs);
    check_usage(!out.echo || !out.stream, "request", "'echo' and 'stream' exclude each other");
  }
  const int64_t positions = model.longest();
  int64_t longest = 0;
  for (const auto& prompt : out.prompts) longest = std::max(longest, int64_t(prompt.size()));
  check_usage(longest < positions, "request", "the prompt has ", longest, " tokens, the model has positions for ",
              positions - 1);
  // A chat that says nothing leaves room for those beside it.
  const int64_t usual = chat ? std::min(positions - longest, model.usual_answer()) : 16;
  const int64_t most = body.integer("max_tokens", usual, 0, kMostNewTokens);
  config.max_new_tokens = std::max<int64_t>(
      1, std::min(chat ? body.integer("max_completion_tokens", most, 1, kMostNewTokens) : most, positions - longest));
  check_usage(most > 0 || (out.echo && out.logprobs), "request", "'max_tokens' 0 needs 'echo' and 'logprobs'");
  out.only_prompt = most == 0;
  config.temperature = body.number("temperature", 1, 0, 100);
  config.do_sample = config.temperature > 0;
  if (!config.do_sample) config.temperature = 1;
  config.top_p = body.number("top_p", 1, 1e-9, 1);
  config.top_k = body.integer("top_k", 0, 0, int64_t(1) << 31);
  config.min_p = body.number("min_p", 0, 0, 1);
  config.repetition_penalty = body.number("repetition_penalty", 1, 1e-3, 1e3);
  config.seed = body.integer("seed", model.recipe().generate.seed, 0, INT64_MAX);
  config.stop = stops_of(body.find("stop"));
  const double presence = body.number("presence_penalty", 0, -2, 2),
               frequency = body.number("frequency_penalty", 0, -2, 2);
  std::map<int32_t, double> biases = biases_of(body.find("logit_bias"), model.tokenizer().vocab_size());
  if (presence != 0 || frequency != 0 || !biases.empty())
    out.steps.push_back(std::make_shared<Penalties>(presence, frequency, std::move(biases)));
  out.n = body.integer("n", 1, 1, kMostChoices);
  body.finish();
  const int64_t texts = int64_t(out.prompts.size()) * out.n;
  check_usage(texts <= kMostChoices, "request", "asks for ", texts, " texts, at most ", kMostChoices,
              " are made at once");
  config.num_return_sequences = 1;  // each choice is a request of its own
  config.validate();
  out.grammar = answer_format(format, grammar, model);
  return out;
}

void ScoreRecorder::apply(LogitRow& row) const {
  std::span<float> scores = row.choice.scores();
  rows_[row.tokens.size() - size_t(row.prompt_tokens)].assign(scores.begin(), scores.end());
}

ScoredToken ScoreRecorder::of(size_t index, int32_t token) const {
  const auto at = rows_.find(index);
  check(at != rows_.end(), "serve", "token ", index, " was not scored");
  ScoredToken out = scored_row(at->second, token, top_);
  rows_.erase(rows_.begin(), at);  // asked for in order
  return out;
}

namespace {

// Tokens whose texts are the same, or no UTF-8, go by their ids.
Json top_by_text(const ScoredToken& score, const Tokenizer& tokenizer) {
  Json out = Json::object();
  const auto put = [&](const TokenScore& one) {
    std::string text = text_of(tokenizer, one.token);
    if (out.contains(text) || !is_valid_utf8(text)) text = cat("token_id:", one.token);
    out[text] = one.log_probability;
  };
  for (const TokenScore& one : score.best) put(one);
  return out;
}

// Characters that begin in it: those of tokens add up to those of the text.
size_t characters_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; }));
}

// `at`: characters before the first token, and then before what follows the last.
Json scores_of_completion(const std::vector<CompletionToken>& tokens, const Tokenizer& tokenizer, bool begins,
                          size_t& at) {
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool unknown = begins && i == 0;  // nothing stands before it
    out["tokens"].push_back(tokens[i].text);
    out["token_logprobs"].push_back(unknown ? Json() : Json(tokens[i].score.token.log_probability));
    out["top_logprobs"].push_back(unknown ? Json() : top_by_text(tokens[i].score, tokenizer));
    out["text_offset"].push_back(at);
    at += characters_of(tokens[i].text);
  }
  return out;
}

Json scores_of_chat(const std::vector<CompletionToken>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const CompletionToken& token : tokens) {
    Json top = Json::array();
    for (const TokenScore& one : token.score.best) {
      const std::string text = text_of(tokenizer, one.token);
      top.push_back({{"token", text}, {"logprob", one.log_probability}, {"bytes", bytes_of(text)}});
    }
    content.push_back({{"token", token.text},
                       {"logprob", token.score.token.log_probability},
                       {"bytes", bytes_of(token.text)},
                       {"top_logprobs", top}});
  }
  return {{"content", content}};
}

Json object_of(const CompletionRequest& request, const CompletionHead& head, bool chunk) {
  return {{"id", head.id},
          {"object", request.chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion"},
          {"created", head.created},
          {"model", head.model}};
}

}  // namespace

// A prompt of several choices counts once, as cached as the most cached of them.
Json usage(const CompletionRequest& request, const std::vector<Completion>& choices) {
  int64_t prompts = 0, new_tokens = 0, cached = 0;
  const auto n = size_t(request.n);
  for (size_t i = 0; i < choices.size(); i += n) {
    int64_t most = 0;
    for (size_t j = i; j < i + n; ++j) most = std::max(most, choices[j].cached_tokens);
    cached += most;
  }
  for (const Completion& choice : choices) new_tokens += choice.new_tokens;
  for (const auto& prompt : request.prompts) prompts += int64_t(prompt.size());
  return {{"prompt_tokens", prompts},
          {"completion_tokens", new_tokens},
          {"total_tokens", prompts + new_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json whole_answer(const CompletionRequest& request, const CompletionHead& head, const Tokenizer& tokenizer,
                  const std::vector<Completion>& echoed, const std::vector<Completion>& choices) {
  Json out = object_of(request, head, false);
  out["choices"] = Json::array();
  const auto n = size_t(request.n);
  for (size_t i = 0; i < choices.size(); ++i) {
    const Completion& choice = choices[i];
    size_t begin = 0;
    Json one = {{"index", i}, {"finish_reason", choice.finish}};
    if (request.chat) {
      one["message"] = {{"role", "assistant"}, {"content", choice.text}};
      one["logprobs"] = request.logprobs ? scores_of_chat(choice.tokens, tokenizer) : Json();
    } else {
      std::vector<CompletionToken> tokens = request.echo ? echoed[i / n].tokens : std::vector<CompletionToken>();
      tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end());
      one["text"] = (request.echo ? echoed[i / n].text : "") + choice.text;
      one["logprobs"] = request.logprobs ? scores_of_completion(tokens, tokenizer, request.echo, begin) : Json();
    }
    out["choices"].push_back(std::move(one));
  }
  out["usage"] = usage(request, choices);
  return out;
}

Json answer_chunk(const CompletionRequest& request, const CompletionHead& head, const Tokenizer& tokenizer,
                  size_t choice, const Completion& piece, bool first, size_t* offset) {
  Json out = object_of(request, head, true);
  Json one = {{"index", choice}, {"finish_reason", piece.finish.empty() ? Json() : Json(piece.finish)}};
  if (request.chat) {
    one["delta"] = Json::object();
    if (first) one["delta"]["role"] = "assistant";
    if (first || !piece.text.empty()) one["delta"]["content"] = piece.text;
    one["logprobs"] = request.logprobs ? scores_of_chat(piece.tokens, tokenizer) : Json();
  } else {
    one["text"] = piece.text;
    one["logprobs"] = request.logprobs ? scores_of_completion(piece.tokens, tokenizer, false, *offset) : Json();
  }
  out["choices"] = Json::array({std::move(one)});
  if (request.include_usage) out["usage"] = Json();
  return out;
}

Json usage_chunk(const CompletionRequest& request, const CompletionHead& head, const std::vector<Completion>& choices) {
  Json out = object_of(request, head, true);
  out["choices"] = Json::array();
  out["usage"] = usage(request, choices);
  return out;
}

Json error_body(const std::string& message, const std::string& type) {
  return {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}};
}

}  // namespace lithe
