// Recipe section `eval`.
#pragma once

#include "lithe/base/fields.h"

namespace lithe {

struct EvalConfig {
  int64_t context_length = 0, stride = 0, batch_tokens = 8192;
  std::string cache_dtype;  // empty: the rows of a window meet without a cache
  std::string exit;         // a rule of nn/exits.h; empty: every row runs all layers
  bool carry_state = false;
  void fields(Fields& f);
};

}  // namespace lithe
