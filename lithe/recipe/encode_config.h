// Recipe section `encode`.
#pragma once

#include "lithe/base/fields.h"

namespace lithe {

struct EncodeConfig {
  std::string pooling = "mean";
  bool normalize = false;
  void fields(Fields& f) {
    f("pooling", pooling,
      "how the rows of a text become its vector: the first row (cls), the last row, or the mean or maximum of all rows",
      one_of({"cls", "last", "mean", "max"}));
    f("normalize", normalize, "scale every vector to length 1");
  }
};

}  // namespace lithe
