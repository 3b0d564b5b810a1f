// N-grams of the tokens of packed sequences as ids: what tables of n-gram rows are read by.
#pragma once

#include "lithe/tensor/tensor.h"

namespace lithe {

/// Bits of h in another order, so that near numbers are far: SplitMix64 after its constant was added (Steele et al.
/// 2014).
uint64_t split_mix(uint64_t h);

/// Tokens i32 [N]. An n-gram lies within one text: a sequence, or with `segments` (i32 [N]; undefined: none) the tokens
/// of a sequence that stand together and are of one segment. `positions` i32 [N] are 0 where a sequence begins;
/// undefined: all tokens are of one.
struct NgramTokens {
  Tensor ids, positions, segments;
};

/// The bucket of the n-gram of `order` tokens that ends at each token, -1 where fewer tokens of its text have been: i32
/// [N]. Of order 1 to 8 over tokens t_1..t_n: h = n, then h = split_mix(h xor t_i) for each, modulo `buckets`. Equal on
/// all machines: trained tables depend on it.
Tensor ngram_ids(const NgramTokens& tokens, int64_t order, int64_t buckets);

/// The segment of each token that ends an n-gram which another segment of its sequence has, too; -1 elsewhere: i32 [N].
/// Without segments all are -1. N-grams are compared by their 64 bits of hash.
Tensor shared_ngrams(const NgramTokens& tokens, int64_t order);

/// What a linear model of n-grams reads: the bucket of the n-gram that ends at each token, of the segment that it is
/// of, where that segment of its sequence has it for the first time; -1 elsewhere: i32 [N]. `shared`: only of n-grams
/// that another segment has, too, whatever their own, once a sequence. Buckets are hashed as by ngram_ids, the segment
/// last.
Tensor distinct_ngrams(const NgramTokens& tokens, int64_t order, int64_t buckets, bool shared = false);

/// Tokens i32 [N] as they are; of codes i32 [N, w] the hash of each.
Tensor hashed_tokens(const Tensor& tokens);

}  // namespace lithe
