// Weights of layers that are in memory only while their layer runs.
#pragma once

#include <cstdint>

namespace lithe {

/// While it lives, models that this thread runs ask it for the weights of each layer. It must outlive backward passes
/// that begin meanwhile, of models with recomputation: a layer's weights come again for its backward pass.
class LayerWeights {
 public:
  LayerWeights();
  virtual ~LayerWeights();
  LayerWeights(const LayerWeights&) = delete;

  /// For Backbone: the layer reads its weights now / its run, or its backward pass, is at its end.
  virtual void need(int64_t layer) = 0;
  virtual void done(int64_t layer) = 0;
  /// Of this thread; null: all weights are always there.
  static LayerWeights* current();

  /// A layer runs while it lives. Under a tape it is done once more when that has passed the layer backwards.
  class Hold {
   public:
    explicit Hold(int64_t layer);
    ~Hold();
    Hold(const Hold&) = delete;

   private:
    LayerWeights* of_;
    int64_t layer_;
  };

 private:
  LayerWeights* before_;
};

}  // namespace lithe
