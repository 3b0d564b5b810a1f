// Constituency trees as sequences of brackets and words [TB 6.2.1].
#pragma once

#include <string_view>

#include "lithe/trees/tree.h"

namespace lithe {

// spec: syn.linearise | data | a tree as brackets and words, and back | TB 6.2.1
/// In pre-order: "(LABEL", children from left to right, words, then ")LABEL". Words that begin as a bracket does are
/// escaped: "(" stands as "-LRB-", and what looks escaped has a backslash before it.
std::vector<std::string> linearise(const ConstTree& tree);
/// The tree of such tokens. Fails, naming the token (from 1), on brackets that do not fit, none or two trees, labels
/// that differ, a node without children, and a word outside of brackets.
ConstTree parse_linear(const std::vector<std::string>& tokens);

std::string escape_word(std::string_view word);
std::string unescape_word(std::string_view token);

/// The brackets that are open, by which a decoder is held to trees.
class BracketStack {
 public:
  enum class Kind { word, open, close };
  static Kind kind_of(std::string_view token);
  /// The token may follow: a close bracket of the last open label that has a child, an open one or a word inside of
  /// brackets; the first is an open bracket, and after the tree is closed nothing follows.
  bool allows(std::string_view token) const;
  /// Fails where it may not.
  void push(std::string_view token);
  int64_t depth() const { return int64_t(open_.size()); }
  bool done() const { return begun_ && open_.empty(); }
  const std::string& innermost() const { return open_.back().label; }
  bool innermost_has_children() const { return open_.back().children; }
  /// Of all open brackets, the innermost last.
  std::vector<std::string> labels() const;

 private:
  struct Open {
    std::string label;
    bool children = false;
  };
  std::vector<Open> open_;
  bool begun_ = false;
};

}  // namespace lithe
