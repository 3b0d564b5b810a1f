#include "lithe/train/growth.h"

#include "lithe/model/grow.h"
#include "lithe/ops/basic.h"

namespace lithe {

ModelConfig config_of_stage(const ModelConfig& first, const GrowthConfig& growth, int64_t stage) {
  if (stage == 0) return first;
  if (!growth.width.empty()) return widened(first, growth.width[size_t(stage - 1)]);
  ModelConfig config = first;
  for (int64_t i = 0; i < stage; ++i) config = deepened(config, growth.layers[size_t(i)]);
  return config;
}

void grow_to_stage(const Model& from, const AdamW& moments, Model& to, AdamW& to_moments, const TrainConfig& config,
                   int64_t stage) {
  const GrowthConfig& growth = config.growth;
  if (!growth.width.empty()) return grow_width(from, to, growth.noise, uint64_t(config.seed) + uint64_t(stage));
  grow_depth(from, to, growth.zero_new_residual);
  if (growth.optimizer_state == "reset") return;
  const std::map<std::string, Tensor> before = moments.state();
  for (const auto& [name, tensor] : to_moments.state()) {
    const size_t of = name.find('.') + 1;  // m.layers.0...
    const auto source =
        before.find(name.substr(0, of) + shallow_name(name.substr(of), from.config().num_hidden_layers));
    check(source != before.end(), "grow", "the optimiser has no '", name, "' to grow from");
    copy_into(tensor, source->second);
  }
}

int64_t steps_of_moments(const GrowthConfig& growth, int64_t step) {
  if (growth.optimizer_state == "copy") return step;
  const int64_t stage = growth.stage(step - 1);
  return stage ? step - growth.steps[size_t(stage - 1)] : step;
}

}  // namespace lithe
