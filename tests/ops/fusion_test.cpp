// Operations of one pass against what they are composed of: values, gradients, and the bytes that they move.
#include <cmath>
#include <limits>

#include "lithe/kernels/kernel.h"
#include "lithe/ops/attention.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/norm.h"
#include "lithe/ops/token_map.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using kernels::NormKind;
using Function = std::function<Var(const Vars&)>;

void expect_alike(const Function& fused, const Function& composed, const std::vector<Tensor>& inputs, double within) {
  const Shape shape = composed({inputs.begin(), inputs.end()}).shape();
  const Tensor dy = kit::normal(shape, inputs[0].dtype(), 7);
  const kit::Outcome a = kit::differentiate(fused, inputs, dy), b = kit::differentiate(composed, inputs, dy);
  EXPECT_LE(kit::largest_difference(a.y, b.y), within);
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_LE(kit::largest_difference(a.gradients[i], b.gradients[i]), within) << i;
}

// Of a run on tensors without numbers, which is what the meter counts.
double bytes_of(const Function& f, const std::vector<Tensor>& inputs) {
  Vars in;
  for (const Tensor& x : inputs) in.push_back(empty(x.shape(), x.dtype(), Device::meta));
  const kernels::CostMeter meter;
  f(in);
  return meter.total().bytes;
}

// oracle: hpc.fusion
TEST(Fusion, ResidualAndNorm) {
  for (const NormKind kind : {NormKind::layer_sigma, NormKind::layer_variance, NormKind::rms})
    for (const DType dtype : {DType::f64, DType::f32}) {
      const std::vector<Tensor> inputs{kit::normal({6, 48}, dtype, 1), kit::normal({6, 48}, dtype, 2),
                                       kit::normal({48}, dtype, 3), kit::normal({48}, dtype, 4)};
      const Function fused = [=](const Vars&in) { return normalise_sum(kind, in[0], in[1], in[2], in[3], 1e-5); },
                     composed = [=](const Vars&in) { return normalise(kind, add(in[0], in[1]), in[2], in[3], 1e-5); };
      expect_alike(fused, composed, inputs, dtype == DType::f64 ? 1e-12 : 2e-5);
      EXPECT_LT(bytes_of(fused, inputs), bytes_of(composed, inputs));
    }
  const std::vector<Tensor> inputs{random({4, 5}, 1), random({4, 5}, 2), random({5}, 3), random({5}, 4)};
  kit::expect_gradients(
      [](const Vars& in) { return normalise_sum(NormKind::layer_sigma, in[0], in[1], in[2], in[3], 0.01); }, inputs);
  kit::expect_gradients([](const Vars& in) { return normalise_sum(NormKind::rms, in[0], in[0], in[2], {}, 0.01); },
                        inputs);
  kit::expect_gradients(
      [](const Vars& in) { return add(normalise_sum(NormKind::rms, in[0], in[1], in[2], {}, 0.01), in[0]); }, inputs);
}

TEST(Fusion, BiasAndActivation) {
  const std::vector<Tensor> inputs{random({6, 5}, 1), random({5}, 2), random({5, 3}, 3)};
  for (const auto kind : {kernels::Activation::gelu, kernels::Activation::silu}) {
    const Function fused = [=](const Vars&in) { return activate(kind, in[0], in[1]); },
                   composed = [=](const Vars&in) { return activate(kind, row_affine(in[0], {}, in[1])); };
    expect_alike(fused, composed, {inputs[0], inputs[1]}, 1e-12);
    EXPECT_LT(bytes_of(fused, inputs), bytes_of(composed, inputs));
    expect_alike([=](const Vars& in) { return activated_linear(kind, in[0], in[1], in[2]); },
                 [=](const Vars& in) { return linear(activate(kind, row_affine(in[0], {}, in[1])), in[2]); }, inputs,
                 1e-12);
  }
}

TEST(Fusion, ScaleMaskAndSoftmax) {
  const std::vector<Tensor> inputs{random({9, 8}, 1), random({9, 8}, 2), random({9, 8}, 3)};
  const AttendOptions options{.heads = 2, .kv_heads = 2, .scale = 0.5, .mask = {.causal = true}};
  const auto sequences = [](const Vars& in) { return Sequences({0, 5, 9}, {}, in[0].device()); };
  const Function fused = [&](const Vars& in) {
    return attend(in[0], in[1], in[2], sequences(in), sequences(in), options);
  };
  const Function composed = [&](const Vars& in) {
    return attend_by_maps(in[0], in[1], in[2], sequences(in), options, [](const Var& map, int64_t) { return map; });
  };
  expect_alike(fused, composed, inputs, 1e-12);
  EXPECT_LT(bytes_of(fused, inputs), bytes_of(composed, inputs));
}

}  // namespace
}  // namespace lithe
