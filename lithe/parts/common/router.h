// Which experts read which token: the common ground of the ffn parts moe and moe_linear.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/ops/experts.h"
#include "lithe/parallel/operations.h"

namespace lithe {

struct RouterConfig {
  int64_t num_experts = 8, num_experts_per_tok = 2;
  bool norm_topk_prob = true;
  double router_aux_loss_coef = 0;
  void fields(Fields& f) {
    f("num_experts", num_experts, "number of experts M", between(1, 4096).of({Dimension::experts}));
    f("num_experts_per_tok", num_experts_per_tok, "top-k: experts per token; 0: all", at_least(0));
    f("norm_topk_prob", norm_topk_prob,
      "router weights are a softmax over the chosen experts only; false: over all experts, so that those of the chosen "
      "ones sum to less than 1");
    f("router_aux_loss_coef", router_aux_loss_coef,
      "weight of the load-balancing loss M sum_i f_i P_i (f_i: share of all assignments that go to expert i, P_i: its "
      "mean router weight); 0.01 is common",
      at_least(0));
  }
};

class Router {
 public:
  Router(const Scope& scope, const RouterConfig& config, int64_t hidden_size)
      : experts_(config.num_experts),
        chosen_(config.num_experts_per_tok ? config.num_experts_per_tok : config.num_experts),
        renormalise_(config.norm_topk_prob),
        aux_(config.router_aux_loss_coef),
        weight_(scope.parameter("weight", {Axis::hidden(hidden_size), Axis::experts(config.num_experts)},
                                InitRole::matrix)) {
    scope.couples({Dimension::experts});
    check_usage(chosen_ <= experts_, "moe", "num_experts_per_tok is ", chosen_, ", but there are ", experts_,
                " experts; give at most that many, or 0 for all");
    check_usage(chosen_ > 1 || experts_ == 1 || !renormalise_ || aux_ > 0, "moe",
                "the weight of one expert among itself is always 1, so the router would learn nothing; set "
                "norm_topk_prob: false");
  }
  int64_t experts() const { return experts_; }

  struct Routed {
    Routing routing;
    Var gates;  // [rows, 1]
  };
  Routed operator()(const SubLayerInput& in) const { return (*this)(in, in.x, {}); }
  /// Of rows x that are divided among ranks: each has a part of the gradient, and the first alone that of the loss.
  Routed operator()(const SubLayerInput& in, const Var& x, const Group& ranks) const {
    const Var logits = router_logits(x, divide_work(weight_->var(), ranks));
    Routed out{route(logits.value(), chosen_), {}};
    out.gates = expert_gates(logits, out.routing, renormalise_);
    if (in.pass.wants_statistics() && !logits.value().is_meta() && out.routing.tokens > 0) show(in, logits, out);
    if (aux_ > 0 && training())
      in.pass.add_loss("router_balance", balance_loss(ranks.first() ? logits : Var(logits.value()), out.routing, aux_));
    return out;
  }

 private:
  int64_t experts_, chosen_;
  bool renormalise_;
  double aux_;
  Parameter* weight_;

  static void show(const SubLayerInput& in, const Var& logits, const Routed& routed) {
    const RouterStatistics seen = router_statistics(logits.value(), routed.routing);
    in.pass.add_statistic("expert_load", seen.load, double(routed.routing.tokens));
    in.pass.add_statistic("router_entropy", {seen.entropy}, double(routed.routing.tokens));
  }
};

/// One map an expert, "<scope>.<expert>.<name>", of experts [first, end).
inline std::vector<Linear> expert_maps(const Scope& scope, const char* name, int64_t first, int64_t end, const Axis& in,
                                       const Axis& out, bool bias, InitRole role) {
  std::vector<Linear> maps;
  for (int64_t i = first; i < end; ++i) maps.emplace_back(scope / std::to_string(i) / name, in, out, bias, role);
  return maps;
}
inline std::vector<LinearMap> vars_of(const std::vector<Linear>& maps) {
  std::vector<LinearMap> out;
  for (const Linear& map : maps) out.push_back({map.weight->var(), var_or_none(map.bias)});
  return out;
}

}  // namespace lithe
