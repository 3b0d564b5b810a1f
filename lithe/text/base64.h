#pragma once

#include <string>
#include <string_view>

namespace lithe {

std::string to_base64(std::string_view bytes);
/// Empty when `text` is no base64 of anything.
std::string from_base64(std::string_view text);

}  // namespace lithe
