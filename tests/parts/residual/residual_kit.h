// Residuals alone, and branches for them to wrap.
#pragma once

#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {

constexpr int64_t kResidualWidth = 5;

/// A residual with layer norm; seed 0: the norm's weights as they start, else generic ones.
struct NormedResidual {
  explicit NormedResidual(const std::string& type, const std::string& norm_options = "{}", uint64_t seed = 4)
      : norm(bench.make<Norm>("layer", {.hidden_size = kResidualWidth}, norm_options, "norm")),
        part(bench.make<Residual>(type, {.norm = norm.get(), .dropout = &dropout})) {
    if (seed) kit::randomise(bench.parameters(), seed);
  }
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

/// A norm that changes nothing, so that F is what the test says.
struct NoNorm final : Norm {
  Var forward(const Var& x) const override { return x; }
};

/// F, and F = 0.
inline Var generic_branch(const Var& x, int64_t = 0) {
  return activate(kernels::Activation::silu,
                  linear(x, Var(kit::normal({kResidualWidth, kResidualWidth}, DType::f64, 8))));
}
inline Var zero_branch(const Var& x, int64_t = 0) { return scale(x, 0); }

inline const Tensor& residual_rows() {
  static const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  return x;
}

}  // namespace lithe
