// Discretisation of diagonal state spaces (spec ssm.continuous, ssm.euler, ssm.bilinear, ssm.zoh).
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

enum class Discretisation { euler, bilinear, zoh };

/// Of dz/dt = A z + s with the diagonal A = -e^decay + i frequency, steps of size e^log_step:
///   z_t = a z_{t-1} + b s_t;  euler a = 1 + l, b = D;  bilinear a = (1 + l/2) / (1 - l/2), b = D / (1 - l/2);
///   zoh a = e^l, b = D (e^l - 1) / l, D at l = 0;  l = D A, D = e^log_step.
/// decay [n], frequency [n] or undefined (real), log_step [n] or [1], f32 or f64. Results {a, b}, [n], or with
/// frequencies [2n]: real parts, then imaginary ones. Computed in f64.
std::vector<Var> discretise(Discretisation kind, const Var& decay, const Var& frequency, const Var& log_step);

}  // namespace lithe
