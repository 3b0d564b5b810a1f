// Convolution along time in place of attention [TB 6.4.5(1), Eq 6.153]: of each channel by itself, or of all with a
// matrix for each tap.
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {
namespace {

struct ConvolutionConfig {
  std::string kind = "depthwise";
  int64_t kernel_size = 7;
  bool bias = true;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("kind", kind,
      "depthwise: a kernel for each channel; tied_text: a kernel for each channel on the sum of all channels (as "
      "printed in footnote 15, E30); full: a matrix for each tap",
      one_of({"depthwise", "tied_text", "full"}));
    f("kernel_size", kernel_size, "kernel size k: this token and k - 1 before it; in encoders k tokens around it",
      at_least(1).of({Dimension::taps}));
    f("bias", bias, "a learned bias for each channel");
    f.part("output", "output", output, "maps the results to rows");
  }
};

// spec: conv.full | mixer | kind: full, y_t = sum_r x_{t-r} W_r + b | TB 6.4.5(1), Eq 6.153
class Convolution final : public Mixer {
 public:
  Convolution(const Scope& scope, const ConvolutionConfig& config, const Args& args)
      : kind_(config.kind), width_(args.hidden_size), along_("convolution", config.kernel_size, width_, args.causal) {
    const int64_t d = width_;
    const Axis channels = Axis::hidden(d);
    check_usage(args.causal || config.kernel_size % 2, "convolution", "kernel_size ", config.kernel_size,
                " has no centre; give an odd one to a model that sees both ways");
    if (kind_ == "full") {
      full_ = Linear(scope, Axis::taps(config.kernel_size) * channels, channels, config.bias);
    } else {
      taps_ = make_taps(scope, config.kernel_size, channels);
      if (config.bias) bias_ = scope.parameter("bias", {channels}, InitRole::zeros);
    }
    if (kind_ == "tied_text") {
      const MemoryScope memory(MemoryClass::weights);
      ones_ = filled({d, d}, 1, scope.context().compute, scope.context().device);
    }
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = channels, .hidden_size = d, .bias = false});
  }
  Var forward(const SubLayerInput& in) const override {
    if (kind_ == "full") return output_->forward(full_(along_.rows(in.x, in.sequences, in.state)));
    const Var x = ones_ ? linear(in.x, Var(ones_)) : in.x;
    Var y = along_(x, wide_taps(taps_), in.sequences, in.state);
    if (bias_) y = row_affine(y, {}, bias_->var());
    return output_->forward(y);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override { return along_.make_state(shape); }
  // (k - 1) d scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return along_.state_bytes(tokens.size(), dtype);
  }

 private:
  std::string kind_;
  int64_t width_;
  TimeConvolution along_;
  Parameter *taps_ = nullptr, *bias_ = nullptr;
  Linear full_;
  Tensor ones_;  // sums channels
  std::unique_ptr<Output> output_;
};

}  // namespace

void register_mixer_convolution(Registry& registry) {
  registry.add<Mixer, Convolution, ConvolutionConfig>(
      "convolution", {.spec = "conv.depthwise",
                      .summary = "a convolution along time, depthwise or full",
                      .source = "TB 6.4.5(1), Eq 6.153, footnote 15",
                      .samples = {"{kind: full, kernel_size: 3}", "{kind: tied_text, bias: false, kernel_size: 5}"}});
}

}  // namespace lithe
