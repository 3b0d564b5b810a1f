// A feed-forward layer whose first map is split into experts by columns: a token computes the blocks that the router
// chooses, and the others are zero [TB Eq 6.116-6.117, E23].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/router.h"

namespace lithe {
namespace {

struct MoeLinearConfig : RouterConfig {
  int64_t intermediate_size = 0;
  std::string merge = "concat";
  bool weight_by_gate = true, bias = true;
  void fields(Fields& f) {
    RouterConfig::fields(f);
    f("intermediate_size", intermediate_size, "hidden width d_ff of all experts together; 0: 4 hidden_size",
      at_least(0).of({Dimension::experts, Dimension::ffn}));
    f("merge", merge, "concat: results of the experts side by side, d_ff wide; sum: their sum, d_ff / M wide",
      one_of({"concat", "sum"}));
    f("weight_by_gate", weight_by_gate, "multiply the results of the experts by the router's weights");
    f("bias", bias, "biases on both maps");
  }
};

class SplitLinear final : public Ffn {
 public:
  SplitLinear(const Scope& scope, const MoeLinearConfig& config, const Args& args)
      : router_(scope / "router", config, args.hidden_size),
        concat_(config.merge == "concat"),
        weigh_(config.weight_by_gate) {
    const int64_t d = args.hidden_size, M = config.num_experts,
                  d_ff = config.intermediate_size ? config.intermediate_size : 4 * d;
    check_usage(d_ff % M == 0, "moe_linear", "the hidden width ", d_ff, " does not split into ", M,
                " experts; change intermediate_size or num_experts");
    const Axis rows = Axis::hidden(d), block = Axis::ffn(d_ff / M), width = concat_ ? Axis::experts(M) * block : block;
    width_ = width.size();
    up_ = expert_maps(scope / "experts", "up", 0, M, rows, block, false, InitRole::matrix);
    if (config.bias) up_bias_ = (scope / "up").parameter("bias", {width}, InitRole::zeros);
    down_ = Linear(scope / "down", width, rows, config.bias, InitRole::residual_output);
  }

  Var forward(const SubLayerInput& in) const override {
    const auto [routing, gates] = router_(in);
    const int64_t N = routing.tokens, M = routing.experts, k = routing.chosen;
    const Var y = grouped_linear(pick_rows(in.x, routing.token), vars_of(up_), routing.offsets);
    // concat: block i of token n is row n M + i of [N M, width / M].
    std::vector<std::vector<int64_t>> picks(size_t(concat_ ? 1 : k),
                                            std::vector<int64_t>(size_t(concat_ ? N * M : N), -1));
    std::vector<int64_t> owner(routing.token);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t j = 0; j < k; ++j) {
        const int64_t r = routing.row[size_t(n * k + j)], block = n * M + routing.expert[size_t(r)];
        picks[concat_ ? 0 : size_t(j)][size_t(concat_ ? block : n)] = r;
        if (concat_) owner[size_t(r)] = block;
      }
    const Var hidden = reshape(combine_rows(y, weigh_ ? gates : Var(), picks, owner), {N, width_});
    return activated_linear(kernels::Activation::relu, hidden, var_or_none(up_bias_), down_.weight->var(),
                            var_or_none(down_.bias));
  }

 private:
  Router router_;
  bool concat_, weigh_;
  int64_t width_ = 0;
  std::vector<Linear> up_;
  Parameter* up_bias_ = nullptr;
  Linear down_;
};

}  // namespace

void register_ffn_moe_linear(Registry& registry) {
  registry.add<Ffn, SplitLinear, MoeLinearConfig>(
      "moe_linear",
      {.spec = "moe.split_linear",
       .summary = "the columns of the first map are divided into experts, of which each token computes a few",
       .source = "TB Eq 6.116-6.117, E23",
       .samples = {"{num_experts: 4, merge: sum}",
                   "{num_experts: 4, weight_by_gate: false, router_aux_loss_coef: 0.2, bias: false}"}});
}

}  // namespace lithe
