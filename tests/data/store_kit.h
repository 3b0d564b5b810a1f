// Tokens of documents, and the tokenizer of bytes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lithe/data/token_store.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

using Ids = std::vector<int32_t>;

inline Ids document(const TokenStore& store, int64_t d) {
  Ids ids(size_t(store.document_end(d) - store.document_begin(d)));
  store.copy(store.document_begin(d), int64_t(ids.size()), ids.data());
  return ids;
}

inline std::shared_ptr<const Tokenizer> bytes() {
  static const std::shared_ptr<const Tokenizer> tokenizer = make_byte_tokenizer();
  return tokenizer;
}
constexpr int32_t kEnd = 256;  // of bytes(): bos and eos

}  // namespace lithe
