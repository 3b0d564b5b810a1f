// Linear maps of rows.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe {

/// y [N,M] = x [N,K] w [K,M] + bias [M]; bias may be undefined. With `transposed`, w is [M,K].
/// When not training() a row's result does not depend on the other rows, to the bit.
Var linear(const Var& x, const Var& w, const Var& bias = {}, bool transposed = false);

/// A weight and its bias, which may be undefined.
struct LinearMap {
  Var w, bias;
};
/// linear() of the same rows by each: together where the weights are integers, which rounds the rows once.
std::vector<Var> linear_each(const Var& x, const std::vector<LinearMap>& maps);

/// f(x + bias) elementwise; bias [C] may be undefined.
Var activate(kernels::Activation kind, const Var& x, const Var& bias = {});

/// f(gate) * up, elementwise.
Var gated(kernels::Activation kind, const Var& gate, const Var& up);

/// linear(activate(kind, x, bias), w, out_bias), keeping only x: the activation is computed again in the
/// backward pass instead of being stored.
Var activated_linear(kernels::Activation kind, const Var& x, const Var& bias, const Var& w, const Var& out_bias = {});

/// linear(gated(kind, gate, up), w, out_bias), keeping only gate and up.
Var gated_linear(kernels::Activation kind, const Var& gate, const Var& up, const Var& w, const Var& out_bias = {});

}  // namespace lithe
