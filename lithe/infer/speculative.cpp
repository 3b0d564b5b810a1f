#include "lithe/infer/speculative.h"

#include <algorithm>
#include <chrono>

#include "lithe/base/stop.h"
#include "lithe/infer/continuation.h"
#include "lithe/nn/exits.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

double uniform(uint64_t seed, int64_t sequence, int64_t position, const char* purpose) {
  return random_uniform({.seed = seed, .step = uint64_t(position), .purpose = purpose_of(purpose)}, uint64_t(sequence));
}

// The token where `share` of the total lies.
int32_t draw(const std::vector<double>& weights, double share) {
  double left = 0;
  for (double w : weights) left += w;
  left *= share;
  int32_t last = 0;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (weights[id] <= 0) continue;
    last = int32_t(id);
    if ((left -= weights[id]) < 0) break;
  }
  return last;
}

int32_t draw(const TokenDistribution& from, double share) {
  return from.certain ? *from.certain : draw(from.probabilities, share);
}

// A model's state of one sequence, brought to the tokens that it is asked for.
class Reader {
 public:
  /// `layers` above 0: rows leave after so many.
  Reader(const Model& model, const GenerateConfig& config, int64_t layers = 0)
      : model_(model), config_(config), layers_(layers) {
    if (layers) exits_.emplace(ExitRule{.criterion = ExitRule::Criterion::layer, .threshold = double(layers)});
  }
  void begin(int64_t capacity) {
    state_ = exits_ ? model_.make_short_state(1, capacity, config_.cache_type(), layers_)
                    : model_.make_state(1, capacity, config_.cache_type());
    read_.clear();
    check_usage(
        state_->truncates(), "generate",
        "drafted tokens that are not taken must be forgotten, which a layer's state cannot (one that keeps sums "
        "in place of rows); leave --draft out");
  }
  /// Logits f32 [last, V] of the last `last` of the tokens.
  Tensor logits(const std::vector<int32_t>& tokens, int64_t last) {
    const auto agree = std::mismatch(read_.begin(), read_.end(), tokens.begin(), tokens.end()).first - read_.begin();
    const auto all = int64_t(tokens.size());
    const int64_t past = std::min<int64_t>(agree, all - last);
    if (past < int64_t(read_.size())) state_->truncate(0, past);
    read_ = tokens;
    const NoGrad no_grad;
    const ExitScope scope(exits_ ? &*exits_ : nullptr);
    Rows rows;
    for (int64_t begin = past; begin < all;) {
      // The last piece holds all rows that are wanted.
      const int64_t end = all - begin <= std::max(config_.prefill_tokens, last)
                              ? all
                              : std::min(begin + config_.prefill_tokens, all - last);
      const std::vector<int32_t> ids(tokens.begin() + begin, tokens.begin() + end);
      rows = model_.run(tensor_of({end - begin}, ids), model_.continue_sequences(*state_, {end - begin}), Pass(),
                        state_.get());
      begin = end;
    }
    std::vector<int64_t> wanted;
    for (int64_t row = rows.x.rows() - last; row < rows.x.rows(); ++row) wanted.push_back(row);
    return cast(model_.logits(rows, wanted), DType::f32).value();
  }
  const DecodeState& state() const { return *state_; }

 private:
  const Model& model_;
  const GenerateConfig& config_;
  int64_t layers_;
  std::optional<ExitRun> exits_;
  std::unique_ptr<DecodeState> state_;
  std::vector<int32_t> read_;
};

std::span<const float> row_of(const Tensor& logits, int64_t row, int64_t vocab) {
  return {logits.data<float>() + row * logits.cols(), size_t(vocab)};
}

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(const Model& drafter, int64_t vocab, const GenerateConfig& config, int64_t layers = 0)
      : model_(drafter), vocab_(vocab), reader_(drafter, config, layers) {}
  void begin(int64_t capacity) override {
    const int64_t most = model_.position_limit();
    positions_ = most ? std::min(most, capacity) : capacity;
    reader_.begin(positions_);
  }
  std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, int64_t sequence,
                           const GenerateConfig& config) override {
    std::vector<Draft> out;
    std::vector<int32_t> text = tokens;
    while (int64_t(out.size()) < count && int64_t(text.size()) <= positions_) {
      const Tensor logits = reader_.logits(text, 1);
      TokenDistribution from = token_distribution(row_of(logits, 0, vocab_), text, config);
      const int32_t token =
          draw(from, uniform(uint64_t(config.seed), sequence, int64_t(text.size()), "speculative.draft"));
      out.push_back({token, std::move(from)});
      text.push_back(token);
    }
    return out;
  }

 private:
  const Model& model_;
  int64_t vocab_;
  Reader reader_;
  int64_t positions_ = 0;
};

class LookupDrafter final : public Drafter {
 public:
  explicit LookupDrafter(int64_t longest) : longest_(longest) {}
  void begin(int64_t) override {}
  std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, int64_t, const GenerateConfig&) override {
    const auto n = int64_t(tokens.size());
    for (int64_t length = std::min(longest_, n - 1); length > 0; --length)
      for (int64_t at = n - length - 1; at >= 0; --at) {
        if (!std::equal(tokens.end() - length, tokens.end(), tokens.begin() + at)) continue;
        std::vector<Draft> out;
        for (int64_t i = at + length; i < n && int64_t(out.size()) < count; ++i)
          out.push_back({tokens[size_t(i)], {.certain = tokens[size_t(i)], .probabilities = {}}});
        return out;
      }
    return {};
  }

 private:
  int64_t longest_;
};

}  // namespace

std::unique_ptr<Drafter> model_drafter(const Model& drafter, const Tokenizer& tokenizer, const GenerateConfig& config) {
  drafter.check_predicts_next("generate");
  check_usage(drafter.config().vocab_size >= tokenizer.vocab_size(), "generate", "the drafter has a vocabulary of ",
              drafter.config().vocab_size, ", the tokenizer one of ", tokenizer.vocab_size(),
              "; draft with a model of the same tokenizer");
  return std::make_unique<ModelDrafter>(drafter, tokenizer.vocab_size(), config);
}

std::unique_ptr<Drafter> exit_drafter(const Model& model, int64_t layers, const Tokenizer& tokenizer,
                                      const GenerateConfig& config) {
  const bool is_exit = std::any_of(model.exits().begin(), model.exits().end(),
                                   [&](const StackExit& exit) { return exit.layer + 1 == layers; });
  std::string all;
  for (const StackExit& exit : model.exits()) all += cat(all.empty() ? "" : ", ", exit.layer + 1);
  check_usage(is_exit, "generate", "exit:", layers, " cannot draft: the model ",
              all.empty() ? std::string("has no exits; train one with model.stack: {type: early_exit}")
                          : cat("has exits after layers ", all, "; name one of them"));
  return std::make_unique<ModelDrafter>(model, tokenizer.vocab_size(), config, layers);
}

std::unique_ptr<Drafter> lookup_drafter(int64_t longest) { return std::make_unique<LookupDrafter>(longest); }

int64_t DraftLength::next() {
  if (pause_ == 0) return length_;
  --pause_;
  return 0;
}

void DraftLength::found(int64_t drafted, int64_t taken) {
  constexpr int64_t kLongestPause = 16;
  if (drafted == 0) return;
  length_ = std::min(most_, taken == drafted ? length_ + 2 : taken + 1);
  wrong_ = taken == 0 ? wrong_ + 1 : 0;
  if (wrong_ >= 2) pause_ = wrong_ >= 6 ? kLongestPause : int64_t(1) << (wrong_ - 2);
}

// A token x of q is taken with probability min(1, p(x)/q(x)); in place of one that is not, p is drawn from where it
// exceeds q. Together: exactly p.
Verdict verify(const std::vector<Drafter::Draft>& drafts, const std::vector<TokenDistribution>& target, uint64_t seed,
               int64_t sequence, int64_t position) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto& [token, q] = drafts[i];
    const TokenDistribution& p = target[i];
    const int64_t at = position + int64_t(i);
    if (uniform(seed, sequence, at, "speculative.accept") * q.of(token) < p.of(token)) continue;
    if (p.certain) return {i, *p.certain};
    std::vector<double> rest = p.probabilities;
    for (size_t id = 0; id < rest.size(); ++id) rest[id] = std::max(0.0, rest[id] - q.of(int32_t(id)));
    return {i, draw(rest, uniform(seed, sequence, at, "speculative.rest"))};
  }
  const int64_t at = position + int64_t(drafts.size());
  return {drafts.size(), draw(target[drafts.size()], uniform(seed, sequence, at, "speculative.next"))};
}

// spec: search.speculative | search | a drafter proposes tokens, the model accepts or replaces them in one pass |
// TB 6.6
void generate_speculative(const Model& model, Drafter& drafter, int64_t count, const Tokenizer& tokenizer,
                          const std::vector<std::string>& prompts, const GenerateConfig& config,
                          const GenerateEvents& events, GenerateTimes* times, SpeculativeTimes* speculative) {
  config.validate();
  model.check_predicts_next("generate");
  check_usage(count >= 1, "generate", "at least one token must be drafted, got ", count);
  check_usage(config.use_cache, "generate", "drafting needs the cache; leave --no-cache or --draft out");
  check_usage(config.exit.empty() && !config.early_stop, "generate", "drafted tokens are checked by all layers; leave ",
              config.exit.empty() ? "early_stop" : "exit", " or --draft out");
  GenerateTimes unused;
  SpeculativeTimes not_counted;
  GenerateTimes& t = times ? *times : unused;
  SpeculativeTimes& s = speculative ? *speculative : not_counted;
  const int64_t vocab = tokenizer.vocab_size(), limit = model.position_limit();
  Reader target(model, config);
  for (Continuation& c : continuations(model, tokenizer, prompts, config)) {
    if (stop_signal()) return;
    const auto sequence = int64_t(c.prompt());
    const int64_t capacity = limit ? std::min(limit, c.most_tokens() + count) : c.most_tokens() + count;
    target.begin(capacity);
    drafter.begin(capacity);
    t.prompt_tokens += c.prompt_tokens();
    DraftLength length(count);
    for (bool first = true, goes_on = true; goes_on; first = false) {
      if (stop_signal()) {
        c.interrupt(events);
        break;
      }
      const auto start = Clock::now();
      std::vector<int32_t> text = c.tokens();
      const auto n = int64_t(text.size());
      // The prompt is read by itself, so that its time is known.
      std::vector<Drafter::Draft> drafts;
      if (const int64_t most = first ? 0 : std::min({length.next(), c.most_tokens() - n - 1, capacity - n}); most > 0)
        drafts = drafter.draft(text, most, sequence, config);
      for (const auto& [token, from] : drafts) text.push_back(token);
      const Tensor logits = target.logits(text, int64_t(drafts.size()) + 1);
      std::vector<TokenDistribution> p;
      for (size_t i = 0; i <= drafts.size(); ++i)
        p.push_back(
            token_distribution(row_of(logits, int64_t(i), vocab), std::span(text).first(size_t(n) + i), config));
      const Verdict verdict = verify(drafts, p, uint64_t(config.seed), sequence, n);
      t.peak_state_bytes = std::max(t.peak_state_bytes, target.state().bytes());
      t.peak_state_allocated = std::max(t.peak_state_allocated, ledger(model.device()).current(MemoryClass::decode));
      (first ? t.prefill_seconds : t.decode_seconds) += std::chrono::duration<double>(Clock::now() - start).count();
      length.found(int64_t(drafts.size()), int64_t(verdict.taken));
      if (!first) ++s.passes, s.drafted += int64_t(drafts.size()), s.taken += int64_t(verdict.taken);
      for (size_t i = 0; i <= verdict.taken && goes_on; ++i) {
        const size_t before = c.tokens().size();
        goes_on = c.add(i < verdict.taken ? drafts[i].token : verdict.next, config, events);
        t.new_tokens += int64_t(c.tokens().size() - before);
      }
    }
    if (events.on_done) events.on_done(c.prompt(), c.take_result());
  }
}

}  // namespace lithe
