// Values of JSON as Python writes, reads and compares them.
#pragma once

#include <optional>

#include "lithe/base/json.h"

namespace lithe {

/// str() and repr(): True, None, 0.1, 'text', ['a', 1].
std::string python_text(const Json& value);
std::string python_repr(const Json& value);
/// ast.literal_eval(): texts, numbers, True, False, None, lists, tuples (as lists) and dictionaries. None where the
/// text is something else.
std::optional<Json> python_literal(std::string_view text);
/// ==, for which True is 1 and 1 is 1.0.
bool python_equal(const Json& a, const Json& b);
/// bool()
bool python_truth(const Json& value);
/// Whether and of which size it is an int, as which a bool counts, too.
std::optional<int64_t> python_integer(const Json& value);

/// The characters of a text.
std::vector<std::string> characters_of(std::string_view text);
/// As str.strip(), at the sides that are asked for, of white space or of the characters of `of`.
std::string python_strip(const std::string& text, bool left = true, bool right = true, const std::string* of = nullptr);
/// str.isdigit() for ASCII.
bool is_digits(const std::string& text);

}  // namespace lithe
