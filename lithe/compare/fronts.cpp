#include "lithe/compare/fronts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "lithe/base/error.h"
#include "lithe/compare/page_parts.h"

namespace lithe::compare {
namespace {

using report::Quantity;

// Where all are timed alike: the longest prompt that no variant refuses, with the fewest texts at once.
std::optional<size_t> common_cell(const Comparison& c) {
  const Speed& s = c.speed;
  std::optional<size_t> at;
  for (size_t k = 0; k < s.cells.size(); ++k) {
    bool refused = false;
    for (size_t v = 0; v < c.variants.size(); ++v) refused |= !s.costs[v][k].refused.empty();
    if (refused) continue;
    if (!at || std::pair(-s.cells[k].prompt, s.cells[k].batch) < std::pair(-s.cells[*at].prompt, s.cells[*at].batch))
      at = k;
  }
  return at;
}

}  // namespace

std::vector<Front> fronts_of(const Comparison& c) {
  std::vector<Front> out;
  const auto add = [&](std::string cost, Quantity quantity, auto&& of) {
    Front front{std::move(cost), quantity, {}, {}};
    for (size_t v = 0; v < c.variants.size(); ++v) front.costs.push_back(of(v));
    if (std::adjacent_find(front.costs.begin(), front.costs.end(), [](double a, double b) {
          return a != b && !(std::isnan(a) && std::isnan(b));
        }) == front.costs.end())
      return;
    const double sign = better_of(c.experiment.score) == Better::higher ? -1 : 1;
    const auto bad = [&](size_t v) { return sign * c.variants[v].score; };
    for (size_t v = 0; v < c.variants.size(); ++v) {
      if (!std::isfinite(bad(v)) || !std::isfinite(front.costs[v])) continue;
      const auto beats = [&](size_t o) {
        return o != v && front.costs[o] <= front.costs[v] && bad(o) <= bad(v) &&
               (front.costs[o] < front.costs[v] || bad(o) < bad(v));
      };
      bool beaten = false;
      for (size_t o = 0; o < c.variants.size() && !beaten; ++o) beaten = beats(o);
      if (!beaten) front.members.push_back(v);
    }
    std::sort(front.members.begin(), front.members.end(), [&](size_t a, size_t b) {
      return std::tuple(front.costs[a], bad(a), a) < std::tuple(front.costs[b], bad(b), b);
    });
    if (!front.members.empty()) out.push_back(std::move(front));
  };
  add("parameters", Quantity::count, [&](size_t v) { return double(c.variants[v].variant.plan.parameters); });
  add("bytes of the decode state" + state_place(c), Quantity::bytes, [&](size_t v) {
    return c.variants[v].cache_bytes.empty() ? std::nan("") : c.variants[v].cache_bytes[kStateShown];
  });
  add("memory of training", Quantity::bytes, [&](size_t v) { return peak_of(c.variants[v]); });
  if (!c.speed.measured()) return out;
  add("time of training", Quantity::seconds, [&](size_t v) { return training_seconds(c, v); });
  const std::optional<size_t> cell = common_cell(c);
  if (!cell) return out;
  const auto seconds = [&](const char* what) {
    return [&c, what, k = *cell](size_t v) {
      return c.speed.spread(v, what, int64_t(k)).median / double(c.speed.cells[k].batch);
    };
  };
  add("time of a decoded token", Quantity::seconds, seconds("decode"));
  add("time of reading a prompt", Quantity::seconds, seconds("prefill"));
  return out;
}

std::vector<size_t> shown_in_lines(const Comparison& c) {
  std::set<size_t> out{c.baseline};
  if (!is_crowded(c))
    for (size_t v = 0; v < c.variants.size(); ++v) out.insert(v);
  else
    for (const Front& front : fronts_of(c)) out.insert(front.members.begin(), front.members.end());
  return {out.begin(), out.end()};
}

}  // namespace lithe::compare
