// Locality-sensitive hashes of sparse counts by random projections: like words get like codes.
//
// Projections are rounded to multiples of 2^-16 and added as integers, so that a hash is the same bits on every
// machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lithe/text/ngrams.h"

namespace lithe {

/// bucket(x) = argmax_{i=1..N} x . r^i, less 1; r^i_c = eta[(c + i) mod features], eta one Gaussian vector. Of equal
/// products the smallest i.
class LshArgmax {
 public:
  /// `buckets` N must be at most `features`: further shifts would repeat.
  LshArgmax(uint64_t seed, int64_t features, int64_t buckets);
  int64_t buckets() const { return buckets_; }
  /// In [0, N). Takes O(N nnz); ids are below `features`.
  int64_t bucket(std::span<const NgramCount> x) const;
  /// eta in units of 2^-16, [features].
  std::span<const int32_t> eta() const { return {eta_.data(), size_t(features_)}; }

 private:
  int64_t features_, buckets_;
  std::vector<int32_t> eta_;  // twice, so that no index wraps, and some zeros
  int32_t largest_ = 0;       // |eta|
};

/// Bit j is 1 iff x . r^j >= 0, j = 0..bits-1. Component c of all r^j is drawn from (seed, c) when needed; nothing is
/// stored in a file, and in memory what was drawn for the 16384 smallest c is kept. Thread-safe.
class LshBits {
 public:
  LshBits(uint64_t seed, int64_t bits);
  /// Writes ceil(bits / 32) ints as code_bit() of token_code.h reads them.
  void hash(std::span<const NgramCount> x, int32_t* payload) const;
  /// Component `id` of every hyperplane in units of 2^-16, [bits].
  std::vector<int32_t> components(int32_t id) const;

 private:
  struct Kept;
  uint64_t seed_;
  int64_t bits_;
  std::shared_ptr<Kept> kept_;
};

}  // namespace lithe
