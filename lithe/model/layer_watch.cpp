#include "lithe/model/layer_watch.h"

#include "lithe/autograd/between.h"
#include "lithe/autograd/var.h"

namespace lithe {
namespace {

thread_local LayerWatch* watching = nullptr;

}  // namespace

LayerWatch::LayerWatch(std::function<void(int64_t layer)> passed) : passed_(std::move(passed)), before_(watching) {
  watching = this;
}
LayerWatch::~LayerWatch() { watching = before_; }

void LayerWatch::begins(int64_t layer) {
  LayerWatch* const watch = watching;
  if (!watch || !Tape::current()) return;
  ++watch->runs_[layer];
  when_passed_backwards([watch, layer] {
    if (--watch->runs_.at(layer) == 0) watch->passed_(layer);
  });
}

}  // namespace lithe
