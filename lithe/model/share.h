// Which layers of a model have their parameters in common.
#pragma once

#include "lithe/base/fields.h"

namespace lithe {

/// Recipe section `model.share` [TB Eq 6.150; Takase and Kiyono 2021].
struct ShareConfig {
  std::string layers = "none", parts = "layer";
  int64_t distinct = 0;
  std::vector<int64_t> groups;
  void fields(Fields& f);
  bool any() const { return layers != "none"; }
  /// The layer, from 0, whose parameters layer `index` of `count` has: the first of its group; `index` itself where
  /// nothing is shared.
  int64_t owner(int64_t index, int64_t count) const;
  /// Fails (usage) where the groups do not fit a stack of `count` layers.
  void validate(int64_t count) const;
};

}  // namespace lithe
