// Position-wise feed-forward layer: max(0, x W_h + b_h) W_f + b_f [TB Eq 6.37-6.38].
#include "lithe/parts/common/feed_forward.h"
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Relu final : public FeedForward {
 public:
  Relu(const Scope& scope, const FeedForwardConfig& config, const Args& args)
      : FeedForward(scope, config, args, kernels::Activation::relu) {}
};

}  // namespace

void register_ffn_relu(Registry& registry) {
  registry.add<Ffn, Relu, FeedForwardConfig>(
      "relu", {.spec = "ffn.relu", .summary = "two linear maps with relu between", .source = "TB Eq 6.37-6.38"});
}

}  // namespace lithe
