// What the tests of tokenizers share.
#pragma once

#include <gtest/gtest.h>

#include "lithe/base/random.h"
#include "lithe/text/tokenizer.h"
#include "tests/support/data.h"
#include "tests/support/errors.h"

namespace lithe {

using Ids = std::vector<int32_t>;
using Words = std::vector<std::string>;

/// A file or directory of the test data, or empty when this machine has none.
inline Path data(const std::string& name) { return kit::data_if_any(name); }

inline std::vector<int32_t> iota(int32_t n) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back(i);
  return ids;
}

/// `length` bytes, uniform over those of `alphabet`.
inline std::string random_text(uint64_t seed, size_t length, std::string_view alphabet) {
  std::string out;
  for (size_t i = 0; i < length; ++i)
    out += alphabet[random_below({.seed = seed, .purpose = purpose_of("text")}, i, alphabet.size())];
  return out;
}
inline std::string random_bytes(uint64_t seed, size_t length) {
  std::string all;
  for (int b = 0; b < 256; ++b) all += char(b);
  return random_text(seed, length, all);
}

/// The message of the Error that f throws; fails when it throws none.
template <class F>
std::string error_of(F&& f) {
  const std::string message = kit::error_of(f);
  EXPECT_NE(message, "no error");
  return message;
}

}  // namespace lithe
