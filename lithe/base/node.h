// A document tree (recipe, config.json) whose every node knows where it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lithe/base/files.h"

namespace lithe {

/// Where a node stands. Line and column start at 1; 0 means "not from a file" (an override, a default).
struct Mark {
  std::string origin;  // file name, or "--set model.hidden_size"
  int line = 0, column = 0;
};

/// "recipe.yaml:12:5", or the origin alone.
std::string to_string(const Mark& mark);

/// Null, scalar (as text), list or map with keys in order.
class Node {
 public:
  enum class Kind { null, scalar, list, map };

  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();
  static Node scalar(std::string text, Mark mark = {}, bool quoted = false);
  static Node null(Mark mark);
  static Node list(std::vector<Node> items = {}, Mark mark = {});
  static Node map(Mark mark = {});

  Kind kind() const { return kind_; }
  bool is_map() const { return kind_ == Kind::map; }
  bool is_list() const { return kind_ == Kind::list; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_null() const { return kind_ == Kind::null; }
  const Mark& mark() const { return mark_; }
  const std::string& text() const { return text_; }
  bool quoted() const { return quoted_; }  // "8" in quotes is a string, 8 is a number

  const std::vector<Node>& items() const { return items_; }
  const std::vector<std::pair<std::string, Node>>& entries() const { return entries_; }
  const Node* find(std::string_view key) const;  // null when absent or not a map
  Node& set(std::string key, Node value);        // replaces or appends; makes a null node a map
  Node& append(std::string key, Node value);     // the same of a key that is known to be absent
  void erase(std::string_view key);
  Node& push(Node value);

 private:
  Kind kind_ = Kind::null;
  Mark mark_;
  std::string text_;
  bool quoted_ = false;
  std::vector<Node> items_;
  std::vector<std::pair<std::string, Node>> entries_;
};

/// Reads YAML. Strict: one document, no duplicate keys, no anchors' merge keys, depth at most 64, at most 5,000 keys in
/// one map, 1,000,000 values, and 100,000 that anchors name.
/// Errors name file, line and column.
Node parse_yaml(std::string_view text, const std::string& origin);

/// Reads JSON into the same tree (numbers keep their text).
Node parse_json_node(std::string_view text, const std::string& origin);

std::string to_yaml(const Node& node);
std::string to_json(const Node& node);  // indented by 2

/// Applies `path.to.key=value`; the value is read as YAML. Missing sections are made.
void apply_override(Node& root, std::string_view assignment);

}  // namespace lithe
