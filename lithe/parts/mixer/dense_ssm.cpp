// State spaces with a dense state matrix [TB Eq 6.162-6.184]: dz/dt = z A + s B, o = z C + s D, made discrete by a
// learned step: z_t = z_{t-1} a + s_t B f.
#include <cmath>
#include <mutex>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/dense_state_space.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/recurrent.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {
namespace {

struct DenseSsmConfig {
  int64_t state_size = 64;
  std::string discretisation = "zoh", init = "diag_real", skip = "full";
  double min_step = 0.01, max_step = 0.1;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("state_size", state_size, "size d_z of the state", between(1, 1024).of({Dimension::state}));
    f("discretisation", discretisation,
      "zoh (zero-order hold: exact if the input is constant between steps), bilinear or euler",
      one_of({"zoh", "bilinear", "euler"}));
    f("init", init,
      "initial state matrix A: diag_real: diagonal -1 ... -d_z; legs: HiPPO-LegS (the past as Legendre polynomials)",
      one_of({"diag_real", "legs"}));
    f("min_step", min_step, "smallest initial step size; initial steps are log-uniform between min_step and max_step",
      between(1e-6, 10));
    f("max_step", max_step, "largest initial step size", between(1e-6, 10));
    f("skip", skip, "direct path from a token to its own result: full: s D with D [d, d]; none",
      one_of({"full", "none"}));
    f.part("output", "output", output, "maps the results to rows");
  }
};

// A [n, n] of rows z: legs is the transpose of the matrix that columns z read [Gu et al. 2020].
void start(const Parameter* a, bool legs) {
  const Tensor& to = a->master.value();
  if (to.is_meta()) return;
  const int64_t n = to.rows();
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const double between = k < i && legs ? -std::sqrt(double(2 * i + 1) * double(2 * k + 1)) : 0;
      set_value(to, k * n + i, k == i ? -double(k + 1) : between);
    }
}

// One way through the text.
struct Way {
  Parameter *rates = nullptr, *step = nullptr;
  Linear in, out;

  Way() = default;
  Way(const Scope& scope, const DenseSsmConfig& config, int64_t d) {
    const Axis rows = Axis::hidden(d), kept = Axis::state(config.state_size);
    rates = scope.parameter("rates", {kept, kept}, InitRole::zeros, {.wide = true});
    start(rates, config.init == "legs");
    step = scope.parameter("log_step", {Axis(1)}, InitRole::zeros);
    const RandomKey key{.seed = scope.context().seed, .purpose = purpose_of(scope.path() + ".log_step")};
    if (!step->master.value().is_meta())
      set_value(step->master.value(), 0,
                std::log(config.min_step) + random_uniform(key, 0) * std::log(config.max_step / config.min_step));
    in = Linear(scope / "in", rows, kept, false);
    out = Linear(scope / "out", kept, rows, false, InitRole::residual_output);
    if (config.init != "legs" || !scope.context().initialised || scope.context().device == Device::meta) return;
    const Tensor& b = in.weight->master.value();
    for (int64_t i = 0; i < b.numel(); ++i)  // B_n = sqrt(2 n + 1)
      set_value(b, i, value_at(b, i) * std::sqrt(double(2 * (i % config.state_size) + 1)));
  }
};

// What steps need of A and the step, made once while both stay: decoding reads it every token.
class Discrete {
 public:
  std::vector<Var> operator()(Discretisation kind, const Way& of) const {
    const Var a = of.rates->var(), log = of.step->var();
    if (recording()) return discretise_dense(kind, a, log);
    const std::lock_guard lock(guard_);
    std::vector<double> now;
    for (const Tensor& x : {a.value(), log.value()})
      for (int64_t i = 0; i < x.numel() && !x.is_meta(); ++i) now.push_back(value_at(x, i));
    if (now == from_ && !made_.empty()) return made_;
    made_.clear();
    const MemoryScope memory(MemoryClass::weights);
    made_ = discretise_dense(kind, a, log);
    from_ = std::move(now);
    return made_;
  }

 private:
  mutable std::mutex guard_;
  mutable std::vector<double> from_;
  mutable std::vector<Var> made_;
};

class DenseStateSpace final : public Mixer {
 public:
  DenseStateSpace(const Scope& scope, const DenseSsmConfig& config, const Args& args)
      : size_(config.state_size), width_(args.hidden_size) {
    check_usage(config.min_step <= config.max_step, "dense_ssm", "min_step ", config.min_step,
                " is larger than max_step ", config.max_step);
    kind_ = config.discretisation == "zoh"     ? Discretisation::zoh
            : config.discretisation == "euler" ? Discretisation::euler
                                               : Discretisation::bilinear;
    onward_ = Way(args.causal ? scope : scope / "onward", config, width_);
    if (!args.causal) backward_ = Way(scope / "backward", config, width_);
    const Axis rows = Axis::hidden(width_);
    if (config.skip == "full") through_ = Linear(scope / "skip", rows, rows, false);
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = rows, .hidden_size = width_, .bias = false});
  }

  Var forward(const SubLayerInput& in) const override {
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    Var y = run(onward_, made_onward_, in.x, in.sequences, states);
    if (backward_.rates) {
      const std::vector<int64_t> turned = turned_rows(in.sequences);
      y = add(y, pick_rows(run(backward_, made_backward_, pick_rows(in.x, turned), in.sequences, {}), turned));
    }
    if (through_.weight) y = add(y, through_(in.x));
    return output_->forward(y);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>("dense_ssm", shape, Shape{size_}, true);
  }
  // d_z scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * size_ * size_of(wide_of(dtype));
  }

 private:
  int64_t size_, width_;
  Discretisation kind_;
  Way onward_, backward_;
  Discrete made_onward_, made_backward_;
  Linear through_;
  std::unique_ptr<Output> output_;

  // States stand in f32 at least: a is near I, and bf16 would round what it forgets away.
  Var run(const Way& by, const Discrete& made, const Var& x, const Sequences& sequences,
          const std::vector<Tensor>& states) const {
    const std::vector<Var> step = made(kind_, by);
    const Var s = linear(cast(by.in(x), step[1].dtype()), step[1]);
    return by.out(cast(recurrent(kernels::RecurrentCell::linear, s, step[0], {}, sequences, states), x.dtype()));
  }
};

}  // namespace

void register_mixer_dense_ssm(Registry& registry) {
  registry.add<Mixer, DenseStateSpace, DenseSsmConfig>(
      "dense_ssm", {.spec = "ssm.continuous",
                    .summary = "a state-space model with a dense state matrix and a learned step size",
                    .source = "TB Eq 6.162-6.184; Gu et al. 2020 (HiPPO)",
                    .samples = {"{state_size: 5, init: legs}", "{state_size: 4, discretisation: bilinear, skip: none}",
                                "{state_size: 4, discretisation: euler, output: dense}"}});
}

}  // namespace lithe
