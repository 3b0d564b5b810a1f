// Text to words, without a pattern to compile and without a vocabulary.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lithe/text/normalizer.h"

namespace lithe {

/// Runs of letters, numbers and '_', and runs of anything else that is no white space: \w+|[^\w\s]+ as Python's re has
/// it (marks are no \w; U+001C to U+001F are white space). Bytes that are no UTF-8 are of the second kind.
class WordCutter {
 public:
  using Sink = std::function<void(std::span<const std::string_view>)>;

  /// With `lowercase` the text is lowered first, character by character (a final sigma stays a sigma).
  explicit WordCutter(bool lowercase);
  /// Calls sink with the words in order, many at a time; they live until sink returns.
  void words(std::string_view text, const Sink& sink) const;

 private:
  Normalizer normalizer_;
};

}  // namespace lithe
