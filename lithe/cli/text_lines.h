// Lines of text that a subcommand works on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// The lines of a text, without their ends (LF or CRLF).
std::vector<std::string> lines_of(std::string_view text);

/// The lines of all files (also .gz and .zst), or of standard input when there is no file; line ends are not part of
/// them. Fails on what is no UTF-8 text.
std::vector<std::string> text_lines(const std::vector<std::string>& files);

}  // namespace lithe
