#include "lithe/text/lsh.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {
namespace {

int32_t fixed_normal(const RandomKey& key, int64_t element) {
  return int32_t(std::lround(random_normal(key, uint64_t(element)) * 65536));
}

constexpr int64_t tile = 2048;               // scores at a time, which stay in the first cache
constexpr int64_t most_product = INT32_MAX;  // of what is added up in 32 bits
constexpr size_t most_kept = 1 << 14;        // rows of hyperplane components

/// score[i] += sum over the n-grams of count * eta[id + i], i = 0..tile-1. Returns the largest of the first n.
[[gnu::always_inline]] inline int32_t add_scores(const int32_t* eta, std::span<const NgramCount> x, int32_t* score,
                                                 int64_t n) {
  size_t k = 0;
  for (; k + 4 <= x.size(); k += 4) {  // four at a time, so that a score is read and written less often
    const int32_t *a = eta + x[k].id, *b = eta + x[k + 1].id, *c = eta + x[k + 2].id, *d = eta + x[k + 3].id;
    if (x[k].count == 1 && x[k + 1].count == 1 && x[k + 2].count == 1 && x[k + 3].count == 1) {
#pragma omp simd
      for (int64_t i = 0; i < tile; ++i) score[i] += a[i] + b[i] + c[i] + d[i];
    } else {
      const int32_t wa = x[k].count, wb = x[k + 1].count, wc = x[k + 2].count, wd = x[k + 3].count;
#pragma omp simd
      for (int64_t i = 0; i < tile; ++i) score[i] += wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];
    }
  }
  for (; k < x.size(); ++k) {
    const int32_t* a = eta + x[k].id;
    const int32_t w = x[k].count;
#pragma omp simd
    for (int64_t i = 0; i < tile; ++i) score[i] += w * a[i];
  }
  int32_t most = std::numeric_limits<int32_t>::min();
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) most = score[i] > most ? score[i] : most;
  return most;
}

using AddScores = int32_t (*)(const int32_t*, std::span<const NgramCount>, int32_t*, int64_t);
int32_t add_scores_portable(const int32_t* eta, std::span<const NgramCount> x, int32_t* score, int64_t n) {
  return add_scores(eta, x, score, n);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] int32_t add_scores_avx2(const int32_t* eta, std::span<const NgramCount> x, int32_t* score,
                                                int64_t n) {
  return add_scores(eta, x, score, n);
}
const AddScores fastest = __builtin_cpu_supports("avx2") ? add_scores_avx2 : add_scores_portable;
#else
const AddScores fastest = add_scores_portable;
#endif

}  // namespace

// spec: hash.lsh_argmax | tokenizer | bucket of the largest product with the shifts of one Gaussian vector | TH 2.3.3
LshArgmax::LshArgmax(uint64_t seed, int64_t features, int64_t buckets) : features_(features), buckets_(buckets) {
  check(buckets >= 1 && buckets <= features, "lsh", "num_buckets must be 1 to ngram_vocab_size ", features,
        ", as each bucket is another shift of a vector of that length; got ", buckets);
  eta_.resize(size_t(2 * features + tile));
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
  for (int64_t first = 1; first <= buckets_; first += tile) {
    int32_t score[tile] = {};
    const int64_t n = std::min(tile, buckets_ - first + 1);
    const int32_t most = fastest(eta_.data() + first, x, score, n);
    if (most > best) best = most, best_shift = first + (std::find(score, score + n, most) - score);
  }
  return best_shift - 1;
}

/// Rows of the most frequent n-grams, drawn when first met: ids are ranks, so a few rows serve most words.
struct LshBits::Kept {
  std::vector<std::vector<int32_t>> rows = std::vector<std::vector<int32_t>>(most_kept);
  std::vector<std::once_flag> drawn = std::vector<std::once_flag>(most_kept);

  const std::vector<int32_t>& row(const LshBits& lsh, int32_t id) {
    std::call_once(drawn[size_t(id)], [&] { rows[size_t(id)] = lsh.components(id); });
    return rows[size_t(id)];
  }
};

LshBits::LshBits(uint64_t seed, int64_t bits) : seed_(seed), bits_(bits), kept_(std::make_shared<Kept>()) {}

std::vector<int32_t> LshBits::components(int32_t id) const {
  const RandomKey key{.seed = seed_, .step = uint64_t(id), .purpose = purpose_of("hash.lsh_bits")};
  std::vector<int32_t> values;
  for (int64_t j = 0; j < bits_; ++j) values.push_back(fixed_normal(key, j));
  return values;
}

// spec: hash.lsh_bits | tokenizer | signs of random projections drawn from a counter by n-gram | TH 2.3.5
void LshBits::hash(std::span<const NgramCount> x, int32_t* payload) const {
  std::vector<int64_t> products(static_cast<size_t>(bits_));
  std::vector<int32_t> drawn;
  for (const NgramCount& c : x) {
    const bool keep = size_t(c.id) < most_kept;
    const std::vector<int32_t>& values = keep ? kept_->row(*this, c.id) : drawn = components(c.id);
    for (size_t j = 0; j < products.size(); ++j) products[j] += int64_t(c.count) * values[j];
  }
  std::fill_n(payload, (bits_ + 31) / 32, 0);
  for (int64_t j = 0; j < bits_; ++j)
    if (products[size_t(j)] >= 0) payload[j / 32] = int32_t(uint32_t(payload[j / 32]) | 1u << (31 - j % 32));
}

}  // namespace lithe
