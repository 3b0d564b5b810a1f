// Expressions written for Oniguruma, as PCRE2 reads them.
#pragma once

#include <string>
#include <string_view>

namespace lithe {

/// An expression for PCRE2 that matches what `expression` matches in Oniguruma with Unicode 16: \s, \w, \b, the names
/// of
/// [:brackets:] and of scripts have its meaning, and properties have the characters that an older PCRE2 does not know.
/// Fails, with `origin` in the error, on what is not carried over: sets within sets and their intersections, \h, verbs.
std::string pcre_expression(std::string_view expression, std::string_view origin);

}  // namespace lithe
