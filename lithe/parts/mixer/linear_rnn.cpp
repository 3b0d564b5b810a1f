// Linear chains, channel by channel: z_i = a z_{i-1} + b s_i [TB Eq 6.154], or with gates of each token in place of a
// and b, as in quasi-recurrent networks [Bradbury et al. 2017; Lei et al. 2018].
#include "lithe/nn/registry.h"
#include "lithe/ops/diagonal_recurrence.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {
namespace {

struct LinearRnnConfig {
  std::string gate = "none";
  bool per_channel = true, output_gate = false, projections = false;
  double decay_init = 0.95;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("gate", gate,
      "none: a and b are learned numbers; forget: a = sigmoid(x W + c), b = 1 - a, for each token and channel",
      one_of({"none", "forget"}));
    f("per_channel", per_channel, "gate none: a and b for each channel; false: one a and one b for all");
    f("decay_init", decay_init, "initial a; b is initially 1 - a", between(0, 1 - 1e-6));
    f("projections", projections, "input s = tanh(x W_s); false: s = x");
    f("output_gate", output_gate, "multiply the results by sigmoid(x W_o + c)");
    f.part("output", "output", output, "maps the states to rows");
  }
};

class LinearRnn final : public Mixer {
 public:
  LinearRnn(const Scope& scope, const LinearRnnConfig& config, const Args& args)
      : width_(args.hidden_size), causal_(args.causal) {
    const Axis d = Axis::hidden(width_), numbers = config.per_channel ? d : Axis(1);
    if (config.projections) values_ = Linear(scope / "values", d, d, false);
    if (config.gate == "forget") {
      forget_ = Linear(scope / "forget", d, d, true);
      start_with(forget_.bias, logit_of(std::max(config.decay_init, 1e-6)));
    } else {
      a_ = scope.parameter("a", {numbers}, InitRole::ones);
      b_ = scope.parameter("b", {numbers}, InitRole::ones);
      start_with(a_, config.decay_init);
      start_with(b_, 1 - config.decay_init);
    }
    if (config.output_gate) gate_ = Linear(scope / "gate", d, d, true);
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = d, .hidden_size = width_, .bias = false});
  }

  Var forward(const SubLayerInput& in) const override {
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    Var s = values_.weight ? activate(kernels::Activation::tanh, values_(in.x)) : in.x, a, b;
    if (forget_.weight) {
      const Var z = forget_(in.x);
      a = pointwise(kernels::Pointwise::sigmoid, z, true);
      s = mul(s, pointwise(kernels::Pointwise::sigmoid, scale(z, -1)));
    } else {
      a = of_channels(a_), b = of_channels(b_);
    }
    if (!causal_) s = half_turned(s, in.sequences);
    if (!causal_ && forget_.weight) a = half_turned(a, in.sequences);
    Var y = diagonal_recurrence(s, a, b, in.sequences, false, states);
    if (!causal_) y = half_turned(y, in.sequences);
    if (gate_.weight) y = mul(y, pointwise(kernels::Pointwise::sigmoid, gate_(in.x)));
    return output_->forward(y);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>("linear_rnn", shape, Shape{width_}, true);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * width_ * size_of(wide_of(dtype));
  }

 private:
  int64_t width_;
  bool causal_;
  Linear values_, forget_, gate_;
  Parameter *a_ = nullptr, *b_ = nullptr;
  std::unique_ptr<Output> output_;

  Var of_channels(const Parameter* p) const {
    const Var x = p->var();
    if (x.value().numel() == width_) return x;
    return reshape(row_affine(Var(filled({1, width_}, 1, x.dtype(), x.device())), x, {}), {width_});
  }
};

}  // namespace

void register_mixer_linear_rnn(Registry& registry) {
  registry.add<Mixer, LinearRnn, LinearRnnConfig>(
      "linear_rnn",
      {.spec = "rnn.linear",
       .summary = "a linear recurrence z_i = a z_(i-1) + b s_i of each channel, with learned factors or gates",
       .source = "TB Eq 6.154; Bradbury et al. 2017 (QRNN)",
       .samples = {"{per_channel: false}", "{gate: forget, projections: true, output_gate: true, output: dense}"}});
}

}  // namespace lithe
