// One list of fields drives recipe parsing, config.json, --help, the docs and the report.
//
//   struct Config {
//     int64_t hidden_size = 256;
//     void fields(Fields& f) { f("hidden_size", hidden_size, "model width D", at_least(1)); }
//   };
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <variant>

#include "lithe/base/dimension.h"
#include "lithe/base/node.h"

namespace lithe {

/// What a value must satisfy beyond its type. Numbers: min <= v <= max. Strings: one of `choices`.
struct Rule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices;
  bool required = false;
  std::vector<Dimension> sizes = {}, per = {};  // an integer times `per` is times `sizes`; 0: it follows from others
  /// The same rule for an integer that grows with each of the first, and falls with each of the others.
  Rule of(std::vector<Dimension> with, std::vector<Dimension> against = {}) const {
    Rule out = *this;
    out.sizes = std::move(with), out.per = std::move(against);
    return out;
  }
};
inline Rule at_least(double min) { return {.min = min}; }
inline Rule between(double min, double max) { return {.min = min, .max = max}; }
inline Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

/// A part chosen by a recipe: `heads: {type: gqa, num_key_value_heads: 2}` or short `heads: gqa`.
/// `options` holds all keys but `type`; the slot's registry reads them, strictly, when resolving.
struct PartChoice {
  std::string type;
  Node options;
};

/// Makes a PartChoice complete: checks the type against the slot's registry, reads the options, and
/// returns them with every default filled in. The registry installs it (nn/registry.cpp).
using PartResolver = PartChoice (*)(const std::string& slot, const PartChoice& choice, const Mark& where);
void set_part_resolver(PartResolver resolver);
PartResolver part_resolver();

class Fields {
 public:
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*, std::optional<double>*,
                             std::vector<std::string>*, std::vector<int64_t>*, std::vector<double>*>;
  virtual ~Fields() = default;

  /// A value. `help` is one line; units stand in it.
  template <class T>
  void operator()(const char* key, T& value, const char* help, const Rule& rule = {}) {
    field(key, Value(&value), help, rule);
  }
  /// A nested section with its own fields().
  template <class C>
  void section(const char* key, C& config, const char* help) {
    if (enter(key, help)) {
      config.fields(*this);
      leave();
    }
  }
  /// A part of `slot`.
  void part(const char* key, const char* slot, PartChoice& choice, const char* help) {
    part_field(key, slot, choice, help);
  }
  /// A section whose keys are free (names given by the user), kept as a tree.
  void free(const char* key, Node& value, const char* help) { free_field(key, value, help); }

 protected:
  virtual void field(const char* key, Value value, const char* help, const Rule& rule) = 0;
  virtual bool enter(const char* key, const char* help) = 0;
  virtual void leave() = 0;
  virtual void part_field(const char* key, const char* slot, PartChoice& choice, const char* help) = 0;
  virtual void free_field(const char* key, Node& value, const char* help) = 0;
};

using FieldsOf = std::function<void(Fields&)>;

/// Sets values from a map node. Every key must be known, every value of the right type and within its
/// rule; the error names file, line, column, the section, and the nearest valid key. Keys that are
/// absent keep their defaults. `section` is the dotted path that errors show.
void read_fields(const Node& node, const std::string& section, const FieldsOf& fields);

/// The tree of all values, defaults included.
Node write_fields(const FieldsOf& fields);

/// One documented field.
struct FieldDoc {
  std::string path;  // "train.learning_rate"
  std::string type;  // "integer", "number", "text", "true/false", "list of …", "part of slot heads"
  std::string default_value;
  std::string help;
  std::string rule;                             // "at least 1", "one of a, b", or empty
  std::vector<Dimension> sizes = {}, per = {};  // as in the rule
};
std::vector<FieldDoc> describe_fields(const FieldsOf& fields, const std::string& section = "");

/// The nearest of `words` to `word` by edit distance, or empty when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& words);

/// The words with commas between.
std::string join(const std::vector<std::string>& words);

}  // namespace lithe
