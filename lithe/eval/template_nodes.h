// What a template is read into: text, statements and expressions.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lithe/base/json.h"

namespace lithe {

struct TemplateExpression {
  enum class Kind {
    constant,     // value
    name,         // text
    list,         // items
    dictionary,   // items: keys and values in turn
    attribute,    // items[0].text
    item,         // items[0][items[1]]
    slice,        // items[0][items[1]:items[2]:items[3]], null where absent
    call,         // items[0](items[1], ..., names)
    filter,       // items[0] | text(items[1], ..., names)
    test,         // items[0] is text(items[1], ...)
    unary,        // text: "-", "+", "not"
    binary,       // text: an operator
    conditional,  // items[1] if items[0] else items[2], which may be null
  } kind;
  std::string text;
  Json value;
  std::vector<std::shared_ptr<const TemplateExpression>> items;
  std::vector<std::pair<std::string, std::shared_ptr<const TemplateExpression>>> names;  // arguments by name
};
using Expression = std::shared_ptr<const TemplateExpression>;

struct TemplateNode {
  enum class Kind { text, output, branch, loop, set, block } kind;
  std::string text;                     // text; set: an attribute of a namespace
  std::vector<std::string> names;       // loop, set: what gets the values
  std::vector<Expression> expressions;  // output, set: one; branch: a condition for each body but the last; loop: what
                                        // is gone through, and a condition or null
  std::vector<std::shared_ptr<const TemplateNode>> bodies;  // branch: one more, maybe null; loop: two, the second for
                                                            // none; block: all; set: a block in place of a value
};
using Statement = std::shared_ptr<const TemplateNode>;

/// Fails (usage) on what is no template, or not supported.
Statement read_template(const std::string& text, const std::string& place);

/// A value of an expression, or that there is none.
struct TemplateValue {
  Json json;
  bool defined = true;
  std::string name = {};  // of what is not there; empty: of an if without else, which may be written
};
/// A method, a filter or a test; none of this name: fails (usage). The second argument on are `arguments`.
struct TemplateArguments {
  std::vector<Json> values;
  std::vector<std::pair<std::string, Json>> names;
  const std::string* place;
  /// By place, or by name.
  const Json* find(size_t index, const std::string& name) const;
  int64_t integer(size_t index, const std::string& name, int64_t otherwise) const;
  std::string text(size_t index, const std::string& name, const std::string& otherwise) const;
};
Json call_method(const Json& of, const std::string& name, const TemplateArguments& arguments);
Json apply_filter(const std::string& name, const Json& value, const TemplateArguments& arguments);
bool apply_test(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments);
/// What a template may call: filters and tests, known when it is read.
bool is_template_filter(const std::string& name);
bool is_template_test(const std::string& name);
/// obj.name, obj[name]
TemplateValue item_of(const Json& of, const Json& key);
/// The items that a loop goes through.
std::vector<Json> items_of_value(const Json& value, const std::string& place);

}  // namespace lithe
