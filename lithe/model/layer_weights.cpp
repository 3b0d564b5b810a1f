#include "lithe/model/layer_weights.h"

#include "lithe/autograd/between.h"
#include "lithe/autograd/var.h"

namespace lithe {
namespace {

thread_local LayerWeights* in_use = nullptr;

}  // namespace

LayerWeights::LayerWeights() : before_(in_use) { in_use = this; }
LayerWeights::~LayerWeights() { in_use = before_; }
LayerWeights* LayerWeights::current() { return in_use; }

LayerWeights::Hold::Hold(int64_t layer) : of_(in_use), layer_(layer) {
  if (!of_) return;
  of_->need(layer);
  if (Tape::current()) when_passed_backwards([of = of_, layer] { of->done(layer); });
}
LayerWeights::Hold::~Hold() {
  if (of_) of_->done(layer_);
}

}  // namespace lithe
