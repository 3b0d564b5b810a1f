// JSON with keys in order of insertion. Include from .cpp files only: the header is heavy.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lithe {

using Json = nlohmann::ordered_json;

/// What becomes of text that is no UTF-8: an error, or U+FFFD.
enum class Invalid { refused, replaced };
/// As text, on lines indented by `indent`, or on one (-1). In place of the member function, which every file that calls
/// it would compile anew.
std::string dump(const Json& value, int indent = -1, Invalid invalid = Invalid::refused);
std::string dump(const nlohmann::json& value, int indent = -1, Invalid invalid = Invalid::refused);

/// JSON has no word for infinity and nan: null stands for them.
Json finite_or_null(double value);
double number_or_nan(const Json& value);

/// Parses JSON text; `origin` (a path) stands in the error. Strict: no comments, no trailing bytes, no
/// repeated keys, nesting at most 256 deep.
Json parse_json(std::string_view text, std::string_view origin);

/// The same with keys sorted, for objects of any number of keys: Json finds a key by looking at all before it, so that
/// parse_json() refuses an object of more than 5,000. Of repeated keys it takes the last, or refuses them (`unique`).
nlohmann::json parse_json_sorted(std::string_view text, std::string_view origin, bool unique = false);

}  // namespace lithe
