#include "lithe/serve/answer_format.h"

#include "lithe/infer/json_grammar.h"

namespace lithe {
namespace {

// {"name": ..., "description": ..., "strict": ..., "schema": ...}
const Json& schema_of(const Json& format) {
  const auto wrapper = format.find("json_schema");
  check_usage(wrapper != format.end() && wrapper->is_object(), "request",
              "'response_format' of type json_schema needs 'json_schema': {\"name\": ..., \"schema\": {...}}");
  for (const auto& [key, value] : wrapper->items())
    check_usage(key == "name" || key == "description" || key == "strict" || key == "schema", "request",
                "'json_schema' has the unknown key '", key, "'");
  check_usage(wrapper->contains("schema"), "request", "'json_schema' has no 'schema'");
  return (*wrapper)["schema"];
}

}  // namespace

std::shared_ptr<GrammarMasks> answer_format(const Json* format, const Json* grammar, const ServedModel& model) {
  if (grammar) {
    check_usage(!format || *format == Json{{"type", "text"}}, "request",
                "'grammar' and 'response_format' exclude each other");
    check_usage(grammar->is_string(), "request", "'grammar' must be a text, in GBNF");
    const std::string source = grammar->get<std::string>();
    return model.masks("grammar " + source, [&] { return parse_gbnf(source); });
  }
  if (!format) return nullptr;
  check_usage(format->is_object() && format->contains("type") && (*format)["type"].is_string(), "request",
              "'response_format' must be an object with a 'type'");
  const std::string type = (*format)["type"].get<std::string>();
  check_usage(type == "text" || type == "json_object" || type == "json_schema", "request",
              "'response_format' has the type '", type, "'; known are text, json_object, json_schema");
  for (const auto& [key, value] : format->items())
    check_usage(key == "type" || (key == "json_schema" && type == key), "request",
                "'response_format' has the unknown key '", key, "'");
  if (type == "text") return nullptr;
  if (type == "json_object") return model.masks("json_object", [] { return json_object_grammar(); });
  const Json& schema = schema_of(*format);
  return model.masks("json_schema " + dump(schema), [&] { return json_schema_grammar(schema); });
}

}  // namespace lithe
