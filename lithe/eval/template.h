// Templates of the evaluation harness: the part of Jinja that texts of tasks are written in.
#pragma once

#include <memory>

#include "lithe/base/json.h"

namespace lithe {

struct TemplateNode;

/// Texts with {{ expressions }}, {% if %}, {% for %}, {% set %}, {% raw %} and {# comments #}; filters, tests and
/// methods of texts, lists and dictionaries, as jinja2's Environment(undefined=StrictUndefined,
/// keep_trailing_newline=True) has them. What is not there (macros, other templates) is refused by name where the
/// template is read.
class Template {
 public:
  /// `place` stands in errors.
  Template(const std::string& text, std::string place);
  /// With the fields of an object as its names; values are written as Python writes them. Fails on names without a
  /// value.
  std::string render(const Json& fields) const;

 private:
  std::string place_;
  std::shared_ptr<const TemplateNode> body_;
};

}  // namespace lithe
