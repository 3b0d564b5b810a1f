#include "lithe/kernels/hash_pool/hash_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

struct Pool {
  int64_t N, D, bits, size, groups = groups_of(bits, size);
  DType type;
  Tensor codes = random_ints({N, code_width(bits)}, INT32_MIN, INT32_MAX, 1),
         table = random_tensor({int64_t(1) << size, D}, type, 2), weights = random_tensor({groups, D}, wide(type), 3),
         dout = random_tensor({N, D}, type, 4);
  Pool(int64_t n, int64_t d, int64_t all, int64_t group, DType dtype)
      : N(n), D(d), bits(all), size(group), type(dtype) {
    for (int64_t i = 0; i < N; ++i)
      codes.data<int32_t>()[i * codes.cols()] = i % 5 == 1 ? int32_t(i % 4) : code_ordinary;
  }
  bool special(int64_t n) const { return n % 5 == 1; }
  int64_t row(int64_t n, int64_t j) const {
    int64_t c = 0;
    for (int64_t b = j * size; b < std::min(bits, (j + 1) * size); ++b)
      c = 2 * c + (uint32_t(codes.data<int32_t>()[n * codes.cols() + 1 + b / 32]) >> (31 - b % 32) & 1);
    return c;
  }
};

const std::pair<int64_t, int64_t> kBitGroups[] = {{128, 10}, {12, 4}, {64, 1}, {33, 7}, {50, 11}};

TEST(HashPool, EveryImplementationSumsWeightedRows) {
  for (const DType type : kTypes)
    for (const auto& group : kBitGroups)
      for (const int64_t D : {1, 17, 64, 65, 200}) {
        const int64_t bits = group.first, size = group.second;
        const Pool p(11, D, bits, size, type);
        const Tensor exact = zeros({p.N, D}, DType::f64), sizes = zeros({p.N, D}, DType::f64);
        for (int64_t n = 0; n < p.N; ++n)
          for (int64_t j = 0; j < p.groups && !p.special(n); ++j)
            for (int64_t d = 0; d < D; ++d) {
              const double term = at(p.weights, j * D + d) * at(p.table, p.row(n, j) * D + d);
              set_value(exact, n * D + d, at(exact, n * D + d) + term);
              set_value(sizes, n * D + d, at(sizes, n * D + d) + std::abs(term));
            }
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " ", bits, " bits by ", size, " D ", D);
          const Guarded out(p.dout);
          hash_pool({p.codes, p.table, p.weights, out.tensor(), bits, size});
          expect_close(
              out.tensor(), exact,
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(at(exact, i)) +
                       double(p.groups + 1) * arithmetic(type) * at(sizes, i);
              },
              what);
          out.expect_untouched(what);
        });
      }
}

TEST(HashPoolGrad, EveryImplementationAddsToTableAndWeights) {
  for (const DType type : kTypes)
    for (const auto& group : kBitGroups)
      for (const int64_t D : {1, 17, 64, 65, 200}) {
        const int64_t bits = group.first, size = group.second;
        const Pool p(23, D, bits, size, type);
        const Tensor old_table = random_tensor(p.table.shape(), wide(type), 5),
                     old_weights = random_tensor(p.weights.shape(), wide(type), 6);
        const Tensor dtable = convert(old_table, DType::f64), dweights = convert(old_weights, DType::f64),
                     table_size = zeros(p.table.shape(), DType::f64),
                     weights_size = zeros(p.weights.shape(), DType::f64);
        for (int64_t i = 0; i < dtable.numel(); ++i) set_value(table_size, i, std::abs(at(dtable, i)));
        for (int64_t i = 0; i < dweights.numel(); ++i) set_value(weights_size, i, std::abs(at(dweights, i)));
        for (int64_t n = 0; n < p.N; ++n)
          for (int64_t j = 0; j < p.groups && !p.special(n); ++j)
            for (int64_t d = 0; d < D; ++d) {
              const int64_t t = p.row(n, j) * D + d, w = j * D + d;
              const double dy = at(p.dout, n * D + d);
              set_value(dtable, t, at(dtable, t) + dy * at(p.weights, w));
              set_value(table_size, t, at(table_size, t) + std::abs(dy * at(p.weights, w)));
              set_value(dweights, w, at(dweights, w) + dy * at(p.table, t));
              set_value(weights_size, w, at(weights_size, w) + std::abs(dy * at(p.table, t)));
            }
        // A row of a small table may be named by every group of every token.
        const double most = double(p.N * p.groups + 2) * arithmetic(type);
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " ", bits, " bits by ", size, " D ", D);
          const Guarded t(old_table), w(old_weights), only_t(old_table), only_w(old_weights);
          hash_pool_grad({p.codes, p.table, p.weights, p.dout, t.tensor(), w.tensor(), bits, size});
          hash_pool_grad({p.codes, p.table, p.weights, p.dout, only_t.tensor(), {}, bits, size});
          hash_pool_grad({p.codes, p.table, p.weights, p.dout, {}, only_w.tensor(), bits, size});
          expect_close(
              t.tensor(), dtable, [&](int64_t i) { return most * at(table_size, i); }, what + " table");
          expect_close(
              w.tensor(), dweights, [&](int64_t i) { return most * at(weights_size, i); }, what + " weights");
          expect_same_bits(only_t.tensor(), t.tensor(), what + " table alone");
          expect_same_bits(only_w.tensor(), w.tensor(), what + " weights alone");
          for (const Guarded* g : {&t, &w}) g->expect_untouched(what);
        });
      }
}

TEST(HashPoolGrad, ThreadsDoNotChangeABit) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Pool p(1500, 200, 128, 10, type);
    Tensor first_rows, first_table, first_weights;
    for (const int count : {1, 2, 3, 5}) {
      const WithThreads with(count);
      const Tensor out = empty_like(p.dout), dtable = zeros(p.table.shape(), DType::f32),
                   dweights = zeros(p.weights.shape(), DType::f32);
      hash_pool({p.codes, p.table, p.weights, out, p.bits, p.size});
      hash_pool_grad({p.codes, p.table, p.weights, p.dout, dtable, dweights, p.bits, p.size});
      if (!first_rows) first_rows = out, first_table = dtable, first_weights = dweights;
      const std::string what = cat(type, " on ", count, " threads");
      expect_same_bits(out, first_rows, what);
      expect_same_bits(dtable, first_table, what + ", table");
      expect_same_bits(dweights, first_weights, what + ", weights");
    }
  }
}

TEST(HashPool, RefusesWhatDoesNotFit) {
  const Pool p(3, 4, 12, 4, DType::f32);
  const auto error_of = [](const HashPoolArgs& args) -> std::string {
    try {
      hash_pool(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of({p.codes, p.weights, p.weights, p.dout, 12, 4}),
            "hash_pool: table must be f32[16,4] for 12 bits in groups of 4 and rows [3,4], got f32[3,4]");
  EXPECT_EQ(error_of({p.codes, p.table, p.table, p.dout, 12, 4}),
            "hash_pool: weights must be f32[3,4] for 12 bits in groups of 4 and rows [3,4], got f32[16,4]");
  EXPECT_EQ(error_of({p.codes, p.table, p.weights, p.dout, 12, 25}),
            "hash_pool: group_size must be between 1 and 24, got 25");
}

}  // namespace
}  // namespace lithe::kernels
