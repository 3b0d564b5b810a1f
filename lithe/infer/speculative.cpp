#include "lithe/infer/speculative.h"

#include <algorithm>

#include "lithe/infer/decode_slots.h"
#include "lithe/infer/sampler.h"

namespace lithe {
namespace {

// A model's state of one sequence, brought to the tokens that it is asked for.
class Reader {
 public:
  /// With an exit, rows leave there.
  Reader(const Model& model, const GenerateConfig& config, std::optional<ExitRule> exit)
      : model_(model), config_(config), exit_(exit) {}
  void begin(int64_t capacity) {
    slots_.emplace(model_, 1, SlotShape{.capacity = capacity, .cache = config_.cache_type(), .exit = exit_});
    read_.clear();
    check_usage(
        slots_->truncates(), "generate",
        "drafted tokens that are not taken must be forgotten, which a layer's state cannot (one that keeps sums "
        "in place of rows, or only the last rows); leave --draft out");
  }
  /// Logits f32 [1, V] behind the tokens.
  Tensor logits(const std::vector<int32_t>& tokens) {
    const auto agree = std::mismatch(read_.begin(), read_.end(), tokens.begin(), tokens.end()).first - read_.begin();
    const auto all = int64_t(tokens.size());
    int64_t begin = std::min<int64_t>(agree, all - 1);
    if (begin < int64_t(read_.size())) slots_->truncate(0, begin);
    read_ = tokens;
    Tensor out;
    while (begin < all) {
      const int64_t end = std::min(all, begin + config_.prefill_tokens);
      const auto piece = std::span(tokens).subspan(size_t(begin), size_t(end - begin));
      out = slots_->read({{.slot = 0, .tokens = piece, .wanted = end == all}}, nullptr, {}).logits;
      begin = end;
    }
    return out;
  }

 private:
  const Model& model_;
  const GenerateConfig config_;
  std::optional<ExitRule> exit_;
  std::optional<DecodeSlots> slots_;
  std::vector<int32_t> read_;
};

// spec: search.speculative | search | a drafter proposes tokens, the model accepts or replaces them in one pass |
// TB 6.6
class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(const Model& drafter, int64_t vocab, const GenerateConfig& config, std::optional<ExitRule> exit = {})
      : model_(drafter), vocab_(vocab), reader_(drafter, config, exit) {}
  void begin(int64_t capacity) override {
    const int64_t most = model_.position_limit();
    positions_ = most ? std::min(most, capacity) : capacity;
    reader_.begin(positions_);
  }
  std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, uint64_t key,
                           const GenerateConfig& config) override {
    std::vector<Draft> out;
    std::vector<int32_t> text = tokens;
    while (int64_t(out.size()) < count && int64_t(text.size()) <= positions_) {
      const Tensor logits = reader_.logits(text);
      TokenDistribution from = token_distribution({logits.data<float>(), size_t(vocab_)}, text, config);
      const int32_t token = draw(from, uniform_draw(config.seed, key, int64_t(text.size()), "speculative.draft"));
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
  std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, uint64_t,
                           const GenerateConfig&) override {
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
  return std::make_unique<ModelDrafter>(model, tokenizer.vocab_size(), config,
                                        ExitRule{.criterion = ExitRule::Criterion::layer, .threshold = double(layers)});
}

std::unique_ptr<Drafter> lookup_drafter(int64_t longest) { return std::make_unique<LookupDrafter>(longest); }

}  // namespace lithe
