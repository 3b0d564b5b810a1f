// Gradients against central differences in f64 (spec oracle G).
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

using VarFunction = std::function<Var(const std::vector<Var>&)>;

/// Compares the gradient of sum(w . f(inputs)), w fixed random numbers, with central differences (step
/// 1e-5) in every element of every input. All inputs f64. Returns the largest error, relative to the
/// larger of 1 and the largest gradient of that input, and says in *where which element it was.
double gradcheck(const VarFunction& f, const std::vector<Tensor>& inputs, std::string* where = nullptr);

}  // namespace lithe
