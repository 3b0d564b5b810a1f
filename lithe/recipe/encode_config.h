// Recipe section `encode`.
#pragma once

#include "lithe/base/fields.h"

namespace lithe {

struct EncodeConfig {
  std::string pooling = "mean";
  bool normalize = false;
  void fields(Fields& f) {
    f("pooling", pooling, "what stands for a text: cls, last, mean or max of its rows",
      one_of({"cls", "last", "mean", "max"}));
    f("normalize", normalize, "scale every row to length 1");
  }
};

}  // namespace lithe
