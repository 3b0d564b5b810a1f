#include "lithe/infer/grammar_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"

namespace lithe {

TokenBytes::TokenBytes(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (int32_t id = 0; id < int32_t(tokenizer.vocab_size()); ++id)
    bytes_.push_back(tokenizer.is_special(id) ? std::string() : tokenizer.piece(id, false));
  std::vector<int32_t> order(bytes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return bytes_[size_t(a)] < bytes_[size_t(b)]; });
  const std::string* before = nullptr;
  for (const int32_t id : order) {
    const std::string& text = bytes_[size_t(id)];
    if (text.empty()) continue;
    size_t shared = 0;
    if (before)
      shared = size_t(std::mismatch(text.begin(), text.end(), before->begin(), before->end()).first - text.begin());
    sorted_.push_back({id, int32_t(shared)});
    before = &text;
  }
}

std::string TokenBytes::first(int32_t id) const {
  return tokenizer_.is_special(id) ? std::string() : tokenizer_.piece(id, true);
}

int32_t GrammarMasks::after(int32_t state, std::string_view bytes) {
  for (const char c : bytes) {
    if (state == GrammarMachine::kNowhere) break;
    state = machine_.next(state, uint8_t(c));
  }
  return state;
}

// Tokens in the order of their bytes, so that what two begin with is read once.
GrammarMasks::Mask GrammarMasks::made(int32_t state) {
  Mask out;
  out.allowed.assign(size_t(tokens_->size() + 63) / 64, 0);
  std::vector<int32_t> path{state};  // states behind the bytes of the token before, as far as it may follow
  for (const auto& [id, shared] : tokens_->sorted()) {
    if (size_t(shared) >= path.size()) continue;  // begins with what may not follow
    path.resize(size_t(shared) + 1);
    const std::string& bytes = tokens_->of(id);
    while (path.size() <= bytes.size()) {
      const int32_t next = machine_.next(path.back(), uint8_t(bytes[path.size() - 1]));
      if (next == GrammarMachine::kNowhere) break;
      path.push_back(next);
    }
    if (path.size() <= bytes.size()) continue;
    out.allowed[size_t(id) / 64] |= uint64_t(1) << (id % 64);
    out.any = true;
  }
  return out;
}

const GrammarMasks::Mask& GrammarMasks::of(int32_t state, bool first) {
  if (first) {
    of_first_ = {};
    of_first_.allowed.assign(size_t(tokens_->size() + 63) / 64, 0);
    for (int32_t id = 0; id < int32_t(tokens_->size()); ++id) {
      const std::string bytes = tokens_->first(id);
      if (bytes.empty() || after(state, bytes) == GrammarMachine::kNowhere) continue;
      of_first_.allowed[size_t(id) / 64] |= uint64_t(1) << (id % 64);
      of_first_.any = true;
    }
    return of_first_;
  }
  const auto at = masks_.find(state);
  return at != masks_.end() ? at->second : masks_.emplace(state, made(state)).first->second;
}

void GrammarMasks::trim() {
  if (machine_.bytes() + int64_t(masks_.size()) * (tokens_->size() / 8 + 64) < kMostBytes) return;
  masks_.clear();
  machine_.forget();
}

namespace {

class GrammarStep final : public RowStep {
 public:
  GrammarStep(std::shared_ptr<GrammarMasks> masks, std::vector<int32_t> end, bool first)
      : masks_(std::move(masks)), end_(std::move(end)), first_(first) {}

  void apply(LogitRow& row) const override {
    masks_->trim();
    masks_->machine().begin_work();
    const auto written = row.tokens.subspan(size_t(row.prompt_tokens));
    const TokenBytes& tokens = masks_->tokens();
    int32_t state = masks_->machine().start();
    for (size_t i = 0; i < written.size() && state != GrammarMachine::kNowhere; ++i) {
      const int32_t id = written[i];
      if (id < 0 || id >= tokens.size())
        state = GrammarMachine::kNowhere;
      else
        state = i == 0 && first_ ? masks_->after(state, tokens.first(id)) : masks_->after(state, tokens.of(id));
    }
    if (state == GrammarMachine::kNowhere) {  // behind a drafted token that is not taken
      row.end = Finish::failed;
      return;
    }
    const bool whole = masks_->machine().accepts(state);
    if (whole && !masks_->machine().goes_on(state)) {
      row.end = Finish::end;
      return;
    }
    const GrammarMasks::Mask& mask = masks_->of(state, written.empty() && first_);
    const bool ends = whole && !end_.empty();
    check(mask.any || ends, "grammar", "no token of the vocabulary may follow '", text_of(written),
          "'; the tokenizer has no tokens for the text that the grammar asks for there");
    const std::span<float> scores = row.choice.scores();
    for (size_t id = 0; id < scores.size(); ++id)
      if (int64_t(id) >= tokens.size() || !mask.has(int32_t(id))) {
        if (ends && std::find(end_.begin(), end_.end(), int32_t(id)) != end_.end()) continue;
        scores[id] = -INFINITY;
      }
  }

 private:
  std::shared_ptr<GrammarMasks> masks_;
  std::vector<int32_t> end_;
  bool first_;

  std::string text_of(std::span<const int32_t> written) const {
    std::string out;
    for (const int32_t id : written.last(std::min<size_t>(written.size(), 20))) out += masks_->tokens().of(id);
    return out;
  }
};

}  // namespace

std::shared_ptr<const LogitStep> grammar_step(std::shared_ptr<GrammarMasks> masks, std::vector<int32_t> end,
                                              bool first) {
  return std::make_shared<GrammarStep>(std::move(masks), std::move(end), first);
}

}  // namespace lithe
