// One set of weights that all candidates of a search take theirs from.
#pragma once

#include <functional>

#include "lithe/data/batches.h"
#include "lithe/model/model.h"
#include "lithe/recipe/train_config.h"

namespace lithe::compare {

/// A candidate's tensor is a slice of the super-network's of its name: of each dimension (heads, their width, hidden
/// units ...) the first ones. Each step trains one
/// candidate on its slices, whose Adam moments are slices, too [weight sharing as in one-shot search, TB 6.4.6].
class Supernet {
 public:
  /// `candidates`: enough of them that every tensor has its largest dimensions in one. Fails (usage) where a tensor of
  /// one name has axes of other dimensions in another candidate.
  Supernet(const std::vector<ModelConfig>& candidates, const TrainConfig& train);

  /// Trains steps done() + 1 to `steps`; step s trains candidate(s). Saves to `file` now and then and at the end, and
  /// goes on from what stands there. False when asked to stop, after saving.
  bool train(int64_t steps, const std::function<ModelConfig(int64_t step)>& candidate, const BatchSource& batches,
             const Path& file);
  int64_t done() const { return done_; }
  int64_t parameters() const;

  /// A candidate with its slices, to be scored.
  std::unique_ptr<Model> model(const ModelConfig& candidate) const;

 private:
  struct Shared {
    Axes axes;
    Tensor value, m, v;
  };
  TrainConfig train_;
  std::map<std::string, Shared> shared_;
  int64_t done_ = 0;

  const Shared& of(const std::string& name) const;
  Slice slice_of(const Parameter& of_candidate) const;
  void give(Model& model) const;
  void save(const Path& file) const;
  void restore(const Path& file);
};

}  // namespace lithe::compare
