#include "lithe/infer/tree_step.h"

#include <algorithm>

#include "lithe/trees/linear.h"

namespace lithe {
namespace {

// Brackets that are open, and a symbol that may go on.
class Reading {
 public:
  explicit Reading(const std::vector<std::string>& labels) : labels_(labels) {}

  /// Takes more text; false where no tree begins so.
  bool add(std::string_view text) {
    for (const char c : text)
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        if (!close_symbol()) return false;
      } else {
        if (symbol_.empty() && stack_.done()) return false;
        if ((c == '(' || c == ')') && !symbol_.empty()) return false;  // brackets begin symbols, words escape them
        symbol_ += c;
      }
    return may_go_on();
  }
  bool whole() const {
    if (symbol_.empty()) return stack_.done();
    return BracketStack::kind_of(symbol_) == BracketStack::Kind::close && stack_.depth() == 1 && stack_.allows(symbol_);
  }

 private:
  const std::vector<std::string>& labels_;
  BracketStack stack_;
  std::string symbol_;

  bool known(std::string_view label, bool begins) const {
    if (labels_.empty()) return begins || !label.empty();
    return std::any_of(labels_.begin(), labels_.end(), [&](const std::string& l) {
      return begins ? std::string_view(l).starts_with(label) : l == label;
    });
  }
  bool close_symbol() {
    if (symbol_.empty()) return true;
    if (!stack_.allows(symbol_)) return false;
    if (BracketStack::kind_of(symbol_) == BracketStack::Kind::open &&
        !known(std::string_view(symbol_).substr(1), false))
      return false;
    stack_.push(symbol_);
    symbol_.clear();
    return true;
  }
  bool may_go_on() const {
    if (symbol_.empty()) return true;
    const std::string_view rest = std::string_view(symbol_).substr(1);
    switch (BracketStack::kind_of(symbol_)) {
      case BracketStack::Kind::open: return !stack_.done() && known(rest, true);
      case BracketStack::Kind::close:
        return stack_.depth() > 0 && stack_.innermost_has_children() &&
               std::string_view(stack_.innermost()).starts_with(rest);
      case BracketStack::Kind::word: return stack_.depth() > 0;
    }
    return false;
  }
};

class TreeStep final : public RowStep {
 public:
  TreeStep(const Tokenizer& tokenizer, std::vector<int32_t> end, std::vector<std::string> labels)
      : tokenizer_(tokenizer), end_(std::move(end)), labels_(std::move(labels)) {
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) pieces_.push_back(tokenizer.piece(id, false));
  }
  void apply(LogitRow& row) const override {
    Reading so_far(labels_);
    const auto written = row.tokens.subspan(size_t(row.prompt_tokens));
    bool possible = true;
    for (size_t i = 0; i < written.size() && possible; ++i) possible = so_far.add(piece(written[i], i == 0));
    for (int32_t id = 0; id < int32_t(pieces_.size()); ++id) {
      if (std::find(end_.begin(), end_.end(), id) != end_.end()) {
        if (possible && !so_far.whole()) row.choice.forbid(id);
        continue;
      }
      const std::string first = written.empty() ? tokenizer_.piece(id, true) : std::string();
      const std::string& text = written.empty() ? first : pieces_[size_t(id)];
      Reading next = so_far;
      if (!possible || text.empty() || so_far.whole() || !next.add(text)) row.choice.forbid(id);
    }
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> end_;
  std::vector<std::string> labels_, pieces_;

  std::string piece(int32_t id, bool first) const {
    return first ? tokenizer_.piece(id, true) : id >= 0 && size_t(id) < pieces_.size() ? pieces_[size_t(id)] : "";
  }
};

}  // namespace

TreePrefix tree_prefix(std::string_view text, const std::vector<std::string>& labels) {
  Reading reading(labels);
  if (!reading.add(text)) return {};
  return {true, reading.whole()};
}

std::shared_ptr<const LogitStep> tree_step(const Tokenizer& tokenizer, const std::vector<int32_t>& end,
                                           std::vector<std::string> labels) {
  return std::make_shared<TreeStep>(tokenizer, end, std::move(labels));
}

}  // namespace lithe
