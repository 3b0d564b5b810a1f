#include "lithe/base/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"

namespace lithe {
namespace {

PartResolver resolver = nullptr;

// 1.0e-08, not 1e-08: YAML 1.1 takes the latter for a text.
std::string number_text(double v) {
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, v).ptr);
  if (const size_t e = out.find('e'); e != std::string::npos && out.find('.') == std::string::npos) out.insert(e, ".0");
  return out;
}

std::string describe_rule(const Rule& rule) {
  if (!rule.choices.empty()) return "one of " + join(rule.choices);
  const bool low = std::isfinite(rule.min), high = std::isfinite(rule.max);
  if (low && high) return cat("between ", number_text(rule.min), " and ", number_text(rule.max));
  if (low) return cat("at least ", number_text(rule.min));
  if (high) return cat("at most ", number_text(rule.max));
  return "";
}

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;  // clang 14 needs the guide

// ---- reading

std::optional<double> as_number(const Node& node) {
  if (!node.is_scalar() || node.quoted()) return {};
  double value = 0;
  const char* begin = node.text().data();
  const char* end = begin + node.text().size();
  if (begin != end && *begin == '+') ++begin;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return {};
  return value;
}

class Reader final : public Fields {
 public:
  Reader(const Node& node, const std::string& section)
      : of_model_(section.starts_with("model") || section.find(' ') != std::string::npos) {  // "SLOT PART"
    push(&node, section);
  }
  void finish() {
    pop();
    if (faults_.empty()) return;
    std::string all;
    for (const std::string& fault : faults_) all += (all.empty() ? "" : "; also: ") + fault;
    fail_usage("recipe", all);
  }

 protected:
  void field(const char* key, Value value, const char*, const Rule& rule) override {
    gather([&] { read(key, value, rule); });
  }

  bool enter(const char* key, const char*) override {
    static const Node empty = Node::map();
    const Node* node = lookup(key);
    if (!node || node->is_null()) node = &empty;
    gather([&] {
      check_usage(node->is_map(), "recipe", to_string(node->mark()), ": '", full(key),
                  "' must be a section with keys, got '", shown(*node), "'");
    });
    push(node->is_map() ? node : &empty, full(key));
    return true;
  }
  void leave() override { pop(); }

  void part_field(const char* key, const char* slot, PartChoice& choice, const char*) override {
    gather([&] { read_part(key, slot, choice); });
  }

  void free_field(const char* key, Node& value, const char*) override {
    if (const Node* node = lookup(key)) value = *node;
  }

 private:
  // All faults are told at once, in the order of the keys.
  template <class Read>
  void gather(Read&& read) {
    try {
      read();
    } catch (const Error& error) {
      const std::string before = "recipe: ", text = error.what();
      if (error.code() != ExitCode::usage || !text.starts_with(before)) throw;
      faults_.push_back(text.substr(before.size()));
    }
  }

  // null is the default, unless null is a value of its own.
  static bool takes_null(const Value& value) {
    return std::holds_alternative<std::optional<int64_t>*>(value) ||
           std::holds_alternative<std::optional<double>*>(value);
  }

  void read(const char* key, const Value& value, const Rule& rule) {
    const Node* node = lookup(key);
    if (!node || (node->is_null() && !takes_null(value))) {
      if (rule.required) fail_missing(key);
      return;
    }
    const auto expect = [&](bool ok, const char* type) {
      // What is empty has no place of its own.
      const Mark& place = node->mark().origin.empty() ? levels_.back().node->mark() : node->mark();
      check_usage(ok, "recipe", to_string(place), ": '", full(key), "' must be ", type, ", got '", shown(*node), "'");
    };
    const auto range = [&](double v) {
      check_usage(v >= rule.min && v <= rule.max, "recipe", to_string(node->mark()), ": '", full(key), "' must be ",
                  describe_rule(rule), ", got ", shown(*node));
    };
    const auto integer = [&](const Node& n) {
      const auto v = as_number(n);
      expect(v && *v == std::floor(*v), "an integer");
      constexpr double kExact = 9007199254740992.0;  // above, a double skips integers
      expect(std::abs(*v) <= kExact, "an integer of at most 16 digits, below 9007199254740992");
      range(*v);
      check_usage(!is_size(key, rule) || *v <= kMostSize, "recipe", to_string(node->mark()), ": '", full(key),
                  "' must be at most ", int64_t(kMostSize), ", got ", shown(*node));
      return int64_t(*v);
    };
    const auto real = [&](const Node& n) {
      const auto v = as_number(n);
      expect(v.has_value(), "a number");
      range(*v);
      return *v;
    };
    const auto text = [&](const Node& n) {
      expect(n.is_scalar(), "text");
      if (!rule.choices.empty() && std::find(rule.choices.begin(), rule.choices.end(), n.text()) == rule.choices.end())
        fail_usage("recipe", to_string(n.mark()), ": '", full(key), "' must be one of ", join(rule.choices), ", got '",
                   n.text(), "'", did_you_mean(n.text(), rule.choices));
      return n.text();
    };
    const auto list = [&](auto& out, auto&& item, const char* type) {
      out.clear();
      if (node->is_scalar()) {
        out.push_back(item(*node));  // one value stands for a list of one
        return;
      }
      expect(node->is_list(), type);
      for (const auto& n : node->items()) out.push_back(item(n));
    };
    std::visit(Overloaded{
                   [&](bool* v) {
                     const bool yes = node->text() == "true" || node->text() == "True",
                                no = node->text() == "false" || node->text() == "False";
                     expect(node->is_scalar() && !node->quoted() && (yes || no), "true or false");
                     *v = yes;
                   },
                   [&](int64_t* v) { *v = integer(*node); },
                   [&](double* v) { *v = real(*node); },
                   [&](std::string* v) { *v = text(*node); },
                   [&](std::optional<int64_t>* v) {
                     v->reset();
                     if (!node->is_null()) *v = integer(*node);
                   },
                   [&](std::optional<double>* v) {
                     v->reset();
                     if (!node->is_null()) *v = real(*node);
                   },
                   [&](std::vector<std::string>* v) { list(*v, text, "a list of texts"); },
                   [&](std::vector<int64_t>* v) { list(*v, integer, "a list of integers"); },
                   [&](std::vector<double>* v) { list(*v, real, "a list of numbers"); },
               },
               value);
  }

  void read_part(const char* key, const char* slot, PartChoice& choice) {
    const Node* node = lookup(key);
    Mark mark = node ? node->mark() : Mark{where(), 0, 0};
    if (node && !node->is_null()) {
      const Node* type = node->is_map() ? node->find("type") : node;
      check_usage(type || !choice.type.empty(), "recipe", to_string(mark), ": '", full(key), "' needs a 'type'");
      if (type) {
        check_usage(type->is_scalar(), "recipe", to_string(mark), ": '", full(key),
                    ".type' must be the name of a part of slot ", slot);
        if (type->text() != choice.type) choice.options = Node();
        choice.type = type->text();
        if (!type->mark().origin.empty()) mark = type->mark();
      }
      if (node->is_map()) {
        Node options = *node;
        options.erase("type");
        choice.options = options;
      }
    }
    if (resolver) choice = resolver(slot, choice, mark);
  }

  // What a model has without a limit of its own: above what anybody has, and so small that its plan comes to an end.
  static constexpr double kMostSize = 1 << 24;

  struct Level {
    const Node* node;
    std::string section;
    std::vector<std::string> known;
  };
  bool of_model_;
  std::vector<Level> levels_;
  std::vector<std::string> faults_;

  bool is_size(const char* key, const Rule& rule) const {
    const bool in_model = of_model_ || levels_.back().section.starts_with("model");
    return in_model && !std::isfinite(rule.max) && std::string_view(key).find("seed") == std::string_view::npos;
  }
  static std::string shown(const Node& node) {
    if (node.is_scalar()) return node.text();
    return node.is_map() ? "a section" : node.is_list() ? "a list" : "nothing";
  }
  std::string full(const std::string& key) const {
    const std::string& section = levels_.back().section;
    return section.empty() ? key : section + "." + key;
  }
  std::string where() const { return to_string(levels_.back().node->mark()); }
  [[noreturn]] void fail_missing(const std::string& key) const {
    std::vector<std::string> given;
    for (const auto& [name, value] : levels_.back().node->entries()) given.push_back(name);
    const std::string near = nearest(key, given);
    fail_usage("recipe", where(), ": '", full(key), "' is missing",
               near.empty() ? "" : "; is it what '" + near + "' means?");
  }
  const Node* lookup(const char* key) {
    levels_.back().known.push_back(key);
    return levels_.back().node->find(key);
  }
  void push(const Node* node, std::string section) {
    check_usage(node->is_map() || node->is_null(), "recipe", to_string(node->mark()), ": '", section,
                "' must be a section with keys, got '", shown(*node), "'");
    levels_.push_back({node, std::move(section), {}});
  }
  void pop() {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    for (const auto& [key, value] : level.node->entries()) {
      if (std::find(level.known.begin(), level.known.end(), key) != level.known.end()) continue;
      const std::string near = nearest(key, level.known);
      const std::string place = level.section.empty() ? "at the top level" : "in section '" + level.section + "'";
      faults_.push_back(cat(to_string(value.mark()), ": unknown key '", key, "' ", place,
                            !near.empty()         ? "; did you mean '" + near + "'?"
                            : level.known.empty() ? "; it has no keys"
                                                  : "; valid keys are " + join(level.known)));
    }
  }
};

// ---- writing

class Writer final : public Fields {
 public:
  Writer() { levels_.push_back(Node::map()); }
  Node take() { return std::move(levels_.back()); }

 protected:
  void field(const char* key, Value value, const char*, const Rule&) override {
    const auto number = [](double v) { return Node::scalar(number_text(v)); };
    const auto integer = [](int64_t v) { return Node::scalar(std::to_string(v)); };
    const auto text = [](const std::string& v) { return Node::scalar(v, {}, true); };
    const auto list = [](const auto& values, auto&& item) {
      Node out = Node::list();
      for (const auto& v : values) out.push(item(v));
      return out;
    };
    Node node = std::visit(Overloaded{
                               [&](bool* v) { return Node::scalar(*v ? "true" : "false"); },
                               [&](int64_t* v) { return integer(*v); },
                               [&](double* v) { return number(*v); },
                               [&](std::string* v) { return text(*v); },
                               [&](std::optional<int64_t>* v) { return *v ? integer(**v) : Node(); },
                               [&](std::optional<double>* v) { return *v ? number(**v) : Node(); },
                               [&](std::vector<std::string>* v) { return list(*v, text); },
                               [&](std::vector<int64_t>* v) { return list(*v, integer); },
                               [&](std::vector<double>* v) { return list(*v, number); },
                           },
                           value);
    levels_.back().set(key, std::move(node));
  }
  bool enter(const char* key, const char*) override {
    keys_.push_back(key);
    levels_.push_back(Node::map());
    return true;
  }
  void leave() override {
    Node done = std::move(levels_.back());
    levels_.pop_back();
    levels_.back().set(keys_.back(), std::move(done));
    keys_.pop_back();
  }
  void part_field(const char* key, const char*, PartChoice& choice, const char*) override {
    Node node = Node::map();
    node.set("type", Node::scalar(choice.type, {}, true));
    for (const auto& [name, value] : choice.options.entries()) node.set(name, value);
    levels_.back().set(key, std::move(node));
  }
  void free_field(const char* key, Node& value, const char*) override {
    if (!value.is_null()) levels_.back().set(key, value);
  }

 private:
  std::vector<Node> levels_;
  std::vector<std::string> keys_;
};

// ---- describing

class Describer final : public Fields {
 public:
  explicit Describer(std::string section) : section_(std::move(section)) {}
  std::vector<FieldDoc> docs;

 protected:
  void field(const char* key, Value value, const char* help, const Rule& rule) override {
    const char* type = std::visit(Overloaded{
                                      [](bool*) { return "true/false"; },
                                      [](int64_t*) { return "integer"; },
                                      [](double*) { return "number"; },
                                      [](std::string*) { return "text"; },
                                      [](std::optional<int64_t>*) { return "integer or null"; },
                                      [](std::optional<double>*) { return "number or null"; },
                                      [](std::vector<std::string>*) { return "list of texts"; },
                                      [](std::vector<int64_t>*) { return "list of integers"; },
                                      [](std::vector<double>*) { return "list of numbers"; },
                                  },
                                  value);
    // The default prints as the recipe would write it.
    Node written = write_fields([&](Fields& f) { std::visit([&](auto* v) { f(key, *v, help); }, value); });
    std::string text = to_yaml(written);
    const size_t colon = text.find(':');
    text = text.substr(std::min(text.size(), colon + 1));
    text.erase(0, text.find_first_not_of(" \n"));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (text == "~") text = "null";
    docs.push_back(
        {full(key), type, rule.required ? "required" : text, help, describe_rule(rule), rule.sizes, rule.per});
  }
  bool enter(const char* key, const char* help) override {
    docs.push_back({full(key), "section", "", help, ""});
    stack_.push_back(section_);
    section_ = full(key);
    return true;
  }
  void leave() override {
    section_ = stack_.back();
    stack_.pop_back();
  }
  void part_field(const char* key, const char* slot, PartChoice& choice, const char* help) override {
    docs.push_back({full(key), cat("part of slot ", slot), choice.type, help, ""});
  }
  void free_field(const char* key, Node&, const char* help) override {
    docs.push_back({full(key), "section with names of your own", "", help, ""});
  }

 private:
  std::string section_;
  std::vector<std::string> stack_;
  std::string full(const std::string& key) const { return section_.empty() ? key : section_ + "." + key; }
};

}  // namespace

void set_part_resolver(PartResolver r) { resolver = r; }
PartResolver part_resolver() { return resolver; }

void read_fields(const Node& node, const std::string& section, const FieldsOf& fields) {
  Reader reader(node, section);
  fields(reader);
  reader.finish();
}

Node write_fields(const FieldsOf& fields) {
  Writer writer;
  fields(writer);
  return writer.take();
}

std::vector<FieldDoc> describe_fields(const FieldsOf& fields, const std::string& section) {
  Describer describer(section);
  fields(describer);
  return std::move(describer.docs);
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string nearest(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  size_t best_distance = (word.size() + 1) / 3 + 1;  // of a short word more is another word
  for (const auto& candidate : words) {
    // Rows i - 2, i - 1 and i of the table of distances between the beginnings of both.
    std::vector<size_t> before, above, row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      before = std::move(above);
      above = row;
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        row[j] = std::min({row[j - 1] + 1, above[j] + 1, above[j - 1] + (word[i - 1] != candidate[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace lithe
