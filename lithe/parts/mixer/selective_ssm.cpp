// A selective state space: what a token writes, what it reads and how long its step is depend on the token [Gu and Dao
// 2023], with one rate a head so that the state is a matrix [Dao and Gu 2024]. A short convolution comes first, a gate
// last.
#include "lithe/ops/norm.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/recurrence_mixer.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {
namespace {

struct SelectiveSsmConfig {
  int64_t num_heads = 8, expand = 2, state_size = 16, kernel_size = 4;
  double min_step = 0.001, max_step = 0.1;
  bool output_norm = true;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    f("num_heads", num_heads, "heads, each with its own decay rate and step size",
      at_least(1).of({Dimension::key_heads}));
    f("expand", expand, "inner width as a multiple of hidden_size",
      at_least(1).of({Dimension::key_heads, Dimension::head_width}, {Dimension::hidden}));
    f("state_size", state_size, "size of the state per inner channel", at_least(1).of({Dimension::state}));
    f("kernel_size", kernel_size, "kernel size of the causal convolution before the SSM; 1: only a scale per channel",
      at_least(1).of({Dimension::taps}));
    f("min_step", min_step, "smallest initial step size; initial steps are log-uniform between min_step and max_step",
      between(1e-6, 10));
    f("max_step", max_step, "largest initial step size", between(1e-6, 10));
    f("output_norm", output_norm, "RMS norm of the gated results, with a learned scale");
    f.part("output", "output", output, "maps the inner channels to rows");
  }
};

class SelectiveSsm final : public Mixer {
 public:
  SelectiveSsm(const Scope& scope, const SelectiveSsmConfig& config, const Args& args)
      : heads_(config.num_heads),
        inner_(config.expand * args.hidden_size),
        state_size_(config.state_size),
        causal_(args.causal),
        along_("selective_ssm", config.kernel_size, inner_, true) {
    const int64_t d = args.hidden_size;
    check_halves("selective_ssm", "num_heads", heads_, causal_);
    check_usage(inner_ % heads_ == 0, "selective_ssm", "expand times hidden_size, ", inner_,
                ", must be a multiple of num_heads ", heads_);
    check_usage(config.min_step <= config.max_step, "selective_ssm", "min_step ", config.min_step,
                " is larger than max_step ", config.max_step);
    const Axis rows = Axis::hidden(d), heads = Axis::key_heads(heads_),
               inner = Axis::key_heads(heads_, inner_ / heads_), kept = Axis::state(state_size_);
    values_ = Linear(scope / "values", rows, inner, false);
    gate_ = Linear(scope / "gate", rows, inner, false);
    taps_ = make_taps(scope / "convolution", config.kernel_size, inner);
    bias_ = (scope / "convolution").parameter("bias", {inner}, InitRole::zeros);
    write_ = Linear(scope / "write", inner, kept, false);
    read_ = Linear(scope / "read", inner, kept, false);
    step_ = Linear(scope / "step", inner, heads, true);
    rate_ = scope.parameter("log_rate", {heads}, InitRole::zeros);
    skip_ = scope.parameter("skip", {inner}, InitRole::ones);
    if (config.output_norm) {
      norm_ = (scope / "norm").parameter("weight", {inner}, InitRole::ones);
      scope.couples({Dimension::key_heads, Dimension::head_width});
    }
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = inner, .hidden_size = d, .bias = false});
    const Tensor &rates = rate_->master.value(), &steps = step_.bias->master.value();
    const RandomKey key{.seed = scope.context().seed, .purpose = purpose_of(scope.path() + ".step")};
    for (int64_t i = 0; i < heads_ && !rates.is_meta(); ++i) {
      set_value(rates, i, std::log(1 + 15 * double(i) / double(heads_)));
      const double D = config.min_step * std::pow(config.max_step / config.min_step, random_uniform(key, uint64_t(i)));
      set_value(steps, i, std::log(std::expm1(D)));  // of which the softplus is D
    }
  }

  Var forward(const SubLayerInput& in) const override {
    JointState* state = static_cast<JointState*>(in.state);
    std::vector<Tensor> states;
    if (state) states = static_cast<RecurrentState&>((*state)[1]).advance(in.sequences);
    const auto turned = [&](const Var& rows) { return causal_ ? rows : half_turned(rows, in.sequences); };
    const Var convolved =
        turned(along_(turned(values_(in.x)), wide_taps(taps_), in.sequences, state ? &(*state)[0] : nullptr));
    const Var x = activate(kernels::Activation::silu, row_affine(convolved, {}, bias_->var()));
    const Var step = pointwise(kernels::Pointwise::softplus, step_(x), true);
    const Var rates = scale(pointwise(kernels::Pointwise::exp, rate_->var(), true), -1);
    const Var y = turned(linear_recurrence(
        turned(repeat_heads(read_(x), 1, heads_)), turned(repeat_heads(write_(x), 1, heads_)), turned(x),
        turned(row_affine(step, rates, {})), turned(step), in.sequences, {.heads = heads_}, states));
    Var out = gated(kernels::Activation::silu, gate_(in.x), add(y, row_affine(x, skip_->var(), {})));
    if (norm_) out = normalise(kernels::NormKind::rms, out, norm_->var(), {}, 1e-6);
    return output_->forward(out);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    std::vector<std::unique_ptr<State>> states;
    states.push_back(along_.make_state(shape));
    states.push_back(std::make_unique<RecurrentState>("selective_ssm", shape, state_shape(), true));
    return std::make_unique<JointState>(std::move(states));
  }
  // (k - 1 + state_size) inner scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return along_.state_bytes(tokens.size(), dtype) +
           int64_t(tokens.size()) * state_shape().numel() * size_of(wide_of(dtype));
  }

 private:
  int64_t heads_, inner_, state_size_;
  bool causal_;
  TimeConvolution along_;
  Linear values_, gate_, write_, read_, step_;
  Parameter *taps_, *bias_, *rate_, *skip_, *norm_ = nullptr;
  std::unique_ptr<Output> output_;

  Shape state_shape() const { return {heads_, kernels::recurrence_state(state_size_, inner_ / heads_, false)}; }
};

}  // namespace

void register_mixer_selective_ssm(Registry& registry) {
  registry.add<Mixer, SelectiveSsm, SelectiveSsmConfig>(
      "selective_ssm",
      {.spec = "",
       .summary = "a selective state-space model: step size, input and output maps depend on the token (Mamba-2)",
       .source = "Gu and Dao 2023 (Mamba); Dao and Gu 2024",
       .samples = {"{num_heads: 2, expand: 1, state_size: 3, kernel_size: 2, output_norm: false}"}});
}

}  // namespace lithe
