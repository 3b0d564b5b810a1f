#include "lithe/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {

namespace {

constexpr int64_t kMostNewTokens = int64_t(1) << 30;

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

void GenerateConfig::fields(Fields& f) {
  f("prompt", prompt, "text to continue; also what samples during training start from");
  f("max_new_tokens", max_new_tokens, "tokens to add at most", between(1, kMostNewTokens));
  f("do_sample", do_sample, "draw from the distribution; false: always the most likely token");
  f("temperature", temperature, "logits are divided by this; below 1 is bolder towards likely tokens, 0 is greedy",
    at_least(0));
  f("top_k", top_k, "draw from the k most likely tokens only; 0: all", at_least(0));
  f("top_p", top_p, "draw from the smallest set of tokens with at least this probability", between(0, 1));
  f("repetition_penalty", repetition_penalty, "above 1 makes tokens that stand in the text less likely",
    at_least(1e-3));
  f("stop", stop, "generation ends before any of these strings");
  f("seed", seed, "of the draws", at_least(0));
  f("batch_size", batch_size, "prompts that are continued at once", at_least(1));
  f("use_cache", use_cache,
    "keep the decode state; false recomputes the whole text for every token (slow, for checks)");
  f("cache_dtype", cache_dtype,
    "type of the keys and values that are kept: f32, bf16, or int8 with a scale per token and head; empty: that of "
    "the rows",
    one_of({"", "f32", "bf16", "int8"}));
  f("cache_tokens", cache_tokens,
    "tokens that prompts under way may keep at most, prompt and continuation counted in full; others wait; 0: no limit",
    at_least(0));
  f("prefill_tokens", prefill_tokens, "tokens of new prompts that join one step of those under way", at_least(1));
}

std::optional<DType> GenerateConfig::cache_type() const { return cache_type_named(cache_dtype); }

void GenerateConfig::validate() const {
  for (const std::string& s : stop) check_usage(!s.empty(), "generate", "a stop string is empty");
  check_usage(std::isfinite(temperature) && temperature >= 0, "generate", "temperature must be at least 0, got ",
              temperature);
  check_usage(top_p > 0 && top_p <= 1, "generate", "top_p must be above 0 and at most 1, got ", top_p);
  check_usage(std::isfinite(repetition_penalty) && repetition_penalty > 0, "generate",
              "repetition_penalty must be above 0, got ", repetition_penalty);
  check_usage(max_new_tokens >= 1 && max_new_tokens <= kMostNewTokens, "generate",
              "max_new_tokens must be between 1 and ", kMostNewTokens, ", got ", max_new_tokens);
  check_usage(batch_size >= 1 && top_k >= 0, "generate", "batch_size must be at least 1, top_k at least 0");
  check_usage(cache_tokens >= 0 && prefill_tokens >= 1, "generate",
              "cache_tokens must be at least 0, prefill_tokens at least 1");
  check_usage(use_cache || (cache_dtype.empty() && cache_tokens == 0), "generate",
              "cache_dtype and cache_tokens say how to keep the decode state, use_cache false not to; give only one");
}

// spec: search.greedy | search | the most likely token at each step; sampling with temperature, top-k, top-p | TB
// Eq 6.49, 6.199
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
  const RandomKey key{.seed = uint64_t(config.seed), .step = uint64_t(position), .purpose = purpose_of("generate")};
  double left = random_uniform(key, uint64_t(sequence)) * total;
  for (size_t i = 0; i < keep; ++i)
    if ((left -= weight(size_t(ranking[i]))) < 0) return ranking[i];
  return ranking[keep - 1];
}

}  // namespace lithe
