#include "lithe/infer/tree_step.h"

#include <algorithm>
#include <unordered_set>

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
  /// What makes it whole, `filler` where a word or a label is free. Behind a beginning of it comes the rest.
  std::string closing(const std::string& filler) const {
    std::string out;
    const auto add = [&](const std::string& symbol) { out += (out.empty() && symbol_.empty() ? "" : " ") + symbol; };
    std::vector<std::string> open = stack_.labels();
    bool child = open.empty() || stack_.innermost_has_children();
    if (!symbol_.empty()) {
      const std::string rest = symbol_.substr(1);
      switch (BracketStack::kind_of(symbol_)) {
        case BracketStack::Kind::open:
          open.push_back(shortest(rest, filler));
          out = open.back().substr(rest.size());
          child = false;
          break;
        case BracketStack::Kind::close:
          out = open.back().substr(rest.size());
          open.pop_back();
          break;
        case BracketStack::Kind::word: child = true; break;
      }
    } else if (open.empty() && !stack_.done()) {
      open.push_back(shortest("", filler));
      out = "(" + open.back();
      child = false;
    }
    if (!child) add(filler);
    for (; !open.empty(); open.pop_back()) add(")" + open.back());
    return out;
  }

 private:
  const std::vector<std::string>& labels_;
  BracketStack stack_;
  std::string symbol_;

  // The shortest label that begins so, the first of several.
  std::string shortest(const std::string& begin, const std::string& filler) const {
    if (labels_.empty()) return begin.empty() ? filler : begin;
    const std::string* best = nullptr;
    for (const std::string& l : labels_)
      if (l.starts_with(begin) && (!best || std::pair(l.size(), l) < std::pair(best->size(), *best))) best = &l;
    return best ? *best : begin;
  }

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
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      pieces_.push_back(tokenizer.piece(id, false));
      longest_ = std::max(longest_, pieces_.back().size());
      known_.insert(pieces_.back());
    }
    for (const char c : std::string("zyxwvutsrqponmlkjihgfedcbaXS"))
      if (known_.count(std::string(1, c))) filler_ = c;
    for (const std::string& l : labels_) longest_label_ = std::max(longest_label_, l.size());
  }
  void apply(LogitRow& row) const override {
    Reading so_far(labels_);
    const auto written = row.tokens.subspan(size_t(row.prompt_tokens));
    bool possible = true;
    for (size_t i = 0; i < written.size() && possible; ++i) possible = so_far.add(piece(written[i], i == 0));
    // No token adds more than this to what closes the tree.
    const size_t most = possible ? so_far.closing(filler_).size() + 2 * (longest_ + longest_label_) + 16 : 0;
    const bool limited = possible && row.tokens_left > 0 && int64_t(most) >= row.tokens_left;
    bool any = false, any_but_late = false;
    for (int32_t id = 0; id < int32_t(pieces_.size()); ++id) {
      if (std::find(end_.begin(), end_.end(), id) != end_.end()) {
        if (possible && !so_far.whole()) row.choice.forbid(id);
        continue;
      }
      const std::string first = written.empty() ? tokenizer_.piece(id, true) : std::string();
      const std::string& text = written.empty() ? first : pieces_[size_t(id)];
      Reading next = so_far;
      if (!possible || text.empty() || so_far.whole() || !next.add(text)) {
        row.choice.forbid(id);
        continue;
      }
      any_but_late = true;
      if (limited && !closes_within(next, row.tokens_left - 1))
        row.choice.forbid(id);
      else
        any = true;
    }
    check_usage(any || !any_but_late, "trees", "no tree fits in the ", row.tokens_left,
                " tokens that are left; raise --max-new-tokens");
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> end_;
  std::vector<std::string> labels_, pieces_;
  std::unordered_set<std::string> known_;  // pieces
  size_t longest_ = 1, longest_label_ = 0;
  std::string filler_ = "a";

  // What closes the tree takes so many tokens, each the longest that fits. Where tokens cannot write it so: yes.
  bool closes_within(const Reading& reading, int64_t tokens) const {
    const std::string text = reading.closing(filler_);
    if (int64_t(text.size()) <= tokens) return true;  // a byte a token at most
    for (size_t at = 0; at < text.size(); --tokens) {
      size_t n = std::min(longest_, text.size() - at);
      while (n > 0 && !known_.count(text.substr(at, n))) --n;
      if (n == 0) return true;
      if (tokens <= 0) return false;
      at += n;
    }
    return true;
  }

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
