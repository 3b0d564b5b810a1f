#include "lithe/infer/continuation.h"

#include <algorithm>

namespace lithe {
namespace {

// How many bytes at the end of `text` may begin one of the stop strings.
size_t held_back(const std::string& text, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops)
    for (size_t n = std::min(text.size(), stop.size() - 1); n > held; --n)
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) held = n;
  return held;
}

}  // namespace

Continuation::Continuation(size_t prompt, std::vector<int32_t> tokens, int64_t limit, const Tokenizer& tokenizer,
                           bool first)
    : prompt_(prompt), tokenizer_(&tokenizer), tokens_(std::move(tokens)), limit_(limit), decoder_(tokenizer, first) {
  result_.prompt_tokens = int64_t(tokens_.size());
}

bool Continuation::accept(std::span<const float> logits, const GenerateConfig& config, const GenerateEvents& events) {
  return add(choose_token(logits.first(size_t(tokenizer_->vocab_size())), tokens_, config, int64_t(prompt_),
                          int64_t(result_.tokens.size())),
             config, events);
}

bool Continuation::add(int32_t token, const GenerateConfig& config, const GenerateEvents& events) {
  const auto added = int64_t(result_.tokens.size());
  if (tokenizer_->specials().eos && token == *tokenizer_->specials().eos) return finish("end", config.stop, events);
  tokens_.push_back(token);
  result_.tokens.push_back(token);
  pending_ += decoder_.push(token);
  if (cut_at_stop(config.stop)) {
    emit(pending_.size(), events);
    result_.finish = "stop";
    return false;
  }
  emit(pending_.size() - held_back(pending_, config.stop), events);
  if (added + 1 < limit_) return true;
  return finish(limit_ < config.max_new_tokens ? "positions" : "length", config.stop, events);
}

bool Continuation::cut_at_stop(const std::vector<std::string>& stops) {
  size_t at = std::string::npos;
  for (const std::string& stop : stops) at = std::min(at, pending_.find(stop));
  if (at == std::string::npos) return false;
  pending_.resize(at);
  return true;
}

void Continuation::emit(size_t bytes, const GenerateEvents& events) {
  if (!bytes) return;
  result_.text.append(pending_, 0, bytes);
  if (events.on_text) events.on_text(prompt_, std::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
}

bool Continuation::finish(const char* why, const std::vector<std::string>& stops, const GenerateEvents& events) {
  pending_ += decoder_.finish();
  result_.finish = cut_at_stop(stops) ? "stop" : why;
  emit(pending_.size(), events);
  return false;
}

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& text, const GenerateConfig& config) {
  std::vector<int32_t> out;
  const Specials& specials = tokenizer.specials();
  const auto bos = specials.bos ? specials.bos : specials.eos;
  if (bos && (config.add_bos_token || text.empty())) out.push_back(*bos);
  const auto ids = tokenizer.encode(text);
  out.insert(out.end(), ids.begin(), ids.end());
  return out;
}

void add_continuation(std::deque<Continuation>& waiting, const Model& model, const Tokenizer& tokenizer,
                      std::vector<int32_t> tokens, bool first, const GenerateConfig& config) {
  const size_t i = waiting.size();
  const int64_t most = model.position_limit(), length = int64_t(tokens.size());
  check_usage(length > 0, "generate", "prompt ", i + 1, " is empty and the tokenizer has no token to begin with");
  check_usage(!most || length <= most, "generate", "prompt ", i + 1, " has ", length,
              " tokens, the model has positions for ", most, "; shorten it");
  const int64_t limit = most ? std::min(config.max_new_tokens, most - length + 1) : config.max_new_tokens;
  waiting.emplace_back(i, std::move(tokens), limit, tokenizer, first);
  check_usage(!config.cache_tokens || waiting.back().most_tokens() <= config.cache_tokens, "generate", "prompt ", i + 1,
              " may come to ", waiting.back().most_tokens(), " tokens, cache_tokens allows ", config.cache_tokens,
              "; raise it or lower max_new_tokens");
}

std::deque<Continuation> continuations(const Model& model, const Tokenizer& tokenizer,
                                       const std::vector<std::string>& prompts, const GenerateConfig& config) {
  std::deque<Continuation> out;
  for (const std::string& text : prompts)
    add_continuation(out, model, tokenizer, prompt_tokens(tokenizer, text, config), text.empty(), config);
  return out;
}

}  // namespace lithe
