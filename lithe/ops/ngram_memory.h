// What memories of n-grams need beside tables: rows of tables by hashed n-grams, and the gate that decides what is
// read.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// Multiplicative hashes of n-grams [Engram, 2601.07372]. The n-gram of order o that ends at token t is h_o = XOR over
/// k < o of id(t - k) multipliers[k], and head j of that order reads row h_o mod primes[(o - 2) heads + j] of a table
/// of its own. Multipliers are odd and below 2^32, so that no product leaves 63 bits.
struct NgramHashes {
  int64_t max_size = 3, heads = 8;       // orders 2 to max_size, and hashes of each
  std::vector<int64_t> multipliers;      // [max_size]
  std::vector<int64_t> primes;           // [(max_size - 1) heads], all different
  std::vector<int64_t> folded_ids = {};  // what each id counts as; none: itself
  int64_t none = 0;                      // what stands where a text has no token yet

  /// Multipliers drawn by `seed` (SplitMix64) unless given, and the primes from `buckets` on. Fails (usage) on numbers
  /// of the wrong size or count.
  struct Choice {
    int64_t seed = 0, max_size = 3, heads = 8, buckets = 1000;
    std::vector<int64_t> multipliers = {}, folded_ids = {};
  };
  static NgramHashes of(const Choice& choice);
  int64_t tables() const { return (max_size - 1) * heads; }
  int64_t rows() const;  // of all tables
};

/// Rows of the tables, one under the other, that the n-grams which end at each token hash to: i32 [N * tables()].
/// `recent` i32 [N, max_size]: a token and those before it, -1 where there is none. Fails on an id beyond folded_ids.
Tensor ngram_memory_rows(const Tensor& recent, const NgramHashes& hashes);

/// The bucket of the group of `size` tokens that ends at each token [BLT, 2412.09871]: sum of t_i a^i over its tokens,
/// the oldest first, modulo 2^64 and then, as a signed number, modulo `buckets` (never negative); a is the prime number
/// `function`, and tokens before the text count as 0. i32 [N]; `recent` i32 [N, at least size].
Tensor rolling_hash_ids(const Tensor& recent, int64_t size, int64_t function, int64_t buckets);
/// Primes that rolling_hash_ids has.
int64_t rolling_hash_functions();

/// y[n] = sigmoid(sign(s) sqrt(|s|)) value[n] with s = key[n] . query[n] / sqrt(C), |s| at least 1e-6: all [N, C].
/// `gates`, optional, receives the factors, f32 [N].
Var memory_gate(const Var& key, const Var& query, const Var& value, Tensor* gates = nullptr);

}  // namespace lithe
