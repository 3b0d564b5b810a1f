// Sub-layer dropout: while training, a sub-layer is left out with probability 1 - rho; afterwards its result counts rho
// times [TB 6.3.2(4), Eq 6.95; Fan et al. 2020].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

struct LayerDropConfig {
  double keep = 0.9;
  std::string schedule = "constant";
  bool inverted = false;
  void fields(Fields& f) {
    f("keep", keep, "probability rho that a sub-layer runs in a training step", between(0, 1));
    f("schedule", schedule,
      "constant: rho is the same in all layers; linear: it falls from 1 before the first layer to `keep` in the last",
      one_of({"constant", "linear"}));
    f("inverted", inverted, "divide by rho in training; false: multiply by rho in inference, as the source does");
  }
};

class LayerDrop final : public Stack {
 public:
  LayerDrop(const Scope&, const LayerDropConfig& config, const Args& args)
      : config_(config), layers_(args.num_hidden_layers) {
    check_usage(!config.inverted || config.keep > 0, "layer_drop", "inverted divides by keep, which is ", config.keep,
                "; give a keep above 0");
  }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    Rows rows = x;
    for (int64_t i = 0; i < layers.count(); ++i)
      rows = layers.run(i, rows, pass, gains(i, layers.sub_layers(i), x.x.device()));
    return rows;
  }

 private:
  LayerDropConfig config_;
  int64_t layers_;

  double keep(int64_t layer) const {
    if (config_.schedule == "constant") return config_.keep;
    return 1 - double(layer + 1) / double(layers_) * (1 - config_.keep);
  }
  // One draw a sub-layer and step, for the whole batch. A plan counts every sub-layer: the most that a step may need.
  std::vector<double> gains(int64_t layer, int64_t sub_layers, Device device) const {
    const double rho = keep(layer);
    std::vector<double> out(size_t(sub_layers), config_.inverted ? 1 : rho);
    if (device == Device::meta || !training()) return out;
    const StepContext& step = step_context();
    const RandomKey key{
        .seed = step.seed, .step = step.step, .layer = uint32_t(layer + 1), .purpose = purpose_of("layer_drop")};
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = random_uniform(key, i) < rho ? (config_.inverted ? 1 / rho : 1) : 0;
    return out;
  }
};

}  // namespace

void register_stack_layer_drop(Registry& registry) {
  registry.add<Stack, LayerDrop, LayerDropConfig>(
      "layer_drop",
      {.spec = "reg.layer_drop",
       .summary = "stochastic depth (LayerDrop): each sub-layer is left out of some training steps, at random",
       .source = "TB 6.3.2(4), Eq 6.95",
       .samples = {"{schedule: linear, inverted: true}"}});
}

}  // namespace lithe
