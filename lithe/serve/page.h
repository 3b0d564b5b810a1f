// The page at / of a server: completions and chats in the browser, with the probability of each token.
#pragma once

#include <string>

namespace lithe {

/// HTML that loads nothing from elsewhere.
const std::string& page();

}  // namespace lithe
