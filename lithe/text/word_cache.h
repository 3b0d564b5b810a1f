// Tokens of pieces of text, many at a time, by threads that remember the words they have seen.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "lithe/text/word_model.h"

namespace lithe {

class WordCache;

/// Caches that threads borrow and return, so that they stay warm between calls. Thread-safe.
class WordEncoder {
 public:
  WordEncoder();
  ~WordEncoder();
  /// Appends what `model` gives for each piece, in order; always the same model.
  void encode(const WordModel& model, std::span<const std::string_view> pieces, std::vector<int32_t>& ids) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> free_;

  std::unique_ptr<WordCache> borrow() const;
  void give_back(std::unique_ptr<WordCache> cache) const;
};

}  // namespace lithe
