#include "lithe/text/unigram_lattice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr double unreached = -std::numeric_limits<double>::infinity();

/// An index with probability ~ exp(weights); `uniform` in [0, 1).
size_t choose(const std::vector<double>& weights, double uniform) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (const double w : weights) total += std::exp(w - most);
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == unreached) continue;
    last = i;  // rounding may leave a crumb of `uniform` at the end
    uniform -= std::exp(weights[i] - most) / total;
    if (uniform < 0) break;
  }
  return last;
}

double log_sum_exp(const std::vector<double>& terms) {
  const double most = terms.empty() ? unreached : *std::max_element(terms.begin(), terms.end());
  if (most == unreached) return unreached;
  double total = 0;
  for (const double term : terms) total += std::exp(term - most);
  return most + std::log(total);
}

}  // namespace

UnigramLattice::UnigramLattice(uint32_t length, std::vector<Arc> arcs)
    : length_(length), arcs_(std::move(arcs)), first_(size_t(length) + 2), reached_(size_t(length) + 1) {
  for (const Arc& arc : arcs_) {
    check(arc.begin < arc.end && arc.end <= length, "unigram_lattice", "an arc from ", arc.begin, " to ", arc.end,
          " does not lie in a text of ", length, " bytes");
    ++first_[arc.end + 1];
  }
  for (size_t at = 1; at < first_.size(); ++at) first_[at] += first_[at - 1];
  reached_[0] = true;
  for (const Arc& arc : arcs_)
    if (reached_[arc.begin]) reached_[arc.end] = true;
}

// spec: tok.sampling | tokenizer | unigram lattice ~ P^alpha, n-best, length prior; BPE-dropout | TB 6.4.8
std::vector<UnigramLattice::Arc> UnigramLattice::draw(const SegmentationSampling& how, const RandomKey& key) const {
  check(connected(), "unigram_lattice", "no path of pieces reaches the end of the text");
  if (how.alpha && how.candidates == 0) return draw_from_all(*how.alpha, how.length_penalty, key);

  const auto paths = best_paths(size_t(std::max<int64_t>(1, how.candidates)), how.length_penalty);
  size_t rank = 0;
  if (how.alpha) {
    std::vector<double> weights;
    for (const Path& path : paths[length_]) weights.push_back(*how.alpha * path.score);
    rank = choose(weights, random_uniform(key, 0));
  }
  std::vector<Arc> out;
  for (uint32_t at = length_; at > 0;) {
    const Path& path = paths[at][rank];
    out.push_back(arcs_[path.arc]);
    at = out.back().begin;
    rank = path.rank;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<UnigramLattice::Arc> UnigramLattice::draw_from_all(double alpha, double length_penalty,
                                                               const RandomKey& key) const {
  // mass[i] = log of the summed weights of all paths to byte i
  std::vector<double> mass(size_t(length_) + 1, unreached), terms;
  mass[0] = 0;
  const auto terms_at = [&](uint32_t end) {
    terms.clear();
    for (uint32_t a = first_[end]; a < first_[end + 1]; ++a)
      terms.push_back(mass[arcs_[a].begin] + alpha * (arcs_[a].log_probability - length_penalty));
  };
  for (uint32_t end = 1; end <= length_; ++end) {
    terms_at(end);
    mass[end] = log_sum_exp(terms);
  }
  std::vector<Arc> out;
  for (uint32_t at = length_; at > 0; at = out.back().begin) {
    terms_at(at);
    out.push_back(arcs_[first_[at] + choose(terms, random_uniform(key, out.size()))]);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::vector<UnigramLattice::Path>> UnigramLattice::best_paths(size_t count, double length_penalty) const {
  std::vector<std::vector<Path>> paths(size_t(length_) + 1);
  paths[0] = {{}};
  for (uint32_t end = 1; end <= length_; ++end) {
    std::vector<Path>& here = paths[end];
    for (uint32_t a = first_[end]; a < first_[end + 1]; ++a) {
      const auto& before = paths[arcs_[a].begin];
      for (uint32_t rank = 0; rank < before.size(); ++rank)
        here.push_back({before[rank].score + arcs_[a].log_probability - length_penalty, a, rank});
    }
    std::stable_sort(here.begin(), here.end(), [](const Path& a, const Path& b) { return a.score > b.score; });
    if (here.size() > count) here.resize(count);
  }
  return paths;
}

}  // namespace lithe
