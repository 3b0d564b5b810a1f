#include "lithe/base/node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/base/repeated_keys.h"

namespace lithe {

std::string to_string(const Mark& mark) {
  if (!mark.line) return mark.origin;
  return cat(mark.origin, ":", mark.line, ":", mark.column);
}

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Node Node::scalar(std::string text, Mark mark, bool quoted) {
  Node n;
  n.kind_ = Kind::scalar;
  n.text_ = std::move(text);
  n.mark_ = std::move(mark);
  n.quoted_ = quoted;
  return n;
}

Node Node::null(Mark mark) {
  Node n;
  n.mark_ = std::move(mark);
  return n;
}

Node Node::list(std::vector<Node> items, Mark mark) {
  Node n;
  n.kind_ = Kind::list;
  n.items_ = std::move(items);
  n.mark_ = std::move(mark);
  return n;
}

Node Node::map(Mark mark) {
  Node n;
  n.kind_ = Kind::map;
  n.mark_ = std::move(mark);
  return n;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : entries_)
    if (name == key) return &value;
  return nullptr;
}

Node& Node::set(std::string key, Node value) {
  if (kind_ == Kind::null) kind_ = Kind::map;
  check(kind_ == Kind::map, "recipe", to_string(mark_), ": '", key,
        "' cannot be set inside a value that is not a section");
  for (auto& [name, old] : entries_)
    if (name == key) return old = std::move(value);
  return append(std::move(key), std::move(value));
}

Node& Node::append(std::string key, Node value) {
  entries_.emplace_back(std::move(key), std::move(value));
  return entries_.back().second;
}

void Node::erase(std::string_view key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

Node& Node::push(Node value) {
  if (kind_ == Kind::null) kind_ = Kind::list;
  items_.push_back(std::move(value));
  return items_.back();
}

namespace {

Mark mark_of(const YAML::Mark& m, const std::string& origin) { return {origin, m.line + 1, m.column + 1}; }

// An alias stands for all it names, so that a few lines can name more than memory holds.
constexpr int64_t kMaxNodes = 1'000'000, kMaxAnchored = 100'000;
constexpr size_t kMaxKeys = 5'000;  // of one map: a key is found by looking at those before it
constexpr int kMaxDepth = 64;

// yaml-cpp reads the escapes \_ and \N as the bytes A0 and 85, which are no UTF-8.
std::string with_spaces_of_escapes(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto lead = uint8_t(text[at]);
    size_t length = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (size_t i = 1; i < length; ++i)
      if (at + i >= text.size() || (uint8_t(text[at + i]) & 0xC0) != 0x80) length = 1;
    if (length == 1 && (lead == 0x85 || lead == 0xA0)) out += char(0xC2);
    out += text.substr(at, length);
    at += length;
  }
  return out;
}

// Makes the tree from the parser's events. Not from YAML::Load: for some malformed texts that reads documents without
// end, and nothing there bounds what aliases grow to. `of_others`: as parse_repeated_yaml().
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& origin, bool of_others = false) : origin_(origin), of_others_(of_others) {}
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Mark at = mark_of(mark, origin_);
    add({Node::null(at), 1, 0}, at, anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Mark at = mark_of(mark, origin_);
    const bool function = of_others_ && tag == "!function";
    const bool quoted = tag == "!" || (of_others_ && tag == "tag:yaml.org,2002:str");
    std::string text = with_spaces_of_escapes(value);
    if (function) text.insert(0, "!function ");
    add({Node::scalar(std::move(text), at, quoted), 1, 0}, at, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Mark at = mark_of(mark, origin_);
    const auto found = anchors_.find(anchor);
    check_usage(found != anchors_.end(), "recipe", to_string(at), ": an alias stands within what it names");
    add(found->second, at, 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::list({}, mark_of(mark, origin_)), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::map(mark_of(mark, origin_)), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Tree {
    Node node;
    int64_t nodes = 1;
    int depth = 0;  // levels below it
  };
  struct Level {
    Tree tree;
    YAML::anchor_t anchor;
    std::optional<std::string> key;  // of the value that comes next
    std::set<std::string> keys;      // so far
  };
  const std::string& origin_;
  bool of_others_;
  Node root_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, Tree> anchors_;
  int64_t nodes_ = 0, anchored_ = 0;

  void open(Node node, YAML::anchor_t anchor) {
    const Mark& mark = node.mark();
    check_usage(levels_.size() < kMaxDepth, "recipe", to_string(mark), ": nested deeper than ", kMaxDepth);
    check_usage(levels_.empty() || !levels_.back().tree.node.is_map() || levels_.back().key, "recipe", to_string(mark),
                ": a key must be a plain word");
    levels_.push_back({{std::move(node), 1, 0}, anchor, {}, {}});
  }
  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    const Mark mark = level.tree.node.mark();
    nodes_ -= level.tree.nodes - 1;  // add() counts the whole tree
    add(std::move(level.tree), mark, level.anchor);
  }
  void add(Tree tree, const Mark& mark, YAML::anchor_t anchor) {
    nodes_ += tree.nodes;
    check_usage(nodes_ <= kMaxNodes, "recipe", to_string(mark), ": more than ", kMaxNodes, " values, aliases counted");
    check_usage(int(levels_.size()) + tree.depth <= kMaxDepth, "recipe", to_string(mark), ": nested deeper than ",
                kMaxDepth);
    if (anchor) {  // a copy: anchors within anchors are copied again and again
      anchored_ += tree.nodes;
      check_usage(anchored_ <= kMaxAnchored, "recipe", to_string(mark), ": anchors name more than ", kMaxAnchored,
                  " values; write them out");
      anchors_[anchor] = tree;
    }
    if (levels_.empty()) {
      root_ = std::move(tree.node);
      return;
    }
    Level& level = levels_.back();
    Tree& parent = level.tree;
    if (parent.node.is_map() && !level.key) {
      check_usage(tree.node.is_scalar(), "recipe", to_string(mark), ": a key must be a plain word");
      check_usage(level.keys.insert(tree.node.text()).second || of_others_, "recipe", to_string(mark), ": '",
                  tree.node.text(), "' is given twice; remove one");
      check_usage(level.keys.size() <= kMaxKeys, "recipe", to_string(mark), ": more than ", kMaxKeys,
                  " keys in one section");
      level.key = tree.node.text();
      return;
    }
    parent.nodes += tree.nodes;
    parent.depth = std::max(parent.depth, tree.depth + 1);
    if (parent.node.is_map() && of_others_)
      parent.node.set(*std::exchange(level.key, std::nullopt), std::move(tree.node));
    else if (parent.node.is_map())
      parent.node.append(*std::exchange(level.key, std::nullopt), std::move(tree.node));
    else
      parent.node.push(std::move(tree.node));
  }
};

Node convert(const Json& in, const Mark& mark) {
  if (in.is_null()) return Node();
  if (in.is_string()) return Node::scalar(in.get<std::string>(), mark, true);
  if (in.is_array()) {
    Node out = Node::list({}, mark);
    for (const auto& item : in) out.push(convert(item, mark));
    return out;
  }
  if (in.is_object()) {
    Node out = Node::map(mark);
    for (const auto& [key, value] : in.items()) out.append(key, convert(value, mark));
    return out;
  }
  return Node::scalar(dump(in), mark);
}

// A plain scalar that YAML or JSON would read back as a number, a truth value or null.
bool looks_typed(const std::string& text) {
  static const char* words[] = {"true", "false", "null", "yes", "no", "on", "off", "~"};
  for (const char* word : words)
    if (text == word) return true;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size();
}

Json to_json_tree(const Node& node) {
  switch (node.kind()) {
    case Node::Kind::null: return nullptr;
    case Node::Kind::scalar: {
      if (node.quoted() || !looks_typed(node.text())) return node.text();
      const Json parsed = Json::parse(node.text(), nullptr, false);
      return parsed.is_discarded() ? Json(node.text()) : parsed;
    }
    case Node::Kind::list: {
      Json out = Json::array();
      for (const auto& item : node.items()) out.push_back(to_json_tree(item));
      return out;
    }
    case Node::Kind::map: {
      Json out = Json::object();
      for (const auto& [key, value] : node.entries()) out[key] = to_json_tree(value);
      return out;
    }
  }
  return nullptr;
}

void emit(YAML::Emitter& out, const Node& node) {
  switch (node.kind()) {
    case Node::Kind::null: out << YAML::Null; break;
    case Node::Kind::scalar:
      if (node.quoted() && looks_typed(node.text())) out << YAML::DoubleQuoted;
      out << node.text();
      break;
    case Node::Kind::list: {
      bool flat = true;
      for (const auto& item : node.items()) flat = flat && item.is_scalar();
      if (flat) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const auto& item : node.items()) emit(out, item);
      out << YAML::EndSeq;
      break;
    }
    case Node::Kind::map:
      out << YAML::BeginMap;
      for (const auto& [key, value] : node.entries()) {
        out << YAML::Key << key << YAML::Value;
        emit(out, value);
      }
      out << YAML::EndMap;
      break;
  }
}

}  // namespace

// Of the line, or of one of the two before it: the parser often stumbles behind what is wrong.
static bool begins_with_tab(std::string_view text, int line) {
  for (int at = 0; !text.empty(); ++at) {
    const std::string_view now = text.substr(0, text.find('\n'));
    const size_t first = now.find_first_not_of(' ');
    if (at >= line - 2 && at <= line && first != now.npos && now[first] == '\t') return true;
    text.remove_prefix(std::min(text.size(), now.size() + 1));
  }
  return false;
}

static Node parsed_yaml(std::string_view text, const std::string& origin, bool of_others) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(origin, of_others), second(origin);
    if (!parser.HandleNextDocument(builder)) return Node();
    check_usage(!parser.HandleNextDocument(second), "recipe", origin,
                ": holds more than one document; split it, one recipe a file");
    return builder.take();
  } catch (const YAML::Exception& error) {
    fail_usage("recipe", to_string(mark_of(error.mark, origin)), ": is not YAML: ", error.msg,
               error.msg.find("anchor") != error.msg.npos ? "; a value that begins with * must stand in quotes"
               : begins_with_tab(text, error.mark.line)   ? "; a line begins with a tab, write spaces in its place"
                                                          : "");
  }
}

Node parse_yaml(std::string_view text, const std::string& origin) { return parsed_yaml(text, origin, false); }

Node parse_repeated_yaml(std::string_view text, const std::string& origin) { return parsed_yaml(text, origin, true); }

Node parse_json_node(std::string_view text, const std::string& origin) {
  return convert(parse_json(text, origin), Mark{origin, 0, 0});
}

std::string to_yaml(const Node& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

std::string to_json(const Node& node) { return dump(to_json_tree(node), 2) + "\n"; }

void apply_override(Node& root, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  check_usage(equals != std::string_view::npos && equals > 0, "--set",
              "must be key=value like train.learning_rate=3e-4, got '", assignment, "'");
  check_usage(equals + 1 < assignment.size(), "--set", "'", assignment,
              "' gives no value; write key=value, key=null for none, or key='\"\"' for an empty text");
  const std::string origin = cat("--set ", assignment.substr(0, equals));
  Node value = parse_yaml(assignment.substr(equals + 1), origin);
  if (value.is_scalar()) value = Node::scalar(value.text(), Mark{origin, 0, 0}, value.quoted());  // it has one place
  std::string_view path = assignment.substr(0, equals);
  Node* at = &root;
  while (true) {
    const size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    check_usage(!key.empty(), "--set", "'", assignment, "' has an empty key");
    if (dot == std::string_view::npos) {
      at->set(key, std::move(value));
      return;
    }
    const Node* next = at->find(key);
    // A scalar part name ("position: rotary") becomes a section so that its options can be set.
    if (!next || next->is_null()) {
      at = &at->set(key, Node::map(Mark{origin, 0, 0}));
    } else if (next->is_scalar()) {
      Node section = Node::map(next->mark());
      section.set("type", *next);
      at = &at->set(key, std::move(section));
    } else {
      check_usage(next->is_map(), "--set", "'", assignment, "': '", key, "' is a list, not a section");
      at = const_cast<Node*>(next);
    }
    path.remove_prefix(dot + 1);
  }
}

}  // namespace lithe
