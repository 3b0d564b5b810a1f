// What is said of a result that is no number.
#pragma once

#include <cmath>
#include <string>

#include "lithe/base/error.h"

namespace lithe {

/// Fails (exit code 1) unless `value`, which `what` names, is finite.
inline void check_finite_result(const char* operation, const std::string& what, double value) {
  check(std::isfinite(value), operation, what, " must be finite, it is ", value,
        "; the model's weights hold or make values that are not numbers: choose other weights, or precision f32");
}

}  // namespace lithe
