// Writes the format of token_store.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/data/token_store.h"

namespace lithe {

class TokenStoreWriter {
 public:
  using Sink = ChecksummedBlocks::Sink;

  /// `info`: fingerprints, vocab_size and specials; the counts begin at what it says (0).
  TokenStoreWriter(StoreInfo info, Sink sink);

  /// Appends a document: its tokens, and its text for the counts of bytes, words and lines.
  void add(std::span<const int32_t> ids, std::string_view text);
  /// Writes offsets and trailer; nothing can be added after it.
  const StoreInfo& finish();

 private:
  StoreInfo info_;
  Sink sink_;
  ChecksummedBlocks blocks_;
  std::vector<uint64_t> offsets_ = {0};
  bool wide_;
};

/// Sets both checksums of bytes that are laid out as a store, so that a fuzzer reaches what stands behind them.
void seal_token_store(std::string& bytes);

}  // namespace lithe
