#include "lithe/infer/generate.h"

#include <algorithm>

#include "lithe/base/stop.h"
#include "lithe/infer/text_stream.h"

namespace lithe {
namespace {

struct Prompt {
  std::vector<int32_t> tokens;
  bool first;  // nothing stands before its continuation
};

bool ended_by_itself(Finish finish) {
  return finish != Finish::cancelled && finish != Finish::interrupted && finish != Finish::failed;
}

// Hands results on in the order of prompts.
class InOrder {
 public:
  explicit InOrder(const GenerateEvents& events) : events_(events) {}
  void add(size_t prompt, Generation result) {
    waiting_.emplace(prompt, std::move(result));
    for (auto first = waiting_.find(next_); first != waiting_.end(); first = waiting_.find(++next_)) {
      if (events_.on_done) events_.on_done(next_, std::move(first->second));
      waiting_.erase(first);
    }
  }
  /// The first prompt whose result has not been handed on.
  size_t next() const { return next_; }

 private:
  const GenerateEvents& events_;
  size_t next_ = 0;
  std::map<size_t, Generation> waiting_;
};

// Prompts through a loop, which gets them as results are handed on.
class PromptsInOrder {
 public:
  PromptsInOrder(const Model& model, const Tokenizer& tokenizer, std::vector<Prompt> prompts,
                 const GenerateConfig& config, const GenerateEvents& events, const GenerateHelp& help)
      : tokenizer_(tokenizer),
        prompts_(std::move(prompts)),
        config_(config),
        events_(events),
        help_(help),
        budget_(budget_of(model)),
        done_(events),
        loop_(model, budget_) {}

  void run() {
    do submit();
    while (!stop_signal() && loop_.step());
    if (stop_signal()) loop_.interrupt();
  }
  const GenerateTimes& times() const { return loop_.times(); }

 private:
  // Results that may wait for an earlier prompt's, for each slot.
  static constexpr int64_t kAhead = 64;
  const Tokenizer& tokenizer_;
  std::vector<Prompt> prompts_;
  const GenerateConfig& config_;
  const GenerateEvents& events_;
  const GenerateHelp& help_;
  DecodeBudget budget_;
  InOrder done_;
  DecodeLoop loop_;
  size_t next_ = 0;  // prompt that is submitted next

  static std::string name_of(size_t prompt) { return cat("prompt ", prompt + 1); }

  DecodeBudget budget_of(const Model& model) const {
    DecodeBudget budget{.slots = help_.drafter ? 1 : config_.batch_size,
                        .tokens = config_.cache_tokens,
                        .longest = 1,
                        .cache = config_.cache_type(),
                        .use_cache = config_.use_cache,
                        .prefill_tokens = config_.prefill_tokens};
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const int64_t most = most_tokens(model, int64_t(prompts_[i].tokens.size()), config_, name_of(i));
      budget.longest = std::max(budget.longest, most);
      check_fits(budget, most, name_of(i));
    }
    return budget;
  }

  void submit() {
    for (; next_ < prompts_.size() && next_ < done_.next() + size_t(kAhead * budget_.slots); ++next_) {
      const size_t i = next_;
      std::function<bool(std::string_view)> on_text;
      if (events_.on_text) on_text = [this, i](std::string_view piece) { return events_.on_text(i, piece); };
      DecodeRequest request = text_request(tokenizer_, std::move(prompts_[i].tokens), prompts_[i].first, config_,
                                           std::move(on_text), [this, i](Generation&& result) {
                                             if (result.error) std::rethrow_exception(result.error);
                                             if (result.begun) done_.add(i, std::move(result));
                                           });
      request.key = i;
      request.steps = help_.steps;
      request.drafter = help_.drafter;
      request.adapter = help_.adapter;
      request.draft_tokens = help_.draft_tokens;
      request.name = name_of(i);
      loop_.submit(std::move(request));
    }
  }
};

void run_prompts(const Model& model, const Tokenizer& tokenizer, std::vector<Prompt> prompts,
                 const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times,
                 const GenerateHelp& help) {
  config.validate();
  PromptsInOrder all(model, tokenizer, std::move(prompts), config, events, help);
  all.run();
  if (times) *times = all.times();
}

// Results of `count` prompts by their number.
std::vector<Generation> collected(size_t count, const std::function<bool(size_t, std::string_view)>& on_text,
                                  const std::function<void(const GenerateEvents&)>& run) {
  std::vector<Generation> results(count);
  run({.on_text = on_text,
       .on_done = [&](size_t prompt, Generation&& result) { results[prompt] = std::move(result); }});
  return results;
}

}  // namespace

DecodeRequest text_request(const Tokenizer& tokenizer, std::vector<int32_t> tokens, bool first,
                           const GenerateConfig& config, std::function<bool(std::string_view piece)> on_text,
                           std::function<void(Generation&& result)> on_done) {
  const auto stream = std::make_shared<TextStream>(tokenizer, first, config.stop, std::move(on_text));
  DecodeRequest request{.tokens = std::move(tokens), .config = config, .vocab_size = tokenizer.vocab_size()};
  if (tokenizer.specials().eos) request.end_tokens = {*tokenizer.specials().eos};
  request.on_token = [stream](int32_t token) { return stream->push(token); };
  request.on_done = [stream, on_done = std::move(on_done)](DecodeResult&& result) {
    stream->finish(ended_by_itself(result.finish));
    if (!on_done) return;
    if (stream->stopped()) result.finish = Finish::stop;
    if (stream->refused()) result.finish = Finish::cancelled;
    on_done({.text = stream->text(),
             .tokens = std::move(result.tokens),
             .finish = result.finish,
             .prompt_tokens = result.prompt_tokens,
             .cached_tokens = result.cached_tokens,
             .begun = result.begun,
             .error = result.error});
  };
  return request;
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

void generate_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times,
                   const GenerateHelp& help) {
  std::vector<Prompt> all;
  for (const std::string& text : prompts) all.push_back({prompt_tokens(tokenizer, text, config), text.empty()});
  run_prompts(model, tokenizer, std::move(all), config, events, times, help);
}

std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<bool(size_t, std::string_view)>& on_text, GenerateTimes* times) {
  return collected(prompts.size(), on_text, [&](const GenerateEvents& events) {
    generate_each(model, tokenizer, prompts, config, events, times);
  });
}

void continue_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::vector<int32_t>>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times,
                   const GenerateHelp& help) {
  std::vector<Prompt> all;
  for (const std::vector<int32_t>& tokens : prompts) all.push_back({tokens, true});
  run_prompts(model, tokenizer, std::move(all), config, events, times, help);
}

std::vector<Generation> continue_tokens(const Model& model, const Tokenizer& tokenizer,
                                        const std::vector<std::vector<int32_t>>& prompts,
                                        const GenerateConfig& config) {
  return collected(prompts.size(), {},
                   [&](const GenerateEvents& events) { continue_each(model, tokenizer, prompts, config, events); });
}

}  // namespace lithe
