// Weights that ranks share out (train.parallel.weights, ZeRO-3).
#pragma once

#include <memory>

#include "lithe/model/layer_weights.h"
#include "lithe/model/model.h"
#include "lithe/recipe/train_config.h"
#include "lithe/train/rank_sum.h"

namespace lithe {

/// A model to train as rank `rank` of `ranks`: where these share out the weights, it never has more numbers of the
/// others than those of one layer, and none when it is made. Fails (usage) where they cannot.
std::unique_ptr<Model> make_model(const ModelConfig& config, const ModelOptions& options, const TrainConfig& train,
                                  int rank, int ranks);

/// The layers' weights that other ranks keep: here while their layer runs. All ranks run the same layers in the same
/// order, which evaluation and generation must do, too.
class ShardedWeights final : public LayerWeights {
 public:
  /// null where they are not shared out. Both must outlive it. Fails (usage) where the objective learns, too.
  static std::unique_ptr<ShardedWeights> of(Model& model, const Parameters& of_objective, const RankSum& ranks);
  ShardedWeights(Model& model, const RankSum& ranks);
  void need(int64_t layer) override;
  void done(int64_t layer) override;

 private:
  const RankSum& ranks_;
  std::vector<std::vector<Parameter*>> of_layer_;
  std::vector<bool> here_;
};

/// save_weights() of a model whose weights are shared out, or of any other. All ranks call it; the first writes.
void save_weights(const Model& model, const RankSum& ranks, const Path& file);

}  // namespace lithe
