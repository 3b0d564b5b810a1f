#include "lithe/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

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

// What a token is drawn from: the scores after the penalty, and after that the tokens that top_k and top_p leave.
class Choice {
 public:
  Choice(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config)
      : scores_(penalised(logits, seen, config)), best_(largest(scores_)), temperature_(config.temperature) {
    check(std::isfinite(best_), "generate", "the model's logits are not finite; its weights are damaged or diverged");
    if (greedy(config)) {
      keep_ = 1;
      return;
    }
    ranking_.emplace(scores_);
    keep_ = config.top_k > 0 ? std::min(scores_.size(), size_t(config.top_k)) : scores_.size();
    if (keep_ < scores_.size())
      for (size_t i = 0; i < keep_; ++i) total_ += weight(size_t(token(i)));
    else
      for (size_t id = 0; id < keep_; ++id) total_ += weight(id);
    if (config.top_p < 1) {
      const double enough = config.top_p * total_;
      total_ = 0;
      for (size_t i = 0; i < keep_; ++i)
        if ((total_ += weight(size_t(token(i)))) >= enough) keep_ = i + 1;
    }
    if (config.min_p > 0) {  // the most likely has weight 1
      double rest = 0;
      size_t likely = 0;
      for (; likely < keep_ && weight(size_t(token(likely))) >= config.min_p; ++likely)
        rest += weight(size_t(token(likely)));
      keep_ = std::max<size_t>(likely, 1);
      total_ = std::max(rest, weight(size_t(token(0))));
    }
  }
  static bool greedy(const GenerateConfig& config) { return !config.do_sample || config.temperature == 0; }
  int32_t best() const { return int32_t(std::find(scores_.begin(), scores_.end(), best_) - scores_.begin()); }
  /// Tokens that can be drawn, the likeliest first, and the sum of their weights.
  size_t keep() const { return keep_; }
  int32_t token(size_t rank) { return (*ranking_)[rank]; }
  double total() const { return total_; }
  double weight(size_t id) const { return std::exp((double(scores_[id]) - double(best_)) / temperature_); }

 private:
  std::vector<float> changed_;
  std::span<const float> scores_;
  float best_;
  double temperature_, total_ = 0;
  size_t keep_ = 0;
  std::optional<Ranking> ranking_;

  std::span<const float> penalised(std::span<const float> logits, std::span<const int32_t> seen,
                                   const GenerateConfig& config) {
    check(!logits.empty(), "generate", "no logits");
    if (config.repetition_penalty == 1) return logits;
    changed_.assign(logits.begin(), logits.end());
    std::vector<bool> done(changed_.size());
    for (int32_t id : seen) {
      if (id < 0 || size_t(id) >= changed_.size() || done[size_t(id)]) continue;
      done[size_t(id)] = true;
      float& s = changed_[size_t(id)];
      s = float(s > 0 ? s / config.repetition_penalty : s * config.repetition_penalty);
    }
    return changed_;
  }
};

}  // namespace

// spec: search.greedy | search | the most likely token at each step; sampling with temperature, top-k, top-p, min-p
// | TB Eq 6.49, 6.199
int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     int64_t sequence, int64_t position) {
  Choice choice(logits, seen, config);
  if (Choice::greedy(config)) return choice.best();
  const RandomKey key{.seed = uint64_t(config.seed), .step = uint64_t(position), .purpose = purpose_of("generate")};
  double left = random_uniform(key, uint64_t(sequence)) * choice.total();
  for (size_t i = 0; i < choice.keep(); ++i)
    if ((left -= choice.weight(size_t(choice.token(i)))) < 0) return choice.token(i);
  return choice.token(choice.keep() - 1);
}

TokenDistribution token_distribution(std::span<const float> logits, std::span<const int32_t> seen,
                                     const GenerateConfig& config) {
  Choice choice(logits, seen, config);
  if (Choice::greedy(config)) return {.certain = choice.best(), .probabilities = {}};
  TokenDistribution out{.certain = {}, .probabilities = std::vector<double>(logits.size(), 0)};
  const auto put = [&](size_t id) { out.probabilities[id] = choice.weight(id) / choice.total(); };
  if (choice.keep() == logits.size())
    for (size_t id = 0; id < logits.size(); ++id) put(id);
  else
    for (size_t i = 0; i < choice.keep(); ++i) put(size_t(choice.token(i)));
  return out;
}

}  // namespace lithe
