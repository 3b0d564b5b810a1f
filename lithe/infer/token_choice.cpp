#include "lithe/infer/token_choice.h"

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

}  // namespace

std::span<float> TokenChoice::scores() {
  check(keep_ == scores_.size(), "generate", "scores change after tokens were left out by them; change them before");
  best_.reset();
  total_.reset();
  sorted_ = 0;
  order_.clear();
  return scores_;
}

void TokenChoice::limit(int64_t tokens) {
  if (certain_) return;
  check(tokens >= 1 && size_t(tokens) <= scores_.size(), "generate", "the choice is limited to ", tokens,
        " tokens, the model has ", scores_.size());
  scores_ = scores().first(size_t(tokens));
  keep_ = scores_.size();
}

void TokenChoice::forbid(int32_t token) {
  const std::span<float> all = scores();
  if (token >= 0 && size_t(token) < all.size()) all[size_t(token)] = -INFINITY;
}

float TokenChoice::best() {
  if (best_) return *best_;
  check(!scores_.empty(), "generate", "no logits");
  best_ = largest(scores_);
  check(*best_ != -INFINITY, "generate", "no token is left to choose from: each has probability 0");
  check(std::isfinite(*best_), "generate", "the model's logits are not finite; its weights are damaged or diverged");
  return *best_;
}

int32_t TokenChoice::ranked(size_t rank) {
  best();  // there is an order only among numbers
  if (order_.empty()) {
    order_.resize(scores_.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
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

double TokenChoice::weight(size_t id) { return std::exp((double(scores_[id]) - double(best())) / temperature_); }

double TokenChoice::total() {
  if (total_) return *total_;
  double sum = 0;
  if (keep_ < scores_.size())
    for (size_t i = 0; i < keep_; ++i) sum += weight(size_t(ranked(i)));
  else
    for (size_t id = 0; id < keep_; ++id) sum += weight(id);
  total_ = sum;
  return sum;
}

void TokenChoice::sample(double temperature) {
  check(temperature > 0, "generate", "a draw needs a temperature above 0, got ", temperature);
  temperature_ = temperature;
}

void TokenChoice::keep_likeliest(int64_t tokens) {
  if (certain_ || !temperature_ || size_t(tokens) >= keep_) return;
  best();
  keep_ = size_t(std::max<int64_t>(tokens, 1));
  total_.reset();
}

void TokenChoice::keep_share(double share) {
  if (certain_ || !temperature_) return;
  const double enough = share * total();
  double sum = 0;
  for (size_t i = 0; i < keep_; ++i)
    if ((sum += weight(size_t(ranked(i)))) >= enough) keep_ = i + 1;
  total_ = sum;
}

void TokenChoice::keep_above(double share) {
  if (certain_ || !temperature_) return;
  double rest = 0;
  size_t likely = 0;  // the most likely has weight 1
  for (; likely < keep_ && weight(size_t(ranked(likely))) >= share; ++likely) rest += weight(size_t(ranked(likely)));
  keep_ = std::max<size_t>(likely, 1);
  total_ = std::max(rest, weight(size_t(ranked(0))));
}

// spec: search.greedy | search | the most likely token at each step; sampling with temperature, top-k, top-p, min-p
// | TB Eq 6.49, 6.199
int32_t TokenChoice::choose(double uniform) {
  if (certain_) return *certain_;
  const float most = best();
  if (!temperature_) return int32_t(std::find(scores_.begin(), scores_.end(), most) - scores_.begin());
  double left = uniform * total();
  size_t last = 0;  // of those that can be drawn: rounding may leave a rest behind all of them
  for (size_t i = 0; i < keep_; ++i) {
    const double w = weight(size_t(ranked(i)));
    if (w > 0) last = i;
    if ((left -= w) < 0) break;
  }
  return ranked(last);
}

TokenDistribution TokenChoice::distribution() {
  if (certain_ || !temperature_) return {.certain = choose(0), .probabilities = {}};
  TokenDistribution out{.certain = {}, .probabilities = std::vector<double>(scores_.size(), 0)};
  const auto put = [&](size_t id) { out.probabilities[id] = weight(id) / total(); };
  if (keep_ == scores_.size())
    for (size_t id = 0; id < keep_; ++id) put(id);
  else
    for (size_t i = 0; i < keep_; ++i) put(size_t(ranked(i)));
  return out;
}

}  // namespace lithe
