// What errors add when a name is misspelt.
#pragma once

#include <string>
#include <vector>

namespace lithe {

/// "; did you mean 'x'?", or empty when none of `words` is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& words);

}  // namespace lithe
