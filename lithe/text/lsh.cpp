#include "lithe/text/lsh.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {
namespace {

int32_t fixed_normal(const RandomKey& key, int64_t element) {
  return int32_t(std::lround(random_normal(key, uint64_t(element)) * 65536));
}

using Lanes = int32_t __attribute__((vector_size(16)));
constexpr int64_t lanes = 4, held = 8;       // held vectors of scores stay in registers over all n-grams of the word
constexpr int64_t block = lanes * held;      // scores
constexpr int64_t most_product = INT32_MAX;  // of what is added up in 32 bits

}  // namespace

// spec: hash.lsh_argmax | tokenizer | bucket of the largest product with the shifts of one Gaussian vector | TH 2.3.3
LshArgmax::LshArgmax(uint64_t seed, int64_t features, int64_t buckets) : features_(features), buckets_(buckets) {
  check(buckets >= 1 && buckets <= features, "lsh", "num_buckets must be 1 to ngram_vocab_size ", features,
        ", as each bucket is another shift of a vector of that length; got ", buckets);
  eta_.resize(size_t(2 * features + block));
  for (int64_t c = 0; c < features; ++c) {
    const int32_t value = fixed_normal({.seed = seed, .purpose = purpose_of("hash.lsh_argmax")}, c);
    eta_[size_t(c)] = eta_[size_t(features + c)] = value;
    largest_ = std::max(largest_, std::abs(value));
  }
}

int64_t LshArgmax::bucket(std::span<const NgramCount> x) const {
  int64_t total = 0;
  for (const NgramCount& c : x) total += std::abs(int64_t(c.count));
  int64_t best = std::numeric_limits<int64_t>::min(), best_shift = 0;
  if (total * largest_ > most_product) {  // a word of more than 2000 n-grams: plainly, in 64 bits
    for (int64_t i = 1; i <= buckets_; ++i) {
      int64_t score = 0;
      for (const NgramCount& c : x) score += int64_t(c.count) * eta_[size_t(c.id + i)];
      if (score > best) best = score, best_shift = i;
    }
    return best_shift - 1;
  }
  for (int64_t first = 1; first <= buckets_; first += block) {
    Lanes score[held] = {};
    for (const NgramCount& c : x) {
      const int32_t* eta = eta_.data() + c.id + first;
      for (int64_t v = 0; v < held; ++v) {
        Lanes values;
        std::memcpy(&values, eta + v * lanes, sizeof values);
        score[v] += c.count == 1 ? values : values * c.count;
      }
    }
    Lanes most = score[0];
    for (int64_t v = 1; v < held; ++v) most = score[v] > most ? score[v] : most;
    if (std::max({most[0], most[1], most[2], most[3]}) <= best) continue;
    for (int64_t k = 0; k < std::min(block, buckets_ - first + 1); ++k)
      if (score[k / lanes][k % lanes] > best) best = score[k / lanes][k % lanes], best_shift = first + k;
  }
  return best_shift - 1;
}

std::vector<int32_t> LshBits::components(int32_t id) const {
  const RandomKey key{.seed = seed_, .step = uint64_t(id), .purpose = purpose_of("hash.lsh_bits")};
  std::vector<int32_t> values;
  for (int64_t j = 0; j < bits_; ++j) values.push_back(fixed_normal(key, j));
  return values;
}

// spec: hash.lsh_bits | tokenizer | signs of random projections drawn from a counter by n-gram | TH 2.3.5
void LshBits::hash(std::span<const NgramCount> x, int32_t* payload) const {
  std::vector<int64_t> products(static_cast<size_t>(bits_));
  for (const NgramCount& c : x) {
    const auto values = components(c.id);
    for (size_t j = 0; j < products.size(); ++j) products[j] += int64_t(c.count) * values[j];
  }
  std::fill_n(payload, (bits_ + 31) / 32, 0);
  for (int64_t j = 0; j < bits_; ++j)
    if (products[size_t(j)] >= 0) payload[j / 32] = int32_t(uint32_t(payload[j / 32]) | 1u << (31 - j % 32));
}

}  // namespace lithe
