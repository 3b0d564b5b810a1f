// Writes the format of token_store.h.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/data/token_store.h"

namespace lithe {

class TokenStoreWriter {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  /// `info`: fingerprints, vocab_size and specials; the counts begin at what it says (0).
  TokenStoreWriter(StoreInfo info, Sink sink);

  /// Appends a document: its tokens, and its text for the counts of bytes, words and lines.
  void add(std::span<const int32_t> ids, std::string_view text);
  /// Writes offsets and trailer; nothing can be added after it.
  const StoreInfo& finish();

 private:
  StoreInfo info_;
  Sink sink_;
  std::string block_;  // not yet summed and written
  std::vector<uint64_t> offsets_ = {0};
  uint64_t sum_ = 0;
  bool wide_;

  void put(const void* bytes, size_t count);
  void flush();
};

/// Sets both checksums of bytes that are laid out as a store, so that a fuzzer reaches what stands behind them.
void seal_token_store(std::string& bytes);

}  // namespace lithe
