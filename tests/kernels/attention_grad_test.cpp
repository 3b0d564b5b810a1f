#include "tests/kernels/attention_grad_kit.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_gradient;

// oracle: attn.qkv
TEST(AttentionGrad, ReferenceEqualsCentralDifferences) {
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.causal = true, .window = 2}}) {
    const AttentionGradArgs g = make_grad({.dtype = DType::f64,
                                           .segments = {{3, 3}, {2, 4}, {3, 2}},
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 3,
                                           .value_dim = 2,
                                           .mask = mask},
                                          DType::f64, false);
    attention_grad(g);
    const auto loss = [&] {
      attention(g.forward);
      double sum = 0;
      for (const AttentionSegment& s : g.forward.segments)
        for (int64_t i = s.query_row * g.dout.cols(); i < (s.query_row + s.query_rows) * g.dout.cols(); ++i)
          sum += value_at(g.dout, i) * value_at(g.forward.out, i);
      return sum;
    };
    expect_gradient(g.dq, g.forward.q, loss, "dq");
    expect_gradient(g.dk, g.forward.k, loss, "dk");
    expect_gradient(g.dv, g.forward.v, loss, "dv");
  }
}

// oracle: attn.local_window
TEST(AttentionGrad, HeadsWithMasksOfTheirOwn) {
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      expect_backward_right({.dtype = dtype,
                             .segments = {{140, 140}, {0, 3}, {17, 100}},
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 20,
                             .value_dim = 37,
                             .head_masks = {{.causal = true, .window = 3},
                                            {.causal = true},
                                            {.causal = true, .window = 70},
                                            {.causal = true, .window = 1}}},
                            dtype, true);
  }
}

// oracle: hpc.flash
TEST(AttentionGrad, EveryInstructionSetEqualsTheReference) {
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 5},
                                        AttentionMask{.causal = true, .window = 37}}) {
        expect_backward_right({.dtype = dtype, .segments = {{70, 70}, {1, 1}, {33, 64}, {5, 130}}, .mask = mask}, dtype,
                              false);
        expect_backward_right({.dtype = dtype,
                               .segments = {{129, 129}, {9, 65}, {20, 0}},
                               .heads = 2,
                               .head_dim = 64,
                               .value_dim = 64,
                               .mask = mask},
                              DType::f32, true);
        expect_backward_right({.dtype = dtype,
                               .segments = {{40, 20}, {0, 3}, {17, 100}},
                               .heads = 6,
                               .kv_heads = 2,
                               .head_dim = 20,
                               .value_dim = 37,
                               .mask = mask},
                              dtype, true);
      }
  }
}

}  // namespace
}  // namespace lithe::kernels
