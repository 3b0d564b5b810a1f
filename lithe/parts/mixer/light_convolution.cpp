// Light convolution [TB 6.4.5(1); Wu et al. 2019]: rows are doubled and gated, groups of channels share taps that are a
// softmax over time, and a last map mixes channels. Dynamic: each token makes the taps that it is read with.
#include "lithe/nn/registry.h"
#include "lithe/ops/feature_map.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pool.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {
namespace {

struct LightConvolutionConfig {
  int64_t heads = 0, kernel_size = 7;
  bool softmax = true, block = true, dynamic = false;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    f("heads", heads,
      "groups H of channels that share a kernel; 0: 16, or the largest smaller number that divides hidden_size",
      at_least(0));
    f("kernel_size", kernel_size, "kernel size k in tokens (3, 7, 15, 31 by depth in the paper)",
      at_least(1).of({Dimension::taps}));
    f("softmax", softmax, "normalise each kernel by a softmax: weights are positive and sum to 1");
    f("dynamic", dynamic,
      "each token computes its kernel, x W with W [hidden_size, H k]; false: kernels are learned parameters");
    f("block", block, "first map the rows to 2 hidden_size and apply a GLU: a sigmoid(b)");
    f.part("output", "output", output, "maps the results to rows");
  }
};

class LightConvolution final : public Mixer {
 public:
  LightConvolution(const Scope& scope, const LightConvolutionConfig& config, const Args& args)
      : heads_(config.heads),
        softmax_(config.softmax),
        along_("light_convolution", config.kernel_size, args.hidden_size, args.causal) {
    const int64_t d = args.hidden_size, k = config.kernel_size;
    for (int64_t h = 16; heads_ == 0; --h)
      if (d % h == 0) heads_ = h;
    const int64_t H = heads_;
    check_usage(d % H == 0, "light_convolution", "hidden_size ", d, " must be a multiple of heads ", H);
    check_usage(args.causal || k % 2, "light_convolution", "kernel_size ", k,
                " has no centre; give an odd one to a model that sees both ways");
    const Axis channels = Axis::hidden(d);
    if (config.block) {
      value_ = Linear(scope / "value", channels, channels, true);
      gate_ = Linear(scope / "gate", channels, channels, true);
    }
    const InitConfig init{.std = 1 / std::sqrt(double(H))};
    if (config.dynamic)
      dynamic_ = Linear(scope / "taps", channels, Axis(H) * Axis::taps(k), false);
    else
      taps_ = scope.parameter("taps", {H, Axis::taps(k)}, InitRole::embedding, {.init = &init, .wide = true});
    scope.couples({Dimension::hidden});  // which group a channel is in
    if (softmax_) scope.couples({Dimension::taps});
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = channels, .hidden_size = d, .bias = true});
    if (config.dynamic) return;
    const MemoryScope memory(MemoryClass::weights);
    const DType wide = wide_of(taps_->master.dtype());
    order_ = filled({k, k}, 0, wide, scope.context().device);
    groups_ = filled({H, d}, 0, wide, scope.context().device);
    for (int64_t r = 0; r < k && !order_.is_meta(); ++r) set_value(order_, r * k + r, 1);
    for (int64_t c = 0; c < d && !groups_.is_meta(); ++c) set_value(groups_, c / (d / H) * d + c, 1);
  }
  Var forward(const SubLayerInput& in) const override {
    const Var x = value_.weight ? mul(value_(in.x), pointwise(kernels::Pointwise::sigmoid, gate_(in.x))) : in.x;
    return output_->forward(dynamic_.weight ? read_dynamically(x, in) : along_(x, taps(), in.sequences, in.state));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override { return along_.make_state(shape); }
  // (k - 1) d scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return along_.state_bytes(tokens.size(), dtype);
  }

 private:
  int64_t heads_;
  bool softmax_;
  TimeConvolution along_;
  Parameter* taps_ = nullptr;  // [H, k]
  Linear value_, gate_, dynamic_;
  Tensor order_, groups_;  // [k, k] the identity; [H, d] which group a channel is of
  std::unique_ptr<Output> output_;

  /// [k, d]
  Var taps() const {
    Var w = wide_taps(taps_);
    // What products read may be packed; scale() says that these numbers are needed as they are.
    w = softmax_ ? softmax_features(w, 1) : scale(w, 1);
    return linear(linear(Var(order_), w, {}, true), Var(groups_));
  }
  // spec: conv.light | mixer | dynamic: the taps of a token are a softmax of what it makes of itself | TB 6.4.5(1)
  Var read_dynamically(const Var& x, const SubLayerInput& in) const {
    const int64_t k = along_.taps(), N = x.rows(), C = x.cols(), H = heads_;
    const Var made = dynamic_(x), w = softmax_ ? softmax_features(made, H) : made;  // [N, H k]
    std::vector<int64_t> by_tap;                                                    // [N k, H]
    by_tap.reserve(size_t(N * k * H));
    for (int64_t i = 0; i < N; ++i)
      for (int64_t r = 0; r < k; ++r)
        for (int64_t h = 0; h < H; ++h) by_tap.push_back((i * H + h) * k + r);
    const Var taps = reshape(pick_rows(reshape(w, {N * H * k, 1}), by_tap), {N * k, H});
    const Var near = reshape(along_.rows(x, in.sequences, in.state), {N * k, C});
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i <= N; ++i) offsets.push_back(i * k);
    const Var weighted = mul(near, repeat_heads(taps, H, C));
    return scale(pool(weighted, Sequences(offsets, {}, x.device()), "mean"), double(k));
  }
};

}  // namespace

void register_mixer_light_convolution(Registry& registry) {
  registry.add<Mixer, LightConvolution, LightConvolutionConfig>(
      "light_convolution", {.spec = "conv.light",
                            .summary = "LightConv or DynamicConv: a gated convolution with softmax-normalised kernels, "
                                       "shared by groups of channels",
                            .source = "TB 6.4.5(1); Wu et al. 2019",
                            .samples = {"{heads: 1, kernel_size: 3}",
                                        "{heads: 3, kernel_size: 5, block: false, softmax: false, output: none}",
                                        "{heads: 3, kernel_size: 3, dynamic: true}"}});
}

}  // namespace lithe
