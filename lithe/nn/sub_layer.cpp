#include "lithe/nn/sub_layer.h"

#include <cmath>
#include <limits>

#include "lithe/kernels/attention/reference.h"
#include "lithe/ops/token_map.h"

namespace lithe {

void SubLayer::read_source(State& state, const Rows& source) const {
  (void)state, (void)source;
  fail("mixer", "has no cross form");
}

MixerMaps softmax_maps(const Var& q, const Var& k, const AttendOptions& options) {
  AttendOptions scaled = options;
  if (scaled.scale == 0) scaled.scale = 1 / std::sqrt(double(q.cols() / options.heads));
  return softmax_maps(head_products(q.value(), k.value(), options.heads), scaled);
}

namespace {

// In how many rounds a query and a key meet.
int64_t rounds_of(const AttendOptions& o, int64_t head, int64_t i, int64_t j) {
  int64_t out = 0;
  for (const auto& round : o.bias.rounds) {
    const auto* visits = round ? round->visits[size_t(head)].get() : nullptr;
    out += !visits || visits->sees(i, j);
  }
  return out;
}

}  // namespace

MixerMaps softmax_maps(const Tensor& products, const AttendOptions& o) {
  const int64_t tokens = products.cols();
  kernels::AttentionArgs pairs;
  pairs.segments = {{.query_rows = tokens, .key_rows = tokens}};
  pairs.heads = o.heads, pairs.mask = o.mask, pairs.head_masks = o.head_masks, pairs.tiles = o.tiles;
  pairs.bias = o.bias.values();
  const bool multiplies = o.bias.use == LogitBias::Use::multiply, mixes = o.bias.use == LogitBias::Use::mix,
             rounds = o.bias.use == LogitBias::Use::rounds;
  const MixerMaps maps{
      .heads = o.heads, .weights = zeros(products.shape(), DType::f32), .logits = empty(products.shape(), DType::f32)};
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  std::vector<double> row(static_cast<size_t>(tokens));
  for (int64_t n = 0; n < o.heads * tokens; ++n) {
    const int64_t i = n % tokens;
    const kernels::ref::Place place{pairs, 0, n / tokens};
    const auto seen = place.visible(i);
    double most = kHidden, sum = 0;
    for (int64_t j = 0; j < tokens; ++j) {
      const bool shown = j >= seen.begin && j < seen.end && place.sees(i, j);
      double bias = pairs.bias.defined() && !mixes ? place.bias(i, j) : 0;
      if (rounds) bias = std::log(double(rounds_of(o, n / tokens, i, j)));  // of no round: -inf
      const double logit = o.scale * value_at(products, n * tokens + j),
                   capped = o.softcap ? o.softcap * std::tanh(logit / o.softcap) : logit;
      row[size_t(j)] = shown ? capped * place.factor(i, j) + bias : kHidden;
      most = row[size_t(j)] > most || std::isnan(row[size_t(j)]) ? row[size_t(j)] : most;
      set_value(maps.logits, n * tokens + j, row[size_t(j)]);
    }
    if (most == kHidden) continue;
    for (const double logit : row) sum += std::exp(logit - most);
    for (int64_t j = 0; j < tokens; ++j) set_value(maps.weights, n * tokens + j, std::exp(row[size_t(j)] - most) / sum);
    if (!multiplies && !mixes) continue;
    if (multiplies) {
      for (int64_t j = 0; j < tokens; ++j)
        if (const int64_t at = n * tokens + j; row[size_t(j)] != kHidden)
          set_value(maps.weights, at, value_at(maps.weights, at) * place.multiplier(i, j));
      continue;
    }
    const double share = value_at(o.bias.share.value(), i * o.heads + n / tokens);
    double of_prior = 0;
    for (int64_t j = 0; j < tokens; ++j) of_prior += row[size_t(j)] == kHidden ? 0 : std::exp(place.bias(i, j));
    for (int64_t j = 0; j < tokens; ++j) {
      if (row[size_t(j)] == kHidden) continue;
      const double weight = value_at(maps.weights, n * tokens + j), prior = std::exp(place.bias(i, j));
      set_value(maps.weights, n * tokens + j, (1 - share) * weight + share * prior / of_prior);
    }
  }
  return maps;
}

}  // namespace lithe
