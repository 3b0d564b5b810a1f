// One pass over memory each: activations, gated products, sums, casts, dropout, column sums.
// f64, f32 and bf16; arithmetic in f32 for bf16. `accumulate` adds to the output instead of setting it.
#pragma once

#include "lithe/base/random.h"
#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class Activation { relu, gelu, gelu_tanh, silu, tanh };

/// y = f(x + bias), f by kind: relu max(x,0); gelu x Phi(x) with erf; gelu_tanh its tanh form; silu
/// x/(1+e^-x); tanh. x, y [N,C]; bias [C], optional, in f32 (f64 for f64).
struct ActivationArgs {
  Activation kind;
  Tensor x, bias, y;
};
Cost cost(const ActivationArgs& args);
void activation(const ActivationArgs& args);

/// dx (+)= f'(x + bias) dy. dx may be dy (in place) when not accumulating.
struct ActivationGradArgs {
  Activation kind;
  Tensor x, bias, dy, dx;
  bool accumulate = false;
};
Cost cost(const ActivationGradArgs& args);
void activation_grad(const ActivationGradArgs& args);

/// y = f(gate) * up. All [N,C]. y may be gate or up.
struct GatedArgs {
  Activation kind;
  Tensor gate, up, y;
};
Cost cost(const GatedArgs& args);
void gated(const GatedArgs& args);

/// dgate = f'(gate) up dy, dup = f(gate) dy. dgate may be gate, dup may be up or dy (in place).
struct GatedGradArgs {
  Activation kind;
  Tensor gate, up, dy, dgate, dup;
};
Cost cost(const GatedGradArgs& args);
void gated_grad(const GatedGradArgs& args);

/// out = alpha a + beta b; b optional. Same shapes; out may be a or b. dtypes of a, b and out may
/// differ (f32 and bf16 mix; so this also casts).
struct AddArgs {
  Tensor a, b, out;
  double alpha = 1, beta = 1;
};
Cost cost(const AddArgs& args);
void add(const AddArgs& args);

/// out (+)= a * b, elementwise; same shapes and dtype; out may be a or b when not accumulating.
struct MulArgs {
  Tensor a, b, out;
  bool accumulate = false;
};
Cost cost(const MulArgs& args);
void mul(const MulArgs& args);

/// out[n,c] = x[n,c] * scale[c] + shift[c]; scale and shift [C] optional, f32 (f64 for f64). out may be x.
/// The columns of x repeat with period C: x [N, r*C] is treated as [N*r, C].
struct RowAffineArgs {
  Tensor x, scale, shift, out;
};
Cost cost(const RowAffineArgs& args);
void row_affine(const RowAffineArgs& args);

/// dx (+)= dy * scale; dscale[c] += sum_n x[n,c] dy[n,c]; dshift[c] += sum_n dy[n,c]. Any of dx,
/// dscale, dshift may be absent; dscale and dshift are f32 (f64 for f64) and always accumulate.
struct RowAffineGradArgs {
  Tensor x, scale, dy, dx, dscale, dshift;
  bool accumulate = false;
};
Cost cost(const RowAffineGradArgs& args);
void row_affine_grad(const RowAffineGradArgs& args);

/// y = x * keep / (1-p), keep drawn from element index by `key`: element i is kept when its 32-bit word
/// is >= p 2^32. The same call on dy is the gradient. y may be x; `accumulate` adds to y.
struct DropoutArgs {
  Tensor x, y;
  double p = 0;
  RandomKey key;
  bool accumulate = false;
};
Cost cost(const DropoutArgs& args);
void dropout(const DropoutArgs& args);

}  // namespace lithe::kernels
