// State spaces with a diagonal state matrix [TB Eq 6.162-6.190; Gu et al. 2022; Smith et al. 2023]: z_t = a z_{t-1} + b
// (s_t B), o_t = z_t C + s_t D, with a and b from continuous parameters and a learned step.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/diagonal_recurrence.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/long_convolution.h"
#include "lithe/ops/state_space.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {
namespace {

struct SsmConfig {
  int64_t state_size = 64, direct_rows = kDirectRows;
  std::string discretisation = "zoh", skip = "full", activation = "none", evaluation = "recurrent";
  bool complex = false, step_per_state = false;
  double min_step = 0.01, max_step = 0.1;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("state_size", state_size, "size d_z of the state, in complex numbers if complex",
      at_least(1).of({Dimension::state}));
    f("complex", complex,
      "conjugate pairs, A initially -1/2 + i pi n (S4D-Lin), results are twice the real part; false: real, A initially "
      "-1 ... -d_z");
    f("discretisation", discretisation,
      "zoh (zero-order hold: exact if the input is constant between steps), bilinear or euler",
      one_of({"zoh", "bilinear", "euler"}));
    f("min_step", min_step, "smallest initial step size; initial steps are log-uniform between min_step and max_step",
      between(1e-6, 10));
    f("max_step", max_step, "largest initial step size", between(1e-6, 10));
    f("step_per_state", step_per_state, "a step size for each number of the state; false: one for all");
    f("skip", skip, "direct path from a token to its own result: full: s D with D [d, d]; diagonal; none",
      one_of({"full", "diagonal", "none"}));
    f("evaluation", evaluation,
      "computation of whole sequences: recurrent: row by row; convolution: with the kernel of powers of the state "
      "matrix, by FFT beyond direct_rows (same result up to rounding). Decoding is always recurrent",
      one_of({"recurrent", "convolution"}));
    f("direct_rows", direct_rows, "evaluation convolution: block size in rows, a power of two", at_least(2));
    f("activation", activation, "activation of the results, before the output", one_of({"none", "gelu", "silu"}));
    f.part("output", "output", output, "maps the results to rows");
  }
};

// spec: ssm.recurrent | mixer | z_t = z_{t-1} a + s_t B b, o_t = z_t C + s_t D | TB Eq 6.164-6.165
class StateSpace final : public Mixer {
 public:
  StateSpace(const Scope& scope, const SsmConfig& config, const Args& args)
      : parts_(config.complex ? 2 : 1),
        size_(config.state_size),
        direct_rows_(config.evaluation == "convolution" ? config.direct_rows : 0),
        causal_(args.causal),
        skip_(config.skip),
        activation_(config.activation) {
    const int64_t d = args.hidden_size, n = size_;
    check_halves("ssm", "state_size", n, causal_);
    check_usage((config.direct_rows & (config.direct_rows - 1)) == 0, "ssm", "direct_rows must be a power of two, got ",
                config.direct_rows);
    check_usage(config.min_step <= config.max_step, "ssm", "min_step ", config.min_step, " is larger than max_step ",
                config.max_step);
    kind_ = config.discretisation == "zoh"     ? Discretisation::zoh
            : config.discretisation == "euler" ? Discretisation::euler
                                               : Discretisation::bilinear;
    const Axis rows = Axis::hidden(d), kept = Axis::state(n);
    decay_ = scope.parameter("log_decay", {kept}, InitRole::zeros);
    if (parts_ == 2) frequency_ = scope.parameter("frequency", {kept}, InitRole::zeros);
    step_ = scope.parameter("log_step", {config.step_per_state ? kept : Axis(1)}, InitRole::zeros);
    const RandomKey key{.seed = scope.context().seed, .purpose = purpose_of(scope.path() + ".log_step")};
    if (!decay_->master.value().is_meta()) {
      for (int64_t i = 0; i < n; ++i) set_value(decay_->master.value(), i, std::log(parts_ == 2 ? 0.5 : double(i + 1)));
      for (int64_t i = 0; i < n && parts_ == 2; ++i) set_value(frequency_->master.value(), i, M_PI * double(i));
      for (int64_t i = 0; i < step_->master.value().numel(); ++i)
        set_value(
            step_->master.value(), i,
            std::log(config.min_step) + random_uniform(key, uint64_t(i)) * std::log(config.max_step / config.min_step));
    }
    in_ = Linear(scope / "in", rows, Axis(parts_) * kept, false);
    out_ = Linear(scope / "out", Axis(parts_) * kept, rows, false, InitRole::residual_output);
    if (skip_ == "full") through_ = Linear(scope / "skip", rows, rows, false);
    if (skip_ == "diagonal") diagonal_ = (scope / "skip").parameter("weight", {rows}, InitRole::ones);
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = rows, .hidden_size = d, .bias = false});
  }

  Var forward(const SubLayerInput& in) const override {
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    const std::vector<Var> step =
        discretise(kind_, decay_->var(), frequency_ ? frequency_->var() : Var(), step_->var());
    Var x = in_(in.x);
    if (!causal_) x = half_turned(x, in.sequences, parts_);
    Var z = direct_rows_ && !in.state ? convolved(x, step, in.sequences)
                                      : diagonal_recurrence(x, step[0], step[1], in.sequences, parts_ == 2, states);
    if (!causal_) z = half_turned(z, in.sequences, parts_);
    Var y = out_(z);
    if (through_.weight) y = add(y, through_(in.x));
    if (diagonal_) y = add(y, row_affine(in.x, diagonal_->var(), {}));
    if (activation_ != "none")
      y = activate(activation_ == "gelu" ? kernels::Activation::gelu : kernels::Activation::silu, y);
    return output_->forward(y);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>("ssm", shape, Shape{parts_ * size_}, true);
  }
  // d_z scalars, twice as many where complex; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * parts_ * size_ * size_of(wide_of(dtype));
  }

 private:
  int64_t parts_, size_, direct_rows_;
  bool causal_;
  std::string skip_, activation_;
  Discretisation kind_;
  Parameter *decay_ = nullptr, *frequency_ = nullptr, *step_ = nullptr, *diagonal_ = nullptr;
  Linear in_, out_, through_;
  std::unique_ptr<Output> output_;

  // spec: ssm.conv | mixer | evaluation: convolution, taps b a^t from the response to an impulse | TB Eq 6.182-6.184
  Var convolved(const Var& x, const std::vector<Var>& step, const Sequences& sequences) const {
    int64_t longest = 1;
    for (int64_t b = 0; b < sequences.count(); ++b) longest = std::max(longest, sequences.length(b));
    const Tensor impulse = zeros({longest, x.cols()}, step[0].dtype(), x.device());
    for (int64_t c = 0; c < size_ && !impulse.is_meta(); ++c) set_value(impulse, c, 1);
    const Var taps =
        diagonal_recurrence(impulse, step[0], step[1], Sequences::single(longest, x.device()), parts_ == 2);
    return long_convolution(x, taps, sequences, 0, parts_ == 2, direct_rows_);
  }
};

}  // namespace

void register_mixer_ssm(Registry& registry) {
  registry.add<Mixer, StateSpace, SsmConfig>(
      "ssm",
      {.spec = "ssm.diagonal",
       .summary =
           "a state-space model with a diagonal state matrix, real or in conjugate pairs, and a learned step size",
       .source = "TB Eq 6.162-6.190; Gu et al. 2022 (S4D)",
       .samples = {"{state_size: 6, complex: true, step_per_state: true, activation: gelu, output: dense}",
                   "{state_size: 6, discretisation: bilinear, skip: diagonal}",
                   "{state_size: 4, evaluation: convolution, direct_rows: 2}",
                   "{state_size: 4, evaluation: convolution, direct_rows: 2, complex: true, skip: none}",
                   "{state_size: 4, discretisation: euler, skip: none, complex: true}"}});
}

}  // namespace lithe
