#include "lithe/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"

namespace lithe {

namespace {

// The largest score; NaN when there is a NaN.
float largest(std::span<const float> scores) {
  constexpr size_t kLanes = 16;  // comparisons that do not wait for each other
  float best[kLanes];
  std::fill(best, best + kLanes, scores[0]);
  bool numbers = true;
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) {
      const float s = scores[i + j];
      numbers &= s == s;
      best[j] = s > best[j] ? s : best[j];
    }
  for (; i < scores.size(); ++i) {
    numbers &= scores[i] == scores[i];
    best[0] = std::max(best[0], scores[i]);
  }
  return numbers ? *std::max_element(best, best + kLanes) : NAN;
}

// Tokens from the most likely on, the lower id on ties; sorted as far as they are asked for.
class Ranking {
 public:
  explicit Ranking(std::span<const float> scores) : scores_(scores), order_(scores.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  int32_t operator[](size_t rank) {
    if (rank >= sorted_) {
      const size_t end = std::min(order_.size(), std::max<size_t>(rank + 1, std::max<size_t>(64, 8 * sorted_)));
      const auto before = [this](int32_t a, int32_t b) {
        return scores_[size_t(a)] != scores_[size_t(b)] ? scores_[size_t(a)] > scores_[size_t(b)] : a < b;
      };
      std::partial_sort(order_.begin() + long(sorted_), order_.begin() + long(end), order_.end(), before);
      sorted_ = end;
    }
    return order_[rank];
  }

 private:
  std::span<const float> scores_;
  std::vector<int32_t> order_;
  size_t sorted_ = 0;
};

}  // namespace

// spec: search.greedy | search | the most likely token at each step; sampling with temperature, top-k, top-p, min-p
// | TB Eq 6.49, 6.199
int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     int64_t sequence, int64_t position) {
  check(!logits.empty(), "generate", "no logits");
  std::vector<float> changed;
  if (config.repetition_penalty != 1) {
    changed.assign(logits.begin(), logits.end());
    std::vector<bool> done(changed.size());
    for (int32_t id : seen) {
      if (id < 0 || size_t(id) >= changed.size() || done[size_t(id)]) continue;
      done[size_t(id)] = true;
      float& s = changed[size_t(id)];
      s = float(s > 0 ? s / config.repetition_penalty : s * config.repetition_penalty);
    }
  }
  const std::span<const float> scores = changed.empty() ? logits : changed;
  const float best = largest(scores);
  check(std::isfinite(best), "generate", "the model's logits are not finite; its weights are damaged or diverged");
  if (!config.do_sample || config.temperature == 0)
    return int32_t(std::find(scores.begin(), scores.end(), best) - scores.begin());

  const auto weight = [&](size_t id) { return std::exp((double(scores[id]) - double(best)) / config.temperature); };
  Ranking ranking(scores);
  size_t keep = config.top_k > 0 ? std::min(scores.size(), size_t(config.top_k)) : scores.size();
  double total = 0;
  if (keep < scores.size())
    for (size_t i = 0; i < keep; ++i) total += weight(size_t(ranking[i]));
  else
    for (size_t id = 0; id < keep; ++id) total += weight(id);
  if (config.top_p < 1) {
    const double enough = config.top_p * total;
    total = 0;
    for (size_t i = 0; i < keep; ++i)
      if ((total += weight(size_t(ranking[i]))) >= enough) keep = i + 1;
  }
  if (config.min_p > 0) {  // the most likely has weight 1
    double rest = 0;
    size_t likely = 0;
    for (; likely < keep && weight(size_t(ranking[likely])) >= config.min_p; ++likely)
      rest += weight(size_t(ranking[likely]));
    keep = std::max<size_t>(likely, 1);
    total = std::max(rest, weight(size_t(ranking[0])));
  }
  const RandomKey key{.seed = uint64_t(config.seed), .step = uint64_t(position), .purpose = purpose_of("generate")};
  double left = random_uniform(key, uint64_t(sequence)) * total;
  for (size_t i = 0; i < keep; ++i)
    if ((left -= weight(size_t(ranking[i]))) < 0) return ranking[i];
  return ranking[keep - 1];
}

}  // namespace lithe
