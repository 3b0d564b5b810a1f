#include "lithe/ops/fourier.h"

#include <cmath>
#include <map>
#include <numbers>

#include "lithe/kernels/gemm/gemm.h"

namespace lithe {
namespace {

struct Waves {
  Tensor cosine, sine;  // [n,n]: cos and sign * sin of 2 pi j k / n
};

Waves waves(int64_t n, double sign, DType dtype, Device device) {
  Waves w{empty({n, n}, dtype, device), empty({n, n}, dtype, device)};
  if (w.cosine.is_meta()) return w;
  std::vector<double> cosine(static_cast<size_t>(n)), sine(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * double(k) / double(n);
    cosine[size_t(k)] = std::cos(angle), sine[size_t(k)] = std::sin(angle);
  }
  dispatch_float(dtype, [&]<class T>() {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < n; ++k) {
        w.cosine.data<T>()[j * n + k] = T(cosine[size_t(j * k % n)]);
        w.sine.data<T>()[j * n + k] = T(sign * sine[size_t(j * k % n)]);
      }
  });
  return w;
}

// C_T x C_d - S_T x S_d: the real part of the product of both transforms. All four matrices are symmetric, so this is
// its own gradient.
Tensor transform(const Tensor& x, const Sequences& sequences, bool rowwise) {
  const Waves channels = waves(x.cols(), 1, x.dtype(), x.device());
  std::map<int64_t, Waves> tokens;
  const Tensor a = empty_like(x), b = empty_like(x), out = empty_like(x);
  kernels::gemm({.a = x, .b = channels.cosine, .c = a, .rowwise = rowwise});
  kernels::gemm({.a = x, .b = channels.sine, .c = b, .rowwise = rowwise});
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const int64_t begin = sequences.offset(s), end = sequences.offset(s + 1), n = end - begin;
    if (n == 0) continue;
    if (!tokens.count(n)) tokens[n] = waves(n, -1, x.dtype(), x.device());
    const Waves& w = tokens[n];
    kernels::gemm({.a = w.cosine, .b = a.slice(begin, end), .c = out.slice(begin, end), .rowwise = rowwise});
    kernels::gemm(
        {.a = w.sine, .b = b.slice(begin, end), .c = out.slice(begin, end), .accumulate = true, .rowwise = rowwise});
  }
  return out;
}

}  // namespace

Var fourier(const Var& x, const Sequences& sequences) {
  check(x.rows() == sequences.rows(), "fourier", "x ", x.shape(), " does not have the ", sequences.rows(),
        " rows of its sequences");
  return record("fourier", {x}, transform(x.value(), sequences, !training()),
                [sequences, x = x.ref()](const Tensor& dy, Grads& g) { g.give(x, transform(dy, sequences, false)); });
}

}  // namespace lithe
