// When the layers of a model are done in a backward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace lithe {

/// While it lives, models that this thread runs under a tape note their layers, and `passed(layer)` is called as soon
/// as the backward pass has done with all runs of that layer: nothing is added any more to the gradients of parameters
/// that are read there and above alone. A layer that does not run is never passed. It must outlive that backward pass.
class LayerWatch {
 public:
  explicit LayerWatch(std::function<void(int64_t layer)> passed);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;

  /// For Backbone: the layer begins here.
  static void begins(int64_t layer);

 private:
  std::function<void(int64_t)> passed_;
  std::map<int64_t, int64_t> runs_;  // of each layer, not yet passed
  LayerWatch* before_;
};

}  // namespace lithe
