// Steps that can be undone, and are undone in the backward pass instead of keeping what they read.
#pragma once

#include <functional>
#include <vector>

#include "lithe/autograd/var.h"

namespace lithe {

/// Two streams of rows of one shape and dtype.
struct Streams {
  Var other, read;  // the next step reads `read` and adds to `other`
};

/// f(x): what is added, of the shape of x (another dtype is converted), then any other results, which reversible()
/// gives out. As with recompute() it must be a pure function of x, of what it takes from_outside() and of parameters,
/// with equally many results each time. Empty, without results, or with an undefined first one: adds nothing.
using ReversibleStep = std::function<std::vector<Var>(const Var& x)>;

/// (x1, x2) -> (x2, x1 + f(x2)) for each step in turn; two of them are y1 = x1 + F(x2), y2 = x2 + G(y1). Only the last
/// streams are kept: backward goes from each step's to those before it, x1 = y - f(x2), running f once more and keeping
/// the activations of one step at a time. What it finds differs from what was by rounding: by the epsilon of the
/// streams' dtype a step, which f's own slope may amplify. `others`, where not null, receives each step's other
/// results.
Streams reversible(const std::vector<ReversibleStep>& steps, Streams x,
                   std::vector<std::vector<Var>>* others = nullptr);

/// The same results with everything kept, as any other operations: for steps that cannot run again.
Streams run_steps(const std::vector<ReversibleStep>& steps, Streams x, std::vector<std::vector<Var>>* others = nullptr);

}  // namespace lithe
