#include "lithe/infer/drafter.h"

#include <algorithm>

#include "lithe/infer/sampler.h"

namespace lithe {
namespace {

int32_t draw(const std::vector<double>& weights, double share) {
  double left = 0;
  for (double w : weights) left += w;
  left *= share;
  int32_t last = 0;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (weights[id] <= 0) continue;
    last = int32_t(id);
    if ((left -= weights[id]) < 0) break;
  }
  return last;
}

}  // namespace

int32_t draw(const TokenDistribution& from, double share) {
  return from.certain ? *from.certain : draw(from.probabilities, share);
}

int64_t DraftLength::next() {
  if (pause_ == 0) return length_;
  --pause_;
  return 0;
}

void DraftLength::found(int64_t drafted, int64_t taken) {
  constexpr int64_t kLongestPause = 16;
  if (drafted == 0) return;
  length_ = std::min(most_, taken == drafted ? length_ + 2 : taken + 1);
  wrong_ = taken == 0 ? wrong_ + 1 : 0;
  if (wrong_ >= 2) pause_ = wrong_ >= 6 ? kLongestPause : int64_t(1) << (wrong_ - 2);
}

// A token x of q is taken with probability min(1, p(x)/q(x)); in place of one that is not, p is drawn from where it
// exceeds q. Together: exactly p.
Verdict verify(const std::vector<Drafter::Draft>& drafts, const std::vector<TokenDistribution>& target, int64_t seed,
               uint64_t key, int64_t position) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto& [token, q] = drafts[i];
    const TokenDistribution& p = target[i];
    const int64_t at = position + int64_t(i);
    if (uniform_draw(seed, key, at, "speculative.accept") * q.of(token) < p.of(token)) continue;
    if (p.certain) return {i, *p.certain};
    std::vector<double> rest = p.probabilities;
    for (size_t id = 0; id < rest.size(); ++id) rest[id] = std::max(0.0, rest[id] - q.of(int32_t(id)));
    return {i, draw(rest, uniform_draw(seed, key, at, "speculative.rest"))};
  }
  const int64_t at = position + int64_t(drafts.size());
  return {drafts.size(), draw(target[drafts.size()], uniform_draw(seed, key, at, "speculative.next"))};
}

}  // namespace lithe
