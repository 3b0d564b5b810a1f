#include "lithe/trees/linear.h"

#include "lithe/base/error.h"

namespace lithe {

std::string escape_word(std::string_view word) {
  if (word.starts_with("-LRB-") || word.starts_with("-RRB-") || word.starts_with('\\')) return "\\" + std::string(word);
  if (word.starts_with('(')) return "-LRB-" + std::string(word.substr(1));
  if (word.starts_with(')')) return "-RRB-" + std::string(word.substr(1));
  return std::string(word);
}

std::string unescape_word(std::string_view token) {
  if (token.starts_with('\\')) return std::string(token.substr(1));
  if (token.starts_with("-LRB-")) return "(" + std::string(token.substr(5));
  if (token.starts_with("-RRB-")) return ")" + std::string(token.substr(5));
  return std::string(token);
}

std::vector<std::string> linearise(const ConstTree& tree) {
  std::vector<std::string> out;
  std::vector<int32_t> open;
  const auto close_to = [&](int32_t parent) {
    while (!open.empty() && open.back() != parent) {
      out.push_back(")" + tree.nodes[size_t(open.back())].label);
      open.pop_back();
    }
  };
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const ConstTree::Node& node = tree.nodes[i];
    close_to(node.parent);
    if (node.leaf) {
      out.push_back(escape_word(node.label));
    } else {
      out.push_back("(" + node.label);
      open.push_back(int32_t(i));
    }
  }
  close_to(-1);
  return out;
}

ConstTree parse_linear(const std::vector<std::string>& tokens) {
  ConstTree tree;
  std::vector<int32_t> open;
  std::vector<bool> children;
  bool closed = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const auto refuse = [&](const auto&... why) { fail("linearise", "token ", i + 1, " '", token, "' ", why...); };
    if (closed) refuse("stands behind the end of the tree");
    switch (BracketStack::kind_of(token)) {
      case BracketStack::Kind::open:
        if (!open.empty()) children.back() = true;
        tree.nodes.push_back({token.substr(1), open.empty() ? -1 : open.back(), false});
        open.push_back(int32_t(tree.nodes.size()) - 1);
        children.push_back(false);
        break;
      case BracketStack::Kind::close: {
        if (open.empty()) refuse("closes a bracket, but none is open");
        const std::string& label = tree.nodes[size_t(open.back())].label;
        if (token.substr(1) != label) refuse("closes a bracket, but the one that is open is '(", label, "'");
        if (!children.back()) refuse("closes a bracket without a word or bracket in it");
        open.pop_back(), children.pop_back();
        closed = open.empty();
        break;
      }
      case BracketStack::Kind::word:
        if (open.empty()) refuse("is a word outside of brackets");
        children.back() = true;
        tree.nodes.push_back({unescape_word(token), open.back(), true});
        break;
    }
  }
  check(open.empty(), "linearise", open.size(), " brackets are open at the end, the last of them '(",
        open.empty() ? std::string() : tree.nodes[size_t(open.back())].label, "'; close them");
  check(closed, "linearise", "there is no token; a tree has a bracket and a word at least");
  return tree;
}

BracketStack::Kind BracketStack::kind_of(std::string_view token) {
  return token.starts_with('(') ? Kind::open : token.starts_with(')') ? Kind::close : Kind::word;
}

bool BracketStack::allows(std::string_view token) const {
  switch (kind_of(token)) {
    case Kind::open: return !done();
    case Kind::close: return !open_.empty() && open_.back().children && token.substr(1) == open_.back().label;
    case Kind::word: return !open_.empty();
  }
  return false;
}

std::vector<std::string> BracketStack::labels() const {
  std::vector<std::string> out;
  for (const Open& open : open_) out.push_back(open.label);
  return out;
}

void BracketStack::push(std::string_view token) {
  check(allows(token), "linearise", "'", std::string(token), "' may not follow here");
  begun_ = true;
  switch (kind_of(token)) {
    case Kind::open:
      if (!open_.empty()) open_.back().children = true;
      open_.push_back({std::string(token.substr(1))});
      break;
    case Kind::close: open_.pop_back(); break;
    case Kind::word: open_.back().children = true; break;
  }
}

}  // namespace lithe
