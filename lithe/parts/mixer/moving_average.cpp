// Moving averages of the rows so far in place of attention [TB 6.4.5(2); Ma et al. 2023]: of all of them, of the last
// few, or with weights that decay.
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/linear_recurrence.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {
namespace {

struct MovingAverageConfig {
  std::string kind = "ema";
  int64_t window = 16, rates = 1;
  double decay_init = 0.9;
  bool bias_correction = false, projections = false;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("kind", kind, "mean: of all rows so far; ema: o = a o + (1 - a) v; window: of the last `window` rows",
      one_of({"mean", "ema", "window"}));
    f("window", window, "kind window: number of rows, the current one included", at_least(1));
    f("rates", rates, "kind ema: groups of channels, each with its own learned a; must divide hidden_size",
      at_least(1));
    f("decay_init", decay_init,
      "kind ema: initial a; with several rates that of the first, the others decay more slowly",
      between(1e-6, 1 - 1e-6));
    f("bias_correction", bias_correction, "kind ema: divide by 1 - a^i, so that a constant input gives itself");
    f("projections", projections, "average values v = x W; false: average the rows");
    f.part("output", "output", output, "maps the averages to rows");
  }
};

class MovingAverage final : public Mixer {
 public:
  MovingAverage(const Scope& scope, const MovingAverageConfig& config, const Args& args)
      : kind_(config.kind),
        width_(args.hidden_size),
        rates_(config.kind == "ema" ? config.rates : 1),
        normalise_(config.kind == "mean" || config.bias_correction),
        along_("moving_average", config.window, width_, true) {
    check_usage(width_ % rates_ == 0, "moving_average", "hidden_size ", width_, " must be a multiple of rates ",
                rates_);
    if (kind_ == "ema") {
      logit_ = scope.parameter("logit", {rates_}, InitRole::zeros);
      if (rates_ > 1) scope.couples({Dimension::hidden});  // which rate a channel has
      const Tensor& start = logit_->master.value();
      for (int64_t i = 0; i < rates_ && !start.is_meta(); ++i)  // half as much is forgotten by each next one
        set_value(start, i, logit_of(1 - (1 - config.decay_init) * std::exp2(-8.0 * double(i) / double(rates_))));
    }
    const Axis channels = Axis::hidden(width_);
    if (config.projections) values_ = Linear(scope / "values", channels, channels, false);
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = channels, .hidden_size = width_, .bias = false});
  }
  Var forward(const SubLayerInput& in) const override {
    const Var v = values_.weight ? values_(in.x) : in.x;
    return output_->forward(kind_ == "window" ? window_mean(v, in) : weighted_mean(v, in));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (kind_ == "window") return along_.make_state(shape);
    return std::make_unique<RecurrentState>("moving_average", shape, state_shape(), true);
  }
  // d scalars, with divisors one more a rate; (w - 1) d of a window; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    if (kind_ == "window") return along_.state_bytes(tokens.size(), dtype);
    return int64_t(tokens.size()) * state_shape().numel() * size_of(wide_of(dtype));
  }

 private:
  std::string kind_;
  int64_t width_, rates_;
  bool normalise_;
  TimeConvolution along_;
  Parameter* logit_ = nullptr;
  Linear values_;
  std::unique_ptr<Output> output_;

  Shape state_shape() const { return {rates_, kernels::recurrence_state(1, width_ / rates_, normalise_)}; }

  /// A recurrence whose queries and keys are all 1.
  Var weighted_mean(const Var& v, const SubLayerInput& in) const {
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    const Var ones(filled({v.rows(), rates_}, 1, v.dtype(), v.device()));
    Var log_decay, write;
    if (logit_) {
      log_decay = pointwise(kernels::Pointwise::log_sigmoid, logit_->var(), true);
      // A factor on all weights cancels in their ratio.
      if (!normalise_)
        write = every_row(pointwise(kernels::Pointwise::sigmoid, scale(logit_->var(), -1), true), v.rows());
    }
    return linear_recurrence(ones, ones, v, log_decay, write, in.sequences, {.heads = rates_, .normalise = normalise_},
                             states);
  }
  Var window_mean(const Var& v, const SubLayerInput& in) const {
    const int64_t w = along_.taps();
    const Var sum = along_(v, Var(filled({w, width_}, 1, wide_of(v.dtype()), v.device())), in.sequences, in.state);
    const Tensor parts = empty_like(v.value());
    for (int64_t b = 0; b < in.sequences.count() && !parts.is_meta(); ++b)
      for (int64_t row = in.sequences.offset(b); row < in.sequences.offset(b + 1); ++row) {
        const int64_t seen = in.sequences.past(b) + row - in.sequences.offset(b) + 1;
        for (int64_t c = 0; c < width_; ++c) set_value(parts, row * width_ + c, 1 / double(std::min(seen, w)));
      }
    return mul(sum, Var(parts));
  }
};

}  // namespace

void register_mixer_moving_average(Registry& registry) {
  registry.add<Mixer, MovingAverage, MovingAverageConfig>(
      "moving_average", {.spec = "mix.moving_avg",
                         .summary = "a running mean of the rows: of all so far, of the last few, or exponential",
                         .source = "TB 6.4.5(2); Ma et al. 2023 (MEGA)",
                         .bidirectional = false,
                         .samples = {"{kind: mean, projections: true, output: dense}", "{kind: window, window: 3}",
                                     "{bias_correction: true}"}});
}

}  // namespace lithe
