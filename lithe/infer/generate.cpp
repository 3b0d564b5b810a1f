#include "lithe/infer/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "lithe/base/stop.h"
#include "lithe/infer/continuation.h"
#include "lithe/infer/neighbours.h"
#include "lithe/model/exits.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

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

// spec: cond.early_stop | search | a classifier of the last row says where a text ends | TB Eq 6.192-6.193
std::vector<double> stop_probabilities(const Model& model, const Var& rows) {
  const Tensor logits = model.stop_logits(rows).value();
  std::vector<double> out;
  for (int64_t i = 0; i < logits.rows(); ++i)
    out.push_back(1 / (1 + std::exp(value_at(logits, 2 * i) - value_at(logits, 2 * i + 1))));
  return out;
}

// Continuous batching: continuations in the slots of one decode state; a slot that is done is emptied for the next
// prompt. All rows of a step run together, and no row's bits depend on the others.
class Scheduler {
 public:
  Scheduler(const Model& model, const GenerateConfig& config, const GenerateEvents& events,
            std::deque<Continuation> waiting, GenerateTimes& times, const NeighbourModel* neighbours)
      : model_(model),
        config_(config),
        events_(events),
        waiting_(std::move(waiting)),
        times_(times),
        neighbours_(neighbours),
        done_(events),
        exits_(exit_run_of(model, config.exit)) {
    slots_.resize(std::min(waiting_.size(), size_t(config.batch_size)));
    int64_t capacity = 0;
    for (const Continuation& c : waiting_) capacity = std::max(capacity, c.most_tokens());
    if (config_.use_cache && !slots_.empty())
      state_ = model_.make_state(int64_t(slots_.size()), capacity, config.cache_type());
  }

  void run() {
    while (!stop_signal()) {
      admit();
      const std::vector<Fed> fed = choose_rows();
      if (fed.empty()) return;
      step(fed);
    }
    for (size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot]) {
        slots_[slot]->interrupt(events_);
        finish(slot);
      }
  }

 private:
  // Results that may wait for an earlier prompt's, for each slot.
  static constexpr size_t kAhead = 64;
  // Rows of a slot in a step.
  struct Fed {
    size_t slot;
    int64_t begin, end;  // tokens of its continuation
  };
  const Model& model_;
  const GenerateConfig& config_;
  const GenerateEvents& events_;
  std::deque<Continuation> waiting_;
  GenerateTimes& times_;
  const NeighbourModel* neighbours_;
  InOrder done_;
  std::optional<ExitRun> exits_;
  std::vector<double> stops_;  // probability that each ready text stops here
  std::vector<std::optional<Continuation>> slots_;
  std::unique_ptr<DecodeState> state_;
  int64_t reserved_ = 0;  // tokens that those under way may come to

  // Who runs is reserved what it may need: nobody is ever thrown out to be read again.
  void admit() {
    for (auto& slot : slots_) {
      if (slot || waiting_.empty()) continue;
      const Continuation& next = waiting_.front();
      if (config_.cache_tokens && reserved_ + next.most_tokens() > config_.cache_tokens) return;
      if (next.prompt() >= done_.next() + kAhead * slots_.size()) return;
      reserved_ += next.most_tokens();
      times_.prompt_tokens += next.prompt_tokens();
      slot.emplace(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }

  // One row of each that is under way, and new prompts in pieces whose ends depend on the prompt alone.
  std::vector<Fed> choose_rows() const {
    std::vector<Fed> fed;
    int64_t prefill = 0;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_[slot]) continue;
      const int64_t all = int64_t(slots_[slot]->tokens().size()), past = state_ ? state_->length(int64_t(slot)) : 0,
                    end = state_ ? std::min(all, past + config_.prefill_tokens) : all;
      if (end - past > 1) {
        if (state_ && prefill && prefill + end - past > config_.prefill_tokens) continue;
        prefill += end - past;
      }
      fed.push_back({slot, past, end});
    }
    return fed;
  }

  void step(const std::vector<Fed>& fed) {
    const auto start = Clock::now();
    std::vector<int64_t> ready, last_rows;  // those whose next token is known after this step, and where
    const Tensor logits = next_logits(fed, ready, last_rows);
    share_out(std::chrono::duration<double>(Clock::now() - start).count(), fed);
    for (size_t i = 0; i < ready.size(); ++i) {
      Continuation& c = *slots_[size_t(ready[i])];
      const size_t before = c.tokens().size();
      if (config_.early_stop && stops_early(stops_[i], config_.early_stop_margin)) {
        c.stop_early(config_, events_);
        finish(size_t(ready[i]));
        continue;
      }
      const bool goes_on =
          c.accept({logits.data<float>() + int64_t(i) * logits.cols(), size_t(logits.cols())}, config_, events_);
      times_.new_tokens += int64_t(c.tokens().size() - before);
      if (!goes_on) finish(size_t(ready[i]));
    }
  }

  // Logits f32 [ready, V].
  Tensor next_logits(const std::vector<Fed>& fed, std::vector<int64_t>& ready, std::vector<int64_t>& last_rows) {
    std::vector<int32_t> ids;
    std::vector<int64_t> counts(slots_.size()), offsets{0};
    for (const auto& [slot, begin, end] : fed) {
      const std::vector<int32_t>& tokens = slots_[slot]->tokens();
      ids.insert(ids.end(), tokens.begin() + begin, tokens.begin() + end);
      counts[slot] = end - begin;
      offsets.push_back(int64_t(ids.size()));
      if (end < int64_t(tokens.size())) continue;
      ready.push_back(int64_t(slot));
      last_rows.push_back(int64_t(ids.size()) - 1);
    }
    const NoGrad no_grad;
    const Sequences sequences = state_ ? model_.continue_sequences(*state_, counts) : Sequences(offsets);
    const ExitScope scope(exits_ ? &*exits_ : nullptr);
    const Rows rows = model_.run(tensor_of({int64_t(ids.size())}, ids), sequences, Pass(), state_.get());
    if (exits_) times_.mean_layers = exits_->mean_layers();
    if (state_) {
      times_.peak_state_bytes = std::max(times_.peak_state_bytes, state_->bytes());
      times_.peak_state_allocated =
          std::max(times_.peak_state_allocated, ledger(model_.device()).current(MemoryClass::decode));
    }
    if (ready.empty()) return {};
    const Var last = pick_rows(rows.x, last_rows);
    if (config_.early_stop) stops_ = stop_probabilities(model_, last);
    const Tensor logits = cast(model_.logits(rows, last_rows), DType::f32).value();
    if (neighbours_) neighbours_->mix(cast(last, DType::f32).value(), logits);
    return logits;
  }

  void share_out(double seconds, const std::vector<Fed>& fed) {
    int64_t prompt = 0, all = 0;
    for (const auto& [slot, begin, end] : fed) {
      all += end - begin;
      if (int64_t(slots_[slot]->tokens().size()) == slots_[slot]->prompt_tokens()) prompt += end - begin;
    }
    times_.prefill_seconds += seconds * double(prompt) / double(all);
    times_.decode_seconds += seconds * double(all - prompt) / double(all);
  }

  void finish(size_t slot) {
    Continuation& c = *slots_[slot];
    reserved_ -= c.most_tokens();
    done_.add(c.prompt(), c.take_result());
    slots_[slot].reset();
    if (state_) state_->truncate(int64_t(slot), 0);
  }
};

}  // namespace

namespace {

bool stops(const Model& model) {
  return model.stop_logits(Var(zeros({1, model.config().hidden_size}, model.compute_dtype()))).defined();
}

void check_generates(const Model& model, const GenerateConfig& config, const NeighbourModel* neighbours) {
  config.validate();
  model.check_predicts_next("generate");
  check_usage(!config.early_stop || stops(model), "generate",
              "early_stop asks the head where texts end, which it did not learn; train with model.head: {type: lm, "
              "early_stop: true}, or leave it out");
  check_usage(
      !neighbours || config.exit.empty(), "generate",
      "a datastore is asked by rows of all layers, which tokens that leave early lack; leave out one of --exit and "
      "--datastore");
}

// Results of `count` prompts by their number; of those that do not begin, "interrupted" stays.
std::vector<Generation> collected(size_t count, const std::function<void(size_t, std::string_view)>& on_text,
                                  const std::function<void(const GenerateEvents&)>& run) {
  std::vector<Generation> results(count);
  for (Generation& result : results) result.finish = "interrupted";
  run({.on_text = on_text,
       .on_done = [&](size_t prompt, Generation&& result) { results[prompt] = std::move(result); }});
  return results;
}

}  // namespace

bool stops_early(double probability, double margin) { return probability >= (1 + margin) / 2; }

void generate_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times) {
  generate_each(model, tokenizer, prompts, config, nullptr, events, times);
}

void generate_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateConfig& config, const NeighbourModel* neighbours, const GenerateEvents& events,
                   GenerateTimes* times) {
  check_generates(model, config, neighbours);
  GenerateTimes unused;
  Scheduler(model, config, events, continuations(model, tokenizer, prompts, config), times ? *times : unused,
            neighbours)
      .run();
}

std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<void(size_t, std::string_view)>& on_text, GenerateTimes* times) {
  return collected(prompts.size(), on_text, [&](const GenerateEvents& events) {
    generate_each(model, tokenizer, prompts, config, events, times);
  });
}

std::vector<Generation> continue_tokens(const Model& model, const Tokenizer& tokenizer,
                                        const std::vector<std::vector<int32_t>>& prompts,
                                        const GenerateConfig& config) {
  check_generates(model, config, nullptr);
  std::deque<Continuation> waiting;
  for (const std::vector<int32_t>& tokens : prompts) add_continuation(waiting, model, tokenizer, tokens, true, config);
  return collected(prompts.size(), {}, [&](const GenerateEvents& events) {
    GenerateTimes unused;
    Scheduler(model, config, events, std::move(waiting), unused, nullptr).run();
  });
}

}  // namespace lithe
