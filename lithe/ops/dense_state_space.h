// Discretisation of state spaces whose state matrix is dense (spec ssm.continuous, ssm.euler, ssm.bilinear, ssm.zoh).
#pragma once

#include "lithe/ops/state_space.h"

namespace lithe {

/// Of dz/dt = z A + s B, A [n, n], with steps of size D = e^log_step, log_step [1], f32 or f64:
///   z_t = z_{t-1} a + s_t B f;  euler a = I + D A, f = D I;  bilinear a = (I + D A / 2) (I - D A / 2)^-1,
///   f = D (I - D A / 2)^-1;  zoh a = e^(D A), f = D phi_1(D A), phi_1(M) = sum_k M^k / (k + 1)!, which is e^M - I over
///   M and needs no inverse of A.
/// Results {a, f}, [n, n] of A's type. Computed in f64, O(n^3); fails (bilinear) where I - D A / 2 is singular.
std::vector<Var> discretise_dense(Discretisation kind, const Var& a, const Var& log_step);

}  // namespace lithe
