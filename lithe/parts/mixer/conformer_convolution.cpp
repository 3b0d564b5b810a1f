// The convolution module of the Conformer [TB 6.3.1(2), 6.5.3; Gulati et al. 2020]: to twice the width and gated, a
// convolution of each channel, a norm, silu, and back. The sub-layer's own norm comes first. A Conformer block lists
// its sub-layers: [{ffn, 0.5}, mixer, {mixer: conformer_convolution}, {ffn, 0.5}];
// recipes/mixer/conformer_convolution.yaml has it.
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {
namespace {

struct ConformerConvolutionConfig {
  int64_t kernel_size = 31;
  PartChoice norm{"layer", {}};
  void fields(Fields& f) {
    f("kernel_size", kernel_size, "kernel size k: this token and k - 1 before it; in encoders k tokens around it",
      at_least(1).of({Dimension::taps}));
    f.part("norm", "norm", norm, "norm after the convolution");
  }
};

class ConformerConvolution final : public Mixer {
 public:
  ConformerConvolution(const Scope& scope, const ConformerConvolutionConfig& config, const Args& args)
      : along_("conformer_convolution", config.kernel_size, args.hidden_size, args.causal),
        value_(scope / "value", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true),
        gate_(scope / "gate", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true),
        taps_(make_taps(scope, config.kernel_size, Axis::hidden(args.hidden_size))),
        bias_(scope.parameter("bias", {Axis::hidden(args.hidden_size)}, InitRole::zeros)),
        norm_(Registry::instance().make<Norm>(config.norm, scope / "norm", {.hidden_size = args.hidden_size})),
        out_(scope / "out", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true,
             InitRole::residual_output) {
    check_usage(args.causal || config.kernel_size % 2, "conformer_convolution", "kernel_size ", config.kernel_size,
                " has no centre; give an odd one to a model that sees both ways");
  }
  Var forward(const SubLayerInput& in) const override {
    const Var x = mul(value_(in.x), pointwise(kernels::Pointwise::sigmoid, gate_(in.x)));
    const Var y = row_affine(along_(x, wide_taps(taps_), in.sequences, in.state), {}, bias_->var());
    return out_(activate(kernels::Activation::silu, norm_->forward(y)));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override { return along_.make_state(shape); }
  // (k - 1) d scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return along_.state_bytes(tokens.size(), dtype);
  }

 private:
  TimeConvolution along_;
  Linear value_, gate_;
  Parameter *taps_, *bias_;
  std::unique_ptr<Norm> norm_;
  Linear out_;
};

}  // namespace

void register_mixer_conformer_convolution(Registry& registry) {
  registry.add<Mixer, ConformerConvolution, ConformerConvolutionConfig>(
      "conformer_convolution", {.spec = "arch.conformer",
                                .summary = "the Conformer's gated convolution module",
                                .source = "TB 6.3.1(2), 6.5.3; Gulati et al. 2020",
                                .samples = {"{kernel_size: 3, norm: rms}"}});
}

}  // namespace lithe
