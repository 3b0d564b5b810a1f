// Token mixing relaxed to none: a gated MLP, row by row, with the parameters of attention [TH Eq 4.4-4.5].
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {
namespace {

struct MlpConfig {
  std::string match = "qkv";
  bool attention_bias = false, output_bias = false;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    f("match", match,
      "match the parameters of attention: qkv: three d x d maps instead of queries, keys and values; wide: hidden "
      "width 4d/3, without output projection",
      one_of({"qkv", "wide"}));
    f("attention_bias", attention_bias, "biases on the three maps, to match attention with biases on q, k, v");
    f("output_bias", output_bias, "bias on the output projection");
    f.part("output", "output", output, "maps the mixed rows to rows; match wide: none");
  }
};

class Mlp final : public Mixer {
 public:
  Mlp(const Scope& scope, const MlpConfig& config, const Args& args) {
    const int64_t d = args.hidden_size;
    const bool wide = config.match == "wide", bias = config.attention_bias;
    if (wide) {
      check_usage(d % 3 == 0, "mlp", "match wide needs a width 4/3 hidden_size that is whole: hidden_size ", d,
                  " must be a multiple of 3, or use match: qkv");
      check_usage(config.output.type == "none" && !config.output_bias, "mlp",
                  "match wide has no output projection: set output: none and output_bias: false, got output ",
                  config.output.type);
    }
    const Axis rows = Axis::hidden(d), inner = wide ? Axis(4) * Axis::hidden(d / 3) : rows;
    if (wide) scope.couples({Dimension::hidden});  // the inner width is of a third
    gate_ = Linear(scope / "gate", rows, inner, bias);
    up_ = Linear(scope / "up", rows, inner, bias);
    down_ = Linear(scope / "down", inner, rows, bias, wide ? InitRole::residual_output : InitRole::matrix);
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = rows, .hidden_size = d, .bias = config.output_bias});
  }

  Var forward(const SubLayerInput& in) const override {
    if (in.state) static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    return output_->forward(
        gated_linear(kernels::Activation::silu, gate_(in.x), up_(in.x), down_.weight->var(), var_or_none(down_.bias)));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>("mlp", shape, Shape{0});
  }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
  /// Every token takes from itself alone.
  MixerMaps maps(const SubLayerInput& in) const override {
    const int64_t T = in.x.rows();
    const Tensor weights = zeros({T, T}, DType::f32);
    for (int64_t i = 0; i < T; ++i) set_value(weights, i * T + i, 1);
    return {.heads = 1, .weights = weights, .logits = {}};
  }

 private:
  Linear gate_, up_, down_;
  std::unique_ptr<Output> output_;
};

}  // namespace

void register_mixer_mlp(Registry& registry) {
  registry.add<Mixer, Mlp, MlpConfig>("mlp", {.spec = "decon.mlp",
                                              .summary = "no mixing: a gated MLP of each token",
                                              .source = "TH Eq 4.4-4.5; PO",
                                              .per_token = true});
}

}  // namespace lithe
