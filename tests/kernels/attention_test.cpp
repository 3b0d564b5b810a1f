#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {
namespace {

const std::vector<DType> kFast = {DType::f32, DType::bf16};

TEST(Attention, EveryInstructionSetEqualsTheReference) {
  for (Isa isa : usable_sets()) {
    const WithIsa limit(isa);
    for (DType dtype : kFast)
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 5},
                                        AttentionMask{.causal = true, .window = 37}}) {
        // 64 and 65 keys end at and behind a tile, 129 queries behind a block; one query decodes.
        expect_forward_right({.dtype = dtype, .segments = {{70, 70}, {1, 1}, {33, 64}, {5, 130}}, .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{129, 129}, {9, 65}},
                              .heads = 2,
                              .head_dim = 64,
                              .value_dim = 64,
                              .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{40, 20}, {17, 100}},
                              .heads = 6,
                              .kv_heads = 2,
                              .head_dim = 20,
                              .value_dim = 36,
                              .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{1, 300}, {2, 7}, {1, 1}, {4, 2}},
                              .heads = 3,
                              .kv_heads = 3,
                              .head_dim = 24,
                              .value_dim = 40,
                              .mask = mask,
                              .own_keys = true});
      }
  }
}

}  // namespace
}  // namespace lithe::kernels
