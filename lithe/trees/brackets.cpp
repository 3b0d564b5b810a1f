// Bracketed trees as the Penn Treebank has them.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/trees/linear.h"
#include "lithe/trees/treebank.h"

namespace lithe {
namespace {

bool space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Leaves out empty elements, nodes without words, and an outer bracket without a label.
ConstTree cleaned(const ConstTree& tree) {
  const size_t n = tree.nodes.size();
  std::vector<bool> kept(n, false);
  for (size_t i = n; i-- > 0;) {
    const ConstTree::Node& node = tree.nodes[i];
    const bool empty = node.leaf && node.parent >= 0 && tree.nodes[size_t(node.parent)].label == "-NONE-";
    if (node.leaf) kept[i] = !empty;
    if (kept[i] && node.parent >= 0) kept[size_t(node.parent)] = true;
  }
  if (n > 1 && tree.nodes[0].label.empty()) {
    int64_t children = 0;
    for (size_t i = 1; i < n; ++i) children += kept[i] && tree.nodes[i].parent == 0 && !tree.nodes[i].leaf;
    if (children == 1) kept[0] = false;
  }
  ConstTree out;
  std::vector<int32_t> place(n, -1);
  for (size_t i = 0; i < n; ++i) {
    if (!kept[i]) continue;
    ConstTree::Node node = tree.nodes[i];
    node.parent = node.parent < 0 ? -1 : place[size_t(node.parent)];
    if (node.leaf) node.label = unescape_word(node.label);
    place[i] = int32_t(out.nodes.size());
    out.nodes.push_back(std::move(node));
  }
  return out;
}

class Brackets {
 public:
  Brackets(std::string_view text, const std::string& name, const OnProblem& problem)
      : text_(text), name_(name), problem_(problem) {}

  std::vector<TreeSentence> read() {
    while (skip_spaces()) {
      const int64_t begun = line_;
      if (text_[at_] != '(') {  // a tree may follow on the line
        const std::string got(text_[at_] == ')' ? ")" : token());
        problem_(cat(name_, ":", line_, ": a tree begins with a bracket, got '", got.substr(0, 40), "'"));
        while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != '\n') ++at_;
        continue;
      }
      ConstTree tree;
      if (const std::string what = one(tree, begun); !what.empty()) {
        problem_(what);
        next_tree();
        continue;
      }
      deliver(cleaned(tree), begun);
    }
    return std::move(out_);
  }

 private:
  std::string_view text_;
  const std::string& name_;
  const OnProblem& problem_;
  std::vector<TreeSentence> out_;
  size_t at_ = 0;
  int64_t line_ = 1;

  bool skip_spaces() {
    for (; at_ < text_.size() && space(text_[at_]); ++at_) line_ += text_[at_] == '\n';
    return at_ < text_.size();
  }
  std::string_view token() {
    const size_t begin = at_;
    while (at_ < text_.size() && !space(text_[at_]) && text_[at_] != '(' && text_[at_] != ')') ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // The next line that is no other line of a tree: those begin with a space.
  void next_tree() {
    if (at_ > 0 && at_ < text_.size() && text_[at_] == '(' && text_[at_ - 1] == '\n') return;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] != '\n') continue;
      ++line_;
      if (at_ + 1 < text_.size() && !space(text_[at_ + 1])) {
        ++at_;
        return;
      }
    }
  }

  // Reads a tree; what is wrong, or nothing.
  std::string one(ConstTree& tree, int64_t begun) {
    const auto wrong = [&](const auto&... what) { return cat(name_, ":", line_, ": ", what...); };
    std::vector<int32_t> open;
    std::vector<bool> filled;
    do {
      if (!skip_spaces() || (line_ > begun && text_[at_] == '(' && at_ > 0 && text_[at_ - 1] == '\n'))
        return cat(name_, ":", begun, ": the tree that begins here ends with ", open.size(), " open brackets");
      if (text_[at_] == '(') {
        ++at_;
        skip_blanks();
        if (!open.empty()) filled.back() = true;
        tree.nodes.push_back({std::string(token()), open.empty() ? -1 : open.back(), false});
        open.push_back(int32_t(tree.nodes.size()) - 1);
        filled.push_back(false);
      } else if (text_[at_] == ')') {
        if (!filled.back())
          return wrong("the bracket '(", tree.nodes[size_t(open.back())].label, "' is closed with nothing in it");
        ++at_;
        open.pop_back(), filled.pop_back();
      } else {
        filled.back() = true;
        tree.nodes.push_back({std::string(token()), open.back(), true});
      }
    } while (!open.empty());
    // What follows on the line is another tree or nothing.
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == ')') return wrong("a bracket is closed that was not opened");
    return "";
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  void deliver(ConstTree tree, int64_t begun) {
    TreeSentence s;
    s.place = cat(name_, ":", begun);
    s.words = tree.words();
    if (s.words.empty()) return problem_(cat(s.place, ": the tree has no words"));
    for (const ConstTree::Node& node : tree.nodes)
      if (node.leaf) s.tags["pos"].push_back(node.parent < 0 ? "_" : tree.nodes[size_t(node.parent)].label);
    s.space_after.assign(s.words.size(), true);
    s.constituents = std::move(tree);
    if (int64_t(s.words.size()) > kLongSentence)
      problem_(cat(s.place, ": the sentence has ", s.words.size(), " words, more than ", kLongSentence,
                   "; are brackets missing?"));
    out_.push_back(std::move(s));
  }
};

}  // namespace

std::vector<TreeSentence> parse_bracketed_trees(std::string_view text, const std::string& name,
                                                const OnProblem& problem) {
  return Brackets(text, name, problem).read();
}

}  // namespace lithe
