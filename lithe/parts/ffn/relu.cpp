// Position-wise feed-forward layer: max(0, x W_h + b_h) W_f + b_f [TB Eq 6.37-6.38].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/feed_forward.h"

namespace lithe {
namespace {

struct ReluConfig : FeedForwardConfig {
  double activation_penalty = 0;
  void fields(Fields& f) {
    FeedForwardConfig::fields(f);
    f("activation_penalty", activation_penalty,
      "weight of an auxiliary loss, the mean hidden activation, which makes activations sparse", at_least(0));
  }
};

class Relu final : public FeedForward {
 public:
  Relu(const Scope& scope, const ReluConfig& config, const Args& args)
      : FeedForward(scope, config, args, kernels::Activation::relu), penalty_(config.activation_penalty) {}
  Var forward(const SubLayerInput& in) const override {
    if (penalty_ == 0 || !training()) return FeedForward::forward(in);
    const Var hidden = activated(in.x);
    in.pass.add_loss("activation_penalty", scale(sum(hidden), penalty_ / double(hidden.value().numel())));
    return down(hidden);
  }

 private:
  double penalty_;
};

}  // namespace

void register_ffn_relu(Registry& registry) {
  registry.add<Ffn, Relu, ReluConfig>(
      "relu", {.spec = "ffn.relu",
               .summary = "two linear maps with relu between",
               .source = "TB Eq 6.37-6.38",
               .samples = {"{activation_penalty: 0.5}", "{bias: false}", "{activation_penalty: 0.5, bias: false}"}});
}

}  // namespace lithe
