// The page at / of a server: completions and chats in the browser, with the probability of each token, of one model or
// of two beside each other.
#pragma once

#include <string>

namespace lithe {

/// HTML that loads nothing from elsewhere.
const std::string& page();
/// Its script.
const std::string& page_script();

}  // namespace lithe
