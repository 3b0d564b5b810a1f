// Token stores: a corpus tokenized once, in a checksummed file that is memory-mapped.
//
// Layout, little endian: "LITHETOK", u32 version, u32 bytes per token (2 or 4; 4w for codes of w ints) | tokens, zeros
// up to a multiple of 8 | u64 offsets[documents + 1] | a trailer with StoreInfo, the checksum of all before it, and its
// own checksum. The counts stand at the end so that a corpus of any size is written in one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lithe/base/held_bytes.h"

namespace lithe {

class Corpus;
class Tokenizer;

/// What a store says about itself.
struct StoreInfo {
  uint64_t tokenizer_fingerprint = 0;
  uint64_t corpus_fingerprint = 0;
  int64_t vocab_size = 0;
  int64_t token_width = 1;               // ints of a token: 1 an id, more a code (Tokenizer::width)
  std::optional<int32_t> begin_of_text;  // stands before each document: the tokenizer's bos, else its eos
  std::optional<int32_t> end_of_text;    // stands after each document: the tokenizer's eos
  int64_t documents = 0;
  int64_t tokens = 0;  // of the text alone, without the two above
  int64_t bytes = 0;   // of text
  int64_t words = 0;   // separated by ASCII white space, as `wc -w` counts
  int64_t lines = 0;   // line ends, as `wc -l` counts
};

/// The documents of a corpus as tokens, without specials. Cheap to copy; reading is thread-safe.
class TokenStore {
 public:
  TokenStore() = default;  // no documents

  /// Maps and verifies a file. Fails when it is no store, truncated, or damaged anywhere.
  static TokenStore open(const Path& path);
  /// The same from memory; `origin` stands in errors.
  static TokenStore from_bytes(std::string bytes, const std::string& origin = "memory");
  /// A store in memory from documents given as ids (each 0 <= id < info.vocab_size) or codes. Counts in `info` but
  /// bytes, words and lines are filled in.
  static TokenStore from_documents(const std::vector<std::vector<int32_t>>& documents, StoreInfo info);

  const StoreInfo& info() const { return info_; }
  int64_t documents() const { return info_.documents; }
  int64_t tokens() const { return info_.tokens; }
  int64_t token_width() const { return info_.token_width; }
  std::optional<int32_t> begin_of_text() const { return info_.begin_of_text; }
  std::optional<int32_t> end_of_text() const { return info_.end_of_text; }
  /// Checksum of tokens and documents: differs when the data differ.
  uint64_t fingerprint() const { return fingerprint_; }

  /// Document d is the tokens [document_begin(d), document_end(d)).
  int64_t document_begin(int64_t d) const { return int64_t(offsets_[d]); }
  int64_t document_end(int64_t d) const { return int64_t(offsets_[d + 1]); }
  /// Copies tokens [first, first + count) to out: token_width ints each.
  void copy(int64_t first, int64_t count, int32_t* out) const;

 private:
  std::shared_ptr<const HeldBytes> bytes_;
  StoreInfo info_;
  uint64_t fingerprint_ = 0;
  const uint64_t* offsets_ = nullptr;
  const void* ids_ = nullptr;
  bool wide_ = false;  // ids are uint32, else uint16

  static TokenStore parse(std::shared_ptr<const HeldBytes> bytes, const std::string& origin);
};

/// The corpus as tokens of `tokenizer`: from `<cache_directory>/<fingerprints>.tokens` when that file is there and
/// sound, else tokenized now (documents in parallel) and kept there. A damaged file is reported with a warning and
/// rebuilt. Several processes may do this at once. Fails when asked to stop by a signal; the cache is then as it was.
TokenStore load_tokens(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory);

/// Tokenizes the documents whose number leaves `index` when it is divided by `of` into a file beside the one above,
/// unless one of both is there. Where load_tokens() finds all `of` such files it joins them, to the bytes that it would
/// have written without, and removes them.
void tokenize_share(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory, int index, int of);

/// Path of the file above.
Path token_store_path(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory);

/// The corpus as tokens in memory, without a cache.
TokenStore tokenize_in_memory(const Corpus& corpus, const Tokenizer& tokenizer);

}  // namespace lithe
