#include "lithe/base/did_you_mean.h"

#include "lithe/base/fields.h"

namespace lithe {

std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
  if (word.size() > 100 || words.size() > 10000) return "";  // edit distance is quadratic
  const std::string near = nearest(word, words);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

}  // namespace lithe
