#include "lithe/kernels/gemm/grouped_gemm.h"

#include <gtest/gtest.h>

#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_same_bits, testing_support::random_tensor;

struct Groups {
  std::vector<int64_t> offsets;
  int64_t K, N;
};
const Groups kGroups[] = {{{0, 1, 1, 4}, 5, 7}, {{0, 40, 45, 45, 130}, 64, 48}, {{0, 0, 70}, 33, 20}};

// Every group as a product of its own, to the bit.
TEST(GroupedGemm, IsAProductAGroup) {
  for (const auto& [offsets, K, N] : kGroups)
    for (const auto& [in, out] :
         {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::f64, DType::f64}})
      for (const bool transposed : {false, true})
        for (const bool accumulate : {false, true}) {
          const int64_t R = offsets.back();
          const Tensor a = random_tensor({R, K}, in, 1), got = random_tensor({R, N}, out, 2), want = clone(got);
          std::vector<Tensor> b, bias;
          for (uint64_t g = 0; g + 1 < offsets.size(); ++g) {
            b.push_back(random_tensor(transposed ? Shape{N, K} : Shape{K, N}, in, 3 + g));
            bias.push_back(random_tensor({N}, wide_of(out), 30 + g));
          }
          grouped_gemm({.a = a,
                        .c = got,
                        .b = b,
                        .bias = bias,
                        .offsets = offsets,
                        .transpose_b = transposed,
                        .accumulate = accumulate});
          for (size_t g = 0; g + 1 < offsets.size(); ++g)
            gemm({.a = a.slice(offsets[g], offsets[g + 1]),
                  .b = b[g],
                  .c = want.slice(offsets[g], offsets[g + 1]),
                  .bias = bias[g],
                  .transpose_b = transposed,
                  .accumulate = accumulate,
                  .rowwise = true});
          expect_same_bits(got, want, cat("rows ", R, " in ", in));
        }
}

TEST(GroupedGemm, GradientsOfTheMatrices) {
  for (const auto& [offsets, K, N] : kGroups)
    for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
      const int64_t R = offsets.back();
      const Tensor a = random_tensor({R, K}, type, 1), b = random_tensor({R, N}, type, 2);
      std::vector<Tensor> got, want;
      std::vector<bool> accumulate;
      for (size_t g = 0; g + 1 < offsets.size(); ++g) {
        got.push_back(random_tensor({K, N}, wide_of(type), 3 + g));
        want.push_back(clone(got.back()));
        accumulate.push_back(g % 2 == 1);
      }
      grouped_grad({.a = a, .b = b, .c = got, .accumulate = accumulate, .offsets = offsets});
      for (size_t g = 0; g + 1 < offsets.size(); ++g) {
        if (!accumulate[g]) fill_zero(want[g]);
        if (offsets[g] < offsets[g + 1])
          gemm({.a = a.slice(offsets[g], offsets[g + 1]),
                .b = b.slice(offsets[g], offsets[g + 1]),
                .c = want[g],
                .transpose_a = true,
                .accumulate = true,
                .rowwise = true});
        expect_same_bits(got[g], want[g], cat("group ", g, " of rows ", R, " in ", type));
      }
    }
}

// Workspace and cost are planned without knowing how the rows are grouped.
TEST(GroupedGemm, BooksTheSameWorkspaceForAnyGroups) {
  const auto peak = [](Device device, const std::vector<int64_t>& offsets, DType type) {
    const Tensor a = zeros({64, 600}, type, device), c = zeros({64, 40}, type, device);
    const std::vector<Tensor> b(2, zeros({600, 40}, type, device)), dw(2, zeros({600, 40}, DType::f32, device));
    Ledger& book = ledger(device);
    book.reset_peak();
    const int64_t before = book.current(MemoryClass::workspace);
    grouped_gemm({.a = a, .c = c, .b = b, .bias = {}, .offsets = offsets});
    const int64_t forward = book.peak(MemoryClass::workspace) - before;
    book.reset_peak();
    grouped_grad({.a = a, .b = c, .c = dw, .accumulate = {true, false}, .offsets = offsets});
    return std::pair{forward, book.peak(MemoryClass::workspace) - before};
  };
  const Isa best = usable_isa();
  for (const Isa isa : {best, Isa::amx_emulated})
    for (const DType type : {DType::f32, DType::bf16}) {
      limit_isa(isa);
      const auto even = peak(Device::meta, {0, 32, 64}, type);
      EXPECT_GT(even.first, 0);
      for (const auto& offsets : {std::vector<int64_t>{0, 64, 64}, {0, 1, 64}, {0, 32, 64}}) {
        EXPECT_EQ(peak(Device::cpu, offsets, type), even);
        EXPECT_EQ(peak(Device::meta, offsets, type), even);
      }
    }
  limit_isa(best);
}

TEST(GroupedGemm, RefusesOffsetsThatDoNotFit) {
  const Tensor a = zeros({3, 2}, DType::f32), c = zeros({3, 4}, DType::f32);
  const std::vector<Tensor> b(2, zeros({2, 4}, DType::f32));
  for (const auto& offsets : {std::vector<int64_t>{0, 3}, {0, 4, 3}, {0, 1, 2}})
    EXPECT_THROW(grouped_gemm({.a = a, .c = c, .b = b, .bias = {}, .offsets = offsets}), Error);
}

}  // namespace
}  // namespace lithe::kernels
