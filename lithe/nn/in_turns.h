// Parameters that are made, looked at and let go again, a layer at a time.
#pragma once

#include <functional>
#include <vector>

#include "lithe/nn/module.h"

namespace lithe {

/// While it lives, a model that this thread makes has its parameters in memory a layer at a time: `made` is given those
/// of one place (a layer, or what lies between the layers) when all of them have their initial values, and afterwards
/// they keep shapes alone. It must not see parts that share parameters: they would write into ones that are gone.
class ParametersInTurns {
 public:
  using Made = std::function<void(const std::vector<Parameter*>&)>;
  explicit ParametersInTurns(Made made);
  ~ParametersInTurns();
  ParametersInTurns(const ParametersInTurns&) = delete;

  /// The last ones.
  void finish();
  /// Before a parameter of this layer is added.
  static void before(const Parameters& parameters, int64_t layer);
  /// After it.
  static void added(const Parameters& parameters, Parameter* parameter);

 private:
  Made made_;
  const Parameters* of_ = nullptr;  // the model's: parts that are only asked have others
  int64_t layer_ = -1;
  std::vector<Parameter*> waiting_;
};

}  // namespace lithe
