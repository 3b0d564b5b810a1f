#include "lithe/ops/norm.h"

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using kernels::NormKind;

TEST(Normalise, Gradients) {
  for (NormKind kind : {NormKind::layer_sigma, NormKind::layer_variance, NormKind::rms}) {
    const std::vector<Tensor> inputs{kit::normal({4, 5}, DType::f64, 1), kit::normal({5}, DType::f64, 2),
                                     kit::normal({5}, DType::f64, 3)};
    kit::expect_gradients([=](const Vars& in) { return normalise(kind, in[0], in[1], in[2], 0.01); }, inputs,
                          cat("kind ", int(kind)));
    kit::expect_gradients([=](const Vars& in) { return normalise(kind, in[0], in[1], {}, 0.01); }, inputs,
                          cat("kind ", int(kind)));
    kit::expect_gradients([=](const Vars& in) { return normalise(kind, in[0], in[1], in[1], 0.01); }, inputs,
                          cat("kind ", int(kind), ", weight is bias"));
    kit::expect_gradients([=](const Vars& in) { return add(normalise(kind, in[0], in[1], in[2], 0.01), in[0]); },
                          inputs, cat("kind ", int(kind), " beside a skip"));
  }
}

TEST(Normalise, ConstantRowsHaveFiniteGradients) {
  for (NormKind kind : {NormKind::layer_sigma, NormKind::layer_variance}) {
    const auto out = kit::differentiate([=](const Vars& in) { return normalise(kind, in[0], in[1], {}, 1e-5); },
                                        {kit::tensor_f64({1, 3}, {2, 2, 2}), kit::tensor_f64({3}, {1, 1, 1})},
                                        kit::tensor_f64({1, 3}, {1, 0, 0}));
    EXPECT_EQ(kit::values(out.y), (std::vector<double>{0, 0, 0}));
    for (double g : kit::values(out.gradients[0])) EXPECT_TRUE(std::isfinite(g)) << int(kind);
  }
}

TEST(Normalise, ErrorsNameBothShapes) {
  const Var x(kit::normal({2, 4}, DType::f64, 1)), w(kit::normal({3}, DType::f64, 2));
  const std::string text = kit::error_of([&] { normalise(NormKind::rms, x, w, {}, 1e-5); });
  EXPECT_NE(text.find("[4]"), std::string::npos) << text;
  EXPECT_NE(text.find("[2,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("[3]"), std::string::npos) << text;
}

}  // namespace
}  // namespace lithe
