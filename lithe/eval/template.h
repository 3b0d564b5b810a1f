// Templates of the evaluation harness: the part of Jinja that texts of tasks are written in.
#pragma once

#include <memory>

#include "lithe/base/json.h"

namespace lithe {

struct TemplateNode;

/// Of the harness: jinja2's Environment(undefined=StrictUndefined, keep_trailing_newline=True). Of chats, as
/// transformers renders them: trim_blocks and lstrip_blocks, names without a value are false and empty, and
/// raise_exception() and strftime_now() may be called.
enum class TemplateDialect { harness, chat };

/// Texts with {{ expressions }}, {% if %}, {% for %}, {% set %}, {% raw %} and {# comments #}; filters, tests and
/// methods of texts, lists and dictionaries, as jinja2 has them. What is not there (macros, other templates) is refused
/// by name where the template is read.
class Template {
 public:
  /// `place` stands in errors.
  Template(const std::string& text, std::string place, TemplateDialect dialect = TemplateDialect::harness);
  /// With the fields of an object as its names; values are written as Python writes them. Fails on names without a
  /// value (harness), and where the template raises an exception (chat).
  std::string render(const Json& fields) const;

 private:
  std::string place_;
  TemplateDialect dialect_;
  std::shared_ptr<const TemplateNode> body_;
};

}  // namespace lithe
