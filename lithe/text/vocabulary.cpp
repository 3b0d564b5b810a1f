#include "lithe/text/vocabulary.h"

#include "lithe/base/error.h"

namespace lithe {

void Vocabulary::add(const std::string& token, int64_t id) {
  check(id >= 0 && id < limit_, "tokenizer", origin_, ": id ", id, " of token '", token,
        "' must be at least 0 and below ", limit_, " (8 times the entries, and 65536)");
  if (const int32_t* known = ids_.find(token)) {
    check(*known == id, "tokenizer", origin_, ": token '", token, "' has two ids, ", *known, " and ", id);
    return;
  }
  if (id >= size()) {
    tokens_.resize(size_t(id) + 1);
    present_.resize(size_t(id) + 1);
  }
  check(!present_[size_t(id)], "tokenizer", origin_, ": id ", id, " has two tokens, '", tokens_[size_t(id)], "' and '",
        token, "'");
  tokens_[size_t(id)] = token;
  present_[size_t(id)] = true;
  ids_.insert(token) = int32_t(id);
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (const int32_t* id = ids_.find(token)) return *id;
  return {};
}

const std::string& Vocabulary::token(int32_t id) const {
  check(id >= 0 && id < size(), "tokenizer", "id ", id, " is outside the vocabulary of ", size());
  return tokens_[size_t(id)];
}

}  // namespace lithe
