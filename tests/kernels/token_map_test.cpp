#include "lithe/kernels/token_map/token_map.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

bool seen(const AttentionMask& mask, int64_t i, int64_t j) {
  if (mask.causal && j > i) return false;
  return mask.window == 0 || (j > i - mask.window && j < i + mask.window);
}

// Softmax and its gradient by their definitions in f64, on every implementation: a few roundings of each value.
TEST(TokenMap, EveryImplementationAgreesWithTheFormula) {
  for (const DType type : kTypes)
    for (const MapKind kind : {MapKind::softmax, MapKind::plain})
      for (const AttentionMask mask : {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 3},
                                       AttentionMask{.causal = true, .window = 5}})
        for (const int64_t T : {int64_t(1), int64_t(5), int64_t(17), int64_t(67)}) {
          const int64_t heads = 2;
          const double scale = 0.7;
          const Tensor logits = random_tensor({heads * T, T}, wide(type), 1),
                       dmap = random_tensor({heads * T, T}, wide(type), 2);
          Tensor exact = zeros(logits.shape(), DType::f64), dexact = zeros(logits.shape(), DType::f64);
          for (int64_t row = 0; row < heads * T; ++row) {
            double sum = 0, mean = 0;
            const auto entry = [&](int64_t j) { return row * T + j; };
            for (int64_t j = 0; j < T; ++j)
              if (seen(mask, row % T, j)) sum += std::exp(scale * at(logits, entry(j)));
            for (int64_t j = 0; j < T; ++j) {
              if (!seen(mask, row % T, j)) continue;
              const double logit = scale * at(logits, entry(j));
              set_value(exact, entry(j), kind == MapKind::plain ? logit : std::exp(logit) / sum);
            }
            for (int64_t j = 0; j < T; ++j) mean += at(exact, entry(j)) * at(dmap, entry(j));
            for (int64_t j = 0; j < T; ++j)
              if (seen(mask, row % T, j))
                set_value(dexact, entry(j),
                          kind == MapKind::plain ? scale * at(dmap, entry(j))
                                                 : scale * at(exact, entry(j)) * (at(dmap, entry(j)) - mean));
          }
          on_every_implementation([&](const std::string& name) {
            SCOPED_TRACE(testing::Message() << name << " " << type << " T " << T << " causal " << mask.causal
                                            << " window " << mask.window);
            const double grain = type == DType::bf16 ? 0x1p-8 : arithmetic(type);
            const Tensor map = empty(logits.shape(), type), dlogits = empty(logits.shape(), wide(type));
            token_map({.logits = logits, .map = map, .kind = kind, .scale = scale, .mask = mask});
            expect_close(map, exact, 32 * grain, "map");
            token_map_grad({.map = map, .dmap = dmap, .dlogits = dlogits, .kind = kind, .scale = scale, .mask = mask});
            expect_close(dlogits, dexact, 32 * double(T) * grain, "dlogits");
          });
        }
}

TEST(TokenMap, SafeForLogitsOfAThousand) {
  on_every_implementation([&](const std::string& name) {
    const Tensor logits = tensor_of({2, 2}, std::initializer_list<float>{1000.f, -1000.f, -1000.f, 1000.f});
    const Tensor map = empty({2, 2}, DType::f32);
    token_map({.logits = logits, .map = map});
    EXPECT_EQ(at(map, 0), 1) << name;
    EXPECT_EQ(at(map, 1), 0) << name;
    EXPECT_EQ(at(map, 3), 1) << name;
  });
}

TEST(BlockCopy, MovesBlocksBetweenStrides) {
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& name) {
      const int64_t N = 5, heads = 3, c = 7;
      const Tensor x = random_tensor({N, heads * c}, type, 1), out = empty({heads * N, c}, type), back = clone(x);
      block_copy({.x = x,
                  .out = out,
                  .blocks = heads,
                  .rows = N,
                  .cols = c,
                  .x_block = c,
                  .x_row = heads * c,
                  .out_block = N * c,
                  .out_row = c});
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t n = 0; n < N; ++n)
          for (int64_t i = 0; i < c; ++i)
            ASSERT_EQ(at(out, (h * N + n) * c + i), at(x, n * heads * c + h * c + i)) << name << " " << type;
      block_copy({.x = out,
                  .out = back,
                  .blocks = heads,
                  .rows = N,
                  .cols = c,
                  .x_block = N * c,
                  .x_row = c,
                  .out_block = c,
                  .out_row = heads * c,
                  .accumulate = true});
      for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(at(back, i), 2 * at(x, i)) << name << " " << type;
    });
}

TEST(BlockCopy, RefusesBlocksBeyondTheTensor) {
  const Tensor x = zeros({4, 4}, DType::f32), out = zeros({2, 2}, DType::f32);
  EXPECT_THROW(block_copy({.x = x, .out = out, .blocks = 1, .rows = 3, .cols = 2, .x_row = 4, .out_row = 2}), Error);
}

}  // namespace
}  // namespace lithe::kernels
