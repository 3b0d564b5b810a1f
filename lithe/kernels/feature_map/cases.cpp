#include "lithe/kernels/cases.h"
#include "lithe/kernels/feature_map/feature_map.h"

namespace lithe::kernels {

// Heads of 64.
void add_cases_feature_map(KernelCases& c) {
  constexpr int64_t heads = KernelCases::columns / 64;
  const FeatureMapArgs softmax{.x = c.x, .y = c.y, .heads = heads};
  FeatureMapArgs random = softmax;
  random.kind = FeatureMapArgs::Kind::exponential, random.centre = true;
  random.shift = c.cleared({KernelCases::rows, heads}, DType::f32);
  c.pass("softmax features", feature_map, softmax);
  c.pass("random features", feature_map, random);
  c.pass("softmax features backward", feature_map_grad,
         FeatureMapGradArgs{.kind = softmax.kind, .y = c.x, .dy = c.u, .dx = c.z, .heads = heads});
}

}  // namespace lithe::kernels
