// Numbers kept within bounds.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// min(max(x, -bound), bound), any shape; the gradient passes where x lies within. Not a number stays one.
Var clamp(const Var& x, double bound);

}  // namespace lithe
