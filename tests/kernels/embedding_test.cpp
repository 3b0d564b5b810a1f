#include "lithe/kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

TEST(Gather, EveryImplementationReadsScalesAndAdds) {
  for (const DType table_type : kTypes)
    for (const DType out_type : kTypes)
      for (const bool accumulate : {false, true})
        for (const int64_t D : kOddSizes) {
          const int64_t N = 7, V = 5;
          const Tensor table = random_tensor({V, D}, table_type, 1), ids = random_ints({N}, -1, V, 2),
                       old = random_tensor({N, D}, out_type, 3);
          const double scale = accumulate ? -0.7 : 1;
          const bool f64 = table_type == DType::f64 || out_type == DType::f64;
          const Tensor exact = empty({N, D}, DType::f64);
          for (int64_t i = 0; i < N * D; ++i)
            set_value(exact, i,
                      (at(ids, i / D) < 0 ? 0 : scale * at(table, int64_t(at(ids, i / D)) * D + i % D)) +
                          (accumulate ? at(old, i) : 0));
          on_every_implementation([&](const std::string& isa) {
            const std::string what =
                cat(isa, " ", table_type, "->", out_type, " D ", D, accumulate ? " accumulate" : "");
            const Guarded out(old);
            gather({table, ids, out.tensor(), scale, accumulate});
            expect_close(
                out.tensor(), exact,
                [&](int64_t i) {
                  return epsilon_of(out_type) * std::abs(at(exact, i)) +
                         (accumulate ? 2 * (f64 ? 0x1p-53 : kF32) * (std::abs(at(exact, i)) + 2 * std::abs(at(old, i)))
                                     : 0);
                },
                what);
            out.expect_untouched(what);
          });
        }
}

// oracle: embed.token
TEST(ScatterAdd, SumsOverTheOccurrencesOfAnId) {
  for (const DType type : kTypes)
    for (const int64_t D : kOddSizes) {
      const int64_t N = 50, V = 6, skip = 2;
      const Tensor dout = random_tensor({N, D}, type, 4), ids = random_ints({N}, -1, V - 1, 5),
                   old = random_tensor({V, D}, wide(type), 6);
      const double scale = 0.5;
      const Tensor exact = convert(old, DType::f64), size = zeros({V, D}, DType::f64);
      for (int64_t n = 0; n < N; ++n)
        for (int64_t d = 0; d < D; ++d) {
          const int64_t id = int64_t(at(ids, n)), i = id * D + d;
          if (id < 0) continue;
          set_value(size, i, at(size, i) + std::abs(scale * at(dout, n * D + d)));
          if (id != skip) set_value(exact, i, at(exact, i) + scale * at(dout, n * D + d));
        }
      on_every_implementation([&](const std::string& isa) {
        const std::string what = cat(isa, " ", type, " D ", D);
        const Guarded dtable(old);
        scatter_add({dout, ids, dtable.tensor(), scale, skip});
        expect_close(
            dtable.tensor(), exact,
            [&](int64_t i) { return double(N + 2) * arithmetic(type) * (at(size, i) + std::abs(at(old, i))); }, what);
        expect_same_bits(dtable.tensor().slice(skip, skip + 1), old.slice(skip, skip + 1), what + " padding row");
        expect_same_bits(dtable.tensor().slice(V - 1, V), old.slice(V - 1, V), what + " unused row");
        dtable.expect_untouched(what);
      });
    }
}

TEST(ScatterAdd, IsTheGradientOfGather) {
  const Tensor table = random_tensor({4, 3}, DType::f64, 7), ids = random_ints({6}, 0, 4, 8),
               dout = random_tensor({6, 3}, DType::f64, 9);
  const Tensor dtable = zeros({4, 3}, DType::f64), out = empty({6, 3}, DType::f64);
  scatter_add({dout, ids, dtable, 1.5});
  expect_gradient(
      dtable, table,
      [&] {
        gather({table, ids, out, 1.5});
        double sum = 0;
        for (int64_t i = 0; i < out.numel(); ++i) sum += at(out, i) * at(dout, i);
        return sum;
      },
      "dtable");
}

// Additions to a row of the table keep the order of n, so the threads cannot matter.
TEST(ScatterAdd, ThreadsDoNotChangeABit) {
  const int64_t N = 3000, V = 20, D = 65;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor dout = random_tensor({N, D}, type, 10), ids = random_ints({N}, 0, V, 11);
    Tensor first;
    for (const int count : {1, 2, 3, 5}) {
      const WithThreads with(count);
      const Tensor dtable = zeros({V, D}, DType::f32), out = empty({N, D}, type);
      scatter_add({dout, ids, dtable});
      gather({dtable, ids, out});
      if (!first) first = dtable;
      expect_same_bits(dtable, first, cat(type, " on ", count, " threads"));
    }
  }
}

TEST(Gather, RefusesWhatDoesNotFit) {
  try {
    gather({zeros({4, 3}, DType::f32), zeros({2}, DType::i32), zeros({2, 5}, DType::f32)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "gather: out must have the 3 columns and the device of table [4,3], got [2,5]");
  }
}

}  // namespace
}  // namespace lithe::kernels
