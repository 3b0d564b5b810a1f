// Whole files of text, for what is read line by line and held in memory.
#pragma once

#include <string>
#include <string_view>

#include "lithe/base/files.h"

namespace lithe {

/// The text of a file (also .gz and .zst) without its byte order mark. Fails on NUL and above 4 GiB; UTF-8 is judged by
/// refuse_invalid_utf8. Errors begin with `operation`.
std::string read_text(const Path& path, std::string_view operation);

/// Fails, naming line and byte, when the text of the file `name` is not valid UTF-8.
void refuse_invalid_utf8(std::string_view text, const std::string& name, std::string_view operation);

}  // namespace lithe
