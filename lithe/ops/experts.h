// Mixtures of experts: who reads which row, products of rows in groups, and putting the results together.
#pragma once

#include <vector>

#include "lithe/ops/linear.h"

namespace lithe {

/// Which expert reads which token: row r of [tokens * chosen] is of one token and one expert; rows stand by expert,
/// then by token.
struct Routing {
  int64_t tokens = 0, experts = 0, chosen = 0;
  std::vector<int64_t> offsets;  // [experts + 1]: where the rows of an expert begin
  std::vector<int64_t> token;    // [rows]
  std::vector<int64_t> expert;   // [rows]
  std::vector<int64_t> row;      // [tokens * chosen]: of token n's j-th choice, at n * chosen + j, largest logit first
};

/// x [N,D] w [D,M] in f32 (f64 for f64), also of bf16 rows, so that ties are rare.
Var router_logits(const Var& x, const Var& w);

/// Every token's experts of the `chosen` largest logits [N,M]; of equal ones the lower. Not differentiated. On the meta
/// device tokens are dealt out evenly.
Routing route(const Tensor& logits, int64_t chosen);

/// Weights [rows, 1] of a routing: the softmax over all logits, or with `renormalise` over the chosen ones.
Var expert_gates(const Var& logits, const Routing& routing, bool renormalise);

/// factor * M sum_i f_i P_i, [1]: f_i the share of the N chosen reads that are expert i's (a constant), P_i the mean of
/// its softmax [Fedus et al. 2022]. Its least value, factor, is that of even loads.
Var balance_loss(const Var& logits, const Routing& routing, double factor);

/// What a router did: the share of the N chosen reads that each expert has (they add up to 1), and the entropy in nats
/// of the softmax over all logits, the mean of the tokens: ln M where it cannot tell experts apart, 0 where it is sure.
struct RouterStatistics {
  std::vector<double> load;
  double entropy = 0;
};
RouterStatistics router_statistics(const Tensor& logits, const Routing& routing);

/// linear() of the rows of each group by its map; all maps have biases or none. See kernels::grouped_gemm.
Var grouped_linear(const Var& x, const std::vector<LinearMap>& maps, const std::vector<int64_t>& offsets);
/// grouped_linear(activate(kind, x)), keeping only x; or, `up` being defined, of gated(kind, x, up).
Var grouped_activated_linear(kernels::Activation kind, const Var& x, const Var& up, const std::vector<LinearMap>& maps,
                             const std::vector<int64_t>& offsets);

/// Sums of gated rows: out[n] = sum_j gates[r] y[r], r = picks[j][n]; negative: nothing. owner[r] is the n that picks
/// r, each row once. gates [R,1], or undefined: 1. y [R,C] -> [picks[0].size(), C].
Var combine_rows(const Var& y, const Var& gates, const std::vector<std::vector<int64_t>>& picks,
                 const std::vector<int64_t>& owner);

}  // namespace lithe
