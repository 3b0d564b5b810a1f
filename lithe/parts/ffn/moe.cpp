// Mixture of experts: y = sum over the chosen experts of g_i(x) FFN_i(x), plus shared experts that read every token.
// Rows are sorted by expert, and each expert takes its rows in one product: none is dropped or padded, and a token's
// result does not depend on the others [TB Eq 6.113-6.115, 6.118; Shazeer et al. 2017, Dai et al. 2024].
//
// spec: moe.ffn | ffn | FFN experts, the chosen ones of each token | TB Eq 6.118
// spec: moe.dense | ffn | every expert reads every token (num_experts_per_tok: 0) | TB Eq 6.113-6.114
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/operations.h"
#include "lithe/parts/common/router.h"

namespace lithe {
namespace {

struct MoeConfig : RouterConfig {
  int64_t moe_intermediate_size = 0, num_shared_experts = 0;
  std::string activation = "relu";
  bool bias = true;
  void fields(Fields& f) {
    RouterConfig::fields(f);
    f("moe_intermediate_size", moe_intermediate_size, "hidden width d_e per expert; 0: 4 hidden_size",
      at_least(0).of({Dimension::ffn}));
    f("num_shared_experts", num_shared_experts,
      "shared experts (same width), which read every token without a router weight", at_least(0));
    f("activation", activation, "relu, gelu: two maps; swiglu: SiLU(x W_g) * x W_u, then a third map",
      one_of({"relu", "gelu", "swiglu"}));
    f("bias", bias, "biases on all maps of the experts");
  }
};

class MixtureOfExperts final : public Ffn {
 public:
  MixtureOfExperts(const Scope& scope, const MoeConfig& config, const Args& args)
      : router_(scope / "router", config, args.hidden_size),
        kind_(config.activation == "swiglu" ? kernels::Activation::silu
              : config.activation == "gelu" ? kernels::Activation::gelu
                                            : kernels::Activation::relu) {
    const Axis d = Axis::hidden(args.hidden_size),
               width = Axis::ffn(config.moe_intermediate_size ? config.moe_intermediate_size : 4 * args.hidden_size);
    const auto experts = [&](const Scope& at, int64_t first, int64_t end, const Axis& d_e) {
      Experts out;
      if (config.activation == "swiglu")
        out.gate = expert_maps(at, "gate", first, end, d, d_e, config.bias, InitRole::matrix);
      out.up = expert_maps(at, "up", first, end, d, d_e, config.bias, InitRole::matrix);
      out.down = expert_maps(at, "down", first, end, d_e, d, config.bias, InitRole::residual_output);
      return out;
    };
    if (const Layout* layout = Layout::current()) ranks_ = layout->expert();
    first_ = config.num_experts * ranks_.rank / ranks_.size;
    end_ = config.num_experts * (ranks_.rank + 1) / ranks_.size;
    experts_ = experts(scope / "experts", first_, end_, width);
    if (config.num_shared_experts)
      shared_ = experts(scope / "shared_experts", 0, 1, Axis(config.num_shared_experts) * width);
  }

  Var forward(const SubLayerInput& in) const override {
    const Var x = divide_work(in.x, ranks_);
    const auto [routing, gates] = router_(in, x, ranks_);
    const int64_t begin = routing.offsets[size_t(first_)],
                  end = routing.offsets[size_t(end_)];  // rows of these experts
    std::vector<std::vector<int64_t>> picks(static_cast<size_t>(routing.chosen));
    for (int64_t n = 0; n < routing.tokens; ++n)
      for (int64_t j = 0; j < routing.chosen; ++j)
        picks[size_t(j)].push_back(here(routing.row[size_t(n * routing.chosen + j)], begin, end));
    std::vector<int64_t> offsets;
    for (int64_t e = first_; e <= end_; ++e) offsets.push_back(routing.offsets[size_t(e)] - begin);
    const std::vector<int64_t> token(routing.token.begin() + begin, routing.token.begin() + end);
    const Var y = apply(experts_, pick_rows(x, token), offsets);
    const bool all = begin == 0 && end == gates.rows();
    const Var mixed = all_reduce(combine_rows(y, all ? gates : slice_rows(gates, begin, end), picks, token), ranks_);
    return shared_.up.empty() ? mixed : add(mixed, apply(shared_, in.x, {0, in.x.rows()}));
  }

 private:
  struct Experts {
    std::vector<Linear> gate, up, down;
  };
  Router router_;
  kernels::Activation kind_;
  Experts experts_, shared_;
  Group ranks_;                  // that share the experts,
  int64_t first_ = 0, end_ = 0;  // of which this one has these

  static int64_t here(int64_t row, int64_t begin, int64_t end) { return row >= begin && row < end ? row - begin : -1; }

  Var apply(const Experts& experts, const Var& x, const std::vector<int64_t>& offsets) const {
    const Var up = grouped_linear(x, vars_of(experts.up), offsets);
    if (experts.gate.empty()) return grouped_activated_linear(kind_, up, {}, vars_of(experts.down), offsets);
    const Var gate = grouped_linear(x, vars_of(experts.gate), offsets);
    return grouped_activated_linear(kind_, gate, up, vars_of(experts.down), offsets);
  }
};

}  // namespace

void register_ffn_moe(Registry& registry) {
  registry.add<Ffn, MixtureOfExperts, MoeConfig>(
      "moe", {.spec = "moe.ffn",
              .summary = "mixture of experts: the router sends each token to a few experts",
              .source = "TB Eq 6.113-6.115, 6.118",
              .samples = {"{num_experts: 3, num_experts_per_tok: 0, router_aux_loss_coef: 0.3}",
                          "{num_experts: 4, moe_intermediate_size: 5, num_shared_experts: 1, activation: swiglu, bias: "
                          "false, norm_topk_prob: false}"}});
}

}  // namespace lithe
