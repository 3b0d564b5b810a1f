#include "lithe/infer/generate.h"

#include <algorithm>
#include <chrono>

#include "lithe/base/stop.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

// One prompt on its way.
struct Running {
  size_t prompt;
  std::vector<int32_t> tokens;  // prompt and continuation
  int64_t new_tokens = 0, limit = 0;
  StreamDecoder decoder;
  std::string pending;  // decoded text that may still turn out to be the start of a stop string
};

// How many bytes at the end of `text` may begin one of the stop strings.
size_t held_back(const std::string& text, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops)
    for (size_t n = std::min(text.size(), stop.size() - 1); n > held; --n)
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) held = n;
  return held;
}

class Generator {
 public:
  Generator(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& config,
            const std::function<void(size_t, std::string_view)>& on_text, std::vector<Generation>& results,
            GenerateTimes& times)
      : model_(model), tokenizer_(tokenizer), config_(config), on_text_(on_text), results_(results), times_(times) {}

  void run(std::vector<Running> running) {
    int64_t capacity = 0;
    for (const Running& r : running) capacity = std::max(capacity, int64_t(r.tokens.size()) + r.limit);
    std::unique_ptr<DecodeState> state;
    if (config_.use_cache) state = model_.make_state(int64_t(running.size()), capacity);
    bool first = true;
    while (!running.empty()) {
      const auto start = Clock::now();
      const Tensor logits = next_logits(running, state.get(), first);
      (first ? times_.prefill_seconds : times_.decode_seconds) +=
          std::chrono::duration<double>(Clock::now() - start).count();
      if (state) times_.peak_state_bytes = std::max(times_.peak_state_bytes, state->bytes());
      first = false;
      std::vector<int64_t> alive;
      for (size_t b = 0; b < running.size(); ++b)
        if (accept(running[b], {logits.data<float>() + int64_t(b) * logits.cols(), size_t(logits.cols())}))
          alive.push_back(int64_t(b));
      if (alive.size() == running.size()) continue;
      std::vector<Running> rest;
      for (int64_t b : alive) rest.push_back(std::move(running[size_t(b)]));
      running = std::move(rest);
      if (state && !running.empty()) state->reorder(alive);
    }
  }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  const GenerateConfig& config_;
  const std::function<void(size_t, std::string_view)>& on_text_;
  std::vector<Generation>& results_;
  GenerateTimes& times_;

  // Logits [sequences, V] f32 behind each sequence's last token.
  Tensor next_logits(const std::vector<Running>& running, DecodeState* state, bool first) {
    std::vector<int32_t> ids;
    std::vector<int64_t> counts, offsets{0};
    for (const Running& r : running) {
      const auto begin = state && !first ? r.tokens.end() - 1 : r.tokens.begin();
      ids.insert(ids.end(), begin, r.tokens.end());
      counts.push_back(r.tokens.end() - begin);
      offsets.push_back(int64_t(ids.size()));
    }
    const NoGrad no_grad;
    const Sequences sequences = state ? model_.continue_sequences(*state, counts) : Sequences(offsets);
    const Var rows = model_.forward(tensor_of({int64_t(ids.size())}, ids), sequences, state);
    return cast(model_.logits(pick_rows(rows, sequences.last_rows())), DType::f32).value();
  }

  // Adds the next token; false when the sequence is finished.
  bool accept(Running& r, std::span<const float> logits) {
    Generation& out = results_[r.prompt];
    if (stop_signal()) return finish(r, "interrupted");
    const int32_t token =
        choose_token(logits.first(size_t(tokenizer_.vocab_size())), r.tokens, config_, int64_t(r.prompt), r.new_tokens);
    if (tokenizer_.specials().eos && token == *tokenizer_.specials().eos) return finish(r, "end");
    r.tokens.push_back(token);
    out.tokens.push_back(token);
    ++r.new_tokens;
    ++times_.new_tokens;
    r.pending += r.decoder.push(token);
    if (cut_at_stop(r)) return finish(r, "stop", false);
    emit(r, r.pending.size() - held_back(r.pending, config_.stop));
    if (r.new_tokens >= r.limit) return finish(r, "length");
    return true;
  }

  bool cut_at_stop(Running& r) {
    size_t at = std::string::npos;
    for (const std::string& stop : config_.stop) at = std::min(at, r.pending.find(stop));
    if (at == std::string::npos) return false;
    r.pending.resize(at);
    return true;
  }

  void emit(Running& r, size_t bytes) {
    if (!bytes) return;
    results_[r.prompt].text.append(r.pending, 0, bytes);
    if (on_text_) on_text_(r.prompt, std::string_view(r.pending).substr(0, bytes));
    r.pending.erase(0, bytes);
  }

  bool finish(Running& r, const char* why, bool flush = true) {
    if (flush) r.pending += r.decoder.finish();
    std::string reason = why;
    if (flush && cut_at_stop(r)) reason = "stop";
    emit(r, r.pending.size());
    results_[r.prompt].finish = reason;
    return false;
  }
};

}  // namespace

std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<void(size_t, std::string_view)>& on_text, GenerateTimes* times) {
  config.validate();
  model.check_predicts_next("generate");
  std::vector<Generation> results(prompts.size());
  GenerateTimes unused;
  Generator generator(model, tokenizer, config, on_text, results, times ? *times : unused);
  const auto bos = tokenizer.specials().bos ? tokenizer.specials().bos : tokenizer.specials().eos;
  for (size_t begin = 0; begin < prompts.size(); begin += size_t(config.batch_size)) {
    std::vector<Running> running;
    for (size_t i = begin; i < std::min(prompts.size(), begin + size_t(config.batch_size)); ++i) {
      Running r{.prompt = i,
                .tokens = {},
                .limit = config.max_new_tokens,
                .decoder = StreamDecoder(tokenizer, prompts[i].empty()),
                .pending = {}};
      if (bos) r.tokens.push_back(*bos);
      const auto ids = tokenizer.encode(prompts[i]);
      r.tokens.insert(r.tokens.end(), ids.begin(), ids.end());
      check_usage(!r.tokens.empty(), "generate", "prompt ", i + 1,
                  " is empty and the tokenizer has no token to begin with");
      const int64_t length = int64_t(r.tokens.size()), most = model.position_limit();
      check_usage(!most || length <= most, "generate", "prompt ", i + 1, " has ", length,
                  " tokens, the model has positions for ", most, "; shorten it");
      if (most) r.limit = std::min(r.limit, most - length + 1);
      results[i].prompt_tokens = length;
      if (times) times->prompt_tokens += length;
      running.push_back(std::move(r));
    }
    generator.run(std::move(running));
  }
  return results;
}

}  // namespace lithe
