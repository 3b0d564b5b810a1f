// Cutting text where its script changes.
#pragma once

#include <string_view>
#include <vector>

namespace lithe {

/// The runs of one script in `text`, valid UTF-8, as the step UnicodeScripts of Hugging Face has them: spaces and
/// characters newer than Unicode 9 go with what stands before them; those before the first script are dropped. Japanese
/// and Chinese are one script; punctuation and digits are one, too (Common).
void cut_by_script(std::string_view text, std::vector<std::string_view>& out);

}  // namespace lithe
