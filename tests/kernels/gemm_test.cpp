#include "lithe/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "lithe/base/threads.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"
#include "tests/support/errors.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_same_bits, testing_support::Guarded, testing_support::random_tensor;

std::vector<double> values(const Tensor& x) {
  std::vector<double> out(static_cast<size_t>(x.numel()));
  dispatch_float(x.dtype(), [&]<class T>() {
    for (size_t i = 0; i < out.size(); ++i) out[i] = double(x.data<T>()[i]);
  });
  return out;
}

// Normal numbers drawn from a pool, because drawing each anew takes longer than the products.
Tensor random(Shape shape, DType dtype, uint64_t seed) {
  static const std::vector<double> pool = values(random_tensor({10007}, DType::f32, 1));
  const Tensor x = empty(shape, dtype);
  dispatch_float(dtype, [&]<class T>() {
    for (int64_t i = 0; i < x.numel(); ++i) x.data<T>()[i] = T(float(pool[(size_t(i) + seed * 1237) % pool.size()]));
  });
  return x;
}

struct Types {
  DType input, output;
};
constexpr Types kFastTypes[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

struct GemmCase {
  Types types;
  int64_t M, N, K;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false, rowwise = false;
};
std::ostream& operator<<(std::ostream& out, const GemmCase& c) {
  return out << name_of(usable_isa()) << " " << c.types.input << "->" << c.types.output << " M " << c.M << " N " << c.N
             << " K " << c.K << (c.transpose_a ? " transpose_a" : "") << (c.transpose_b ? " transpose_b" : "")
             << (c.accumulate ? " accumulate" : "") << (c.bias ? " bias" : "") << (c.rowwise ? " rowwise" : "");
}

GemmArgs make(const GemmCase& c, Device device = Device::cpu) {
  const auto tensor = [&](Shape shape, DType dtype, uint64_t seed) {
    return device == Device::meta ? empty(shape, dtype, device) : random(shape, dtype, seed);
  };
  GemmArgs args;
  args.a = tensor(c.transpose_a ? Shape{c.K, c.M} : Shape{c.M, c.K}, c.types.input, 1);
  args.b = tensor(c.transpose_b ? Shape{c.N, c.K} : Shape{c.K, c.N}, c.types.input, 2);
  args.c = tensor({c.M, c.N}, c.types.output, 3);
  if (c.bias) args.bias = tensor({c.N}, c.types.input == DType::f64 ? DType::f64 : DType::f32, 4);
  args.transpose_a = c.transpose_a;
  args.transpose_b = c.transpose_b;
  args.accumulate = c.accumulate;
  args.rowwise = c.rowwise;
  return args;
}

// Runs f with each instruction set of this machine.
template <class F>
void with_each_isa(F&& f) {
  const std::vector<Isa> sets = usable_sets_and_tiles();
  const Isa best = usable_isa();
  for (const Isa isa : sets) {
    limit_isa(isa);
    f();
  }
  limit_isa(best);
}

// Against the sum in double, with a bound that holds for any order of summation in f32:
// (K+2) eps (sum |a||b| + |c| + |bias|), and the rounding of the result.
void expect_right(const GemmCase& c) {
  SCOPED_TRACE(testing::Message() << c);
  GemmArgs args = make(c);
  const Guarded guarded(args.c);
  args.c = guarded.tensor();
  const auto a = values(args.a), b = values(args.b), before = values(args.c);
  const auto bias = c.bias ? values(args.bias) : std::vector<double>(size_t(c.N));
  gemm(args);
  guarded.expect_untouched("c");
  const auto got = values(args.c);
  const double sum_epsilon = epsilon_of(c.types.input == DType::f64 ? DType::f64 : DType::f32);
  for (int64_t m = 0; m < c.M; ++m)
    for (int64_t n = 0; n < c.N; ++n) {
      double sum = bias[size_t(n)], size = std::abs(sum);
      const auto add = [&](double term) { sum += term, size += std::abs(term); };
      for (int64_t k = 0; k < c.K; ++k)
        add(a[size_t(c.transpose_a ? k * c.M + m : m * c.K + k)] *
            b[size_t(c.transpose_b ? n * c.K + k : k * c.N + n)]);
      if (c.accumulate) add(before[size_t(m * c.N + n)]);
      const double bound =
          double(c.K + 2) * sum_epsilon * size * 1.01 + epsilon_of(c.types.output) * std::abs(sum) * 1.01;
      ASSERT_NEAR(got[size_t(m * c.N + n)], sum, bound) << "at [" << m << "," << n << "]";
    }
}

TEST(Gemm, AgreesWithTheExactSumInEveryForm) {
  constexpr int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 17},   {17, 33, 100}, {33, 17, 3},
                                  {100, 65, 33}, {3, 100, 65}, {40, 70, 1}};
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (int flags = 0; flags < 32; ++flags)
        for (const auto& s : sizes)
          expect_right({types, s[0], s[1], s[2], bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8),
                        bool(flags & 16)});
  });
}

TEST(Gemm, AgreesWithTheExactSumOverSeveralBlocks) {
  // More than one block of k, of columns and, with sums kept beside a bf16 result, of rows.
  constexpr int64_t sizes[][3] = {{35, 333, 801}, {3, 400, 1601}, {520, 7, 801}};
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (const bool transpose_b : {false, true})
        for (const auto& s : sizes)
          expect_right({types, s[0], s[1], s[2], false, transpose_b, s[0]<10, s[0]> 10, true});
    for (const Types types : kFastTypes) expect_right({types, 35, 333, 801, true, false, true, false, false});
  });
}

TEST(Gemm, TilesAgreeWithTheExactSumOverSeveralChunks) {
  // More rows, columns and k than are packed at once, and a last chunk of one tile or less; threads with columns of
  // their own; rows that are read in place, and rows that share few sets of a cache.
  constexpr int64_t sizes[][3] = {{1045, 37, 40}, {35, 1210, 33},  {34, 40, 4130}, {1030, 35, 4100},
                                  {80, 40, 64},   {40, 600, 1024}, {9, 2090, 4100}};
  const bool real = usable_sets().front() == Isa::amx;
  const Isa best = usable_isa();
  limit_isa(real ? Isa::amx : Isa::amx_emulated);
  for (const auto& s : sizes)
    for (const int flags : {0, 1, 2, 3, 12})
      if (s[2] < 4096 || flags == 3 || flags == 12)
        expect_right({kFastTypes[flags == 12 ? 2 : 1], s[0], s[1], s[2], bool(flags & 1), bool(flags & 2),
                      bool(flags & 4), bool(flags & 8), false});
  limit_isa(best);
}

TEST(Gemm, ReferenceAgreesWithTheExactSum) {
  force_reference(true);
  for (const Types types : {Types{DType::f64, DType::f64}, kFastTypes[0], kFastTypes[1], kFastTypes[2]})
    for (int flags = 0; flags < 16; ++flags)
      expect_right({types, 7, 5, 33, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8), false});
  force_reference(false);
}

TEST(Gemm, RowsHaveTheSameBitsInAnyBatch) {
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (const bool transpose_b : {false, true})
        for (const auto& [N, K] : {std::pair<int64_t, int64_t>{129, 100}, {40, 1601}, {350, 65}}) {
          const GemmCase all{types, 530, N, K, false, transpose_b, false, true, true};
          SCOPED_TRACE(testing::Message() << all);
          const GemmArgs args = make(all);
          gemm(args);
          for (const int64_t M : {1, 2, 7, 15, 32, 33, 47, 100, 300})
            for (const int64_t at : {int64_t(0), int64_t(13), 530 - M}) {
              GemmArgs some = args;
              some.a = args.a.slice(at, at + M);
              some.c = empty({M, N}, types.output);
              gemm(some);
              expect_same_bits(some.c, args.c.slice(at, at + M), cat(M, " rows from ", at));
            }
        }
  });
}

PackedMatrix packed(const Tensor& b, bool by_rows, int64_t piece = 1 << 20) {
  PackedMatrix m{.format = b.dtype() == DType::f32 ? PackedFormat::f32 : PackedFormat::bf16,
                 .outputs = b.dim(by_rows ? 0 : 1),
                 .inputs = b.dim(by_rows ? 1 : 0),
                 .by_rows = by_rows,
                 .name = "w"};
  allocate(m, Device::cpu);
  for (int64_t first = 0; first < b.rows(); first += piece)
    pack_rows(m, first, b.slice(first, std::min(first + piece, b.rows())));
  return m;
}

TEST(Gemm, PackedMatricesGiveTheSameBits) {
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (const bool transpose_b : {false, true})
        for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 1}, {33, 2}, {70, 100}, {300, 1601}, {129, 4100}})
          for (const int64_t M : {1, 2, 14, 15, 33, 530}) {
            if (M > 100 && N < 300) continue;
            const GemmCase c{types, M, N, K, false, transpose_b, M % 2 == 0, N > 1, true};
            SCOPED_TRACE(testing::Message() << c);
            const GemmArgs plain = make(c);
            GemmArgs args = plain;
            const PackedMatrix w = packed(plain.b, transpose_b, 7);
            const Guarded guarded(plain.c);
            args.b = {}, args.packed = &w, args.c = guarded.tensor();
            gemm(plain);
            gemm(args);
            guarded.expect_untouched("c");
            expect_same_bits(args.c, plain.c, "packed");
          }
  });
}

TEST(Gemm, PackedMatricesKeepTheirNumbers) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool by_rows : {false, true})
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {31, 3}, {64, 33}, {5, 97}})
        for (const int64_t piece : {1, 3, 32, 100}) {
          const Tensor w = random({rows, cols}, dtype, 5);
          const PackedMatrix m = packed(w, by_rows, piece);
          expect_same_bits(unpacked(m), w, cat(dtype, w.shape(), by_rows ? " by rows" : "", " in pieces of ", piece));
          EXPECT_EQ(m.data.bytes(), m.panels() * m.panel_bytes());
        }
  // Converted on the way, and the reference reads them too.
  const Tensor w = random({40, 35}, DType::f32, 5);
  const PackedMatrix wide = packed(w, false);
  PackedMatrix narrow = wide;
  narrow.format = PackedFormat::bf16;
  allocate(narrow, Device::cpu);
  pack_rows(narrow, 0, w);
  expect_same_bits(unpacked(narrow), convert(w, DType::bf16), "bf16");
  force_reference(true);
  const GemmArgs plain = make({kFastTypes[0], 3, 35, 40, false, false, false, true, true});
  GemmArgs args = plain;
  const PackedMatrix b = packed(plain.b, false);
  args.b = {}, args.packed = &b, args.c = empty({3, 35}, DType::f32);
  gemm(plain);
  gemm(args);
  expect_same_bits(args.c, plain.c, "reference");
  force_reference(false);
}

TEST(Gemm, RowsHaveTheSameBitsWithAnyNumberOfThreads) {
  const int before = threads();
  for (const Types types : kFastTypes)
    for (const int64_t M : {1, 20, 150}) {
      const GemmCase c{types, M, 333, 257, false, M == 20, false, false, true};
      set_threads(1);
      const GemmArgs one = make(c);
      gemm(one);
      for (const int n : {2, 3, 5}) {
        set_threads(n);
        const GemmArgs more = make(c);
        gemm(more);
        expect_same_bits(more.c, one.c, cat(c, " with ", n, " threads"));
      }
    }
  set_threads(before);
}

TEST(Gemm, IsCompleteWithManyThreadsAndWithFewerThanAskedFor) {
  const GemmCase c{kFastTypes[0], 1500, 640, 16, false, false, false, false, true};
  const GemmArgs one = make(c), many = make(c), fewer = make(c);
  {
    const WithThreads threads(1);
    gemm(one);
  }
  const WithThreads threads(100);  // more than parallel_items has ranges
  gemm(many);
  expect_same_bits(many.c, one.c, "100 threads");
#pragma omp teams num_teams(1) thread_limit(1)
  gemm(fewer);
  expect_same_bits(fewer.c, one.c, "one of 100 threads");
}

TEST(Gemm, RepeatsItsBits) {
  for (const Types types : kFastTypes)
    for (int flags = 0; flags < 4; ++flags) {
      const GemmCase c{types, 96, 200, 777, bool(flags & 1), bool(flags & 2), true, false, false};
      const GemmArgs first = make(c);
      gemm(first);
      for (int i = 0; i < 3; ++i) {
        const GemmArgs again = make(c);
        gemm(again);
        expect_same_bits(again.c, first.c, cat(c));
      }
    }
}

TEST(Gemm, MetaBooksTheWorkspaceOfARealRun) {
  const Isa best = usable_isa();
  for (const Isa isa : {best, Isa::amx_emulated}) {
    limit_isa(isa);
    for (const Types types : {Types{DType::f64, DType::f64}, kFastTypes[0], kFastTypes[1], kFastTypes[2]})
      for (int flags = 0; flags < 16; ++flags)
        for (const int64_t M : {1, 40, 600}) {
          if (types.input == DType::f64 && M > 1) continue;
          const GemmCase c{types,          M, 60, 900, bool(flags & 1), bool(flags & 2), bool(flags & 4), false,
                           bool(flags & 8)};
          int64_t peak[2], all[2];
          for (const Device device : {Device::cpu, Device::meta}) {
            const GemmArgs args = make(c, device);
            Ledger& books = ledger(device);
            books.reset_peak();
            const int64_t before = books.current();
            gemm(args);
            peak[int(device)] = books.peak(MemoryClass::workspace);
            all[int(device)] = books.peak() - before;
            EXPECT_EQ(books.current(), before);
          }
          EXPECT_EQ(peak[0], peak[1]) << c;
          EXPECT_EQ(all[0], all[1]) << c;
          EXPECT_EQ(all[0], peak[0]) << c;
        }
  }
  limit_isa(best);
}

TEST(Gemm, MetaBooksTheCost) {
  CostMeter meter;
  gemm(make({kFastTypes[1], 10, 20, 30, false, false, true, true}, Device::meta));
  ASSERT_EQ(meter.entries().size(), 1u);
  EXPECT_EQ(meter.entries()[0].kernel, "gemm");
  EXPECT_EQ(meter.total().flops, 2.0 * 10 * 20 * 30);
  EXPECT_EQ(meter.total().bytes, 10 * 30 * 2 + 30 * 20 * 2 + 2 * 10 * 20 * 4 + 20 * 4);
}

TEST(Gemm, WithoutProductsLeavesBiasAndC) {
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (const int64_t M : {1, 40})
        for (int flags = 0; flags < 16; ++flags)
          expect_right({types, M, 37, 0, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8)});
  });
  for (const Types types : kFastTypes) {
    gemm(make({types, 0, 3, 4}));
    gemm(make({types, 3, 0, 4}));
  }
}

TEST(Gemm, KeepsNonFiniteNumbersInTheirRowAndColumn) {
  with_each_isa([&] {
    for (const Types types : kFastTypes)
      for (const int64_t M : {5, 50})
        for (const bool transpose_b : {false, true})
          for (const bool rowwise : {false, true}) {
            const GemmCase c{types, M, 43, 61, false, transpose_b, false, false, rowwise};
            const GemmArgs args = make(c);
            set_value(args.a, 2 * c.K + 60, std::numeric_limits<double>::quiet_NaN());
            set_value(args.b, transpose_b ? 42 * c.K + 60 : 60 * c.N + 42, std::numeric_limits<double>::infinity());
            gemm(args);
            const auto got = values(args.c);
            for (int64_t m = 0; m < M; ++m)
              for (int64_t n = 0; n < c.N; ++n) {
                const double x = got[size_t(m * c.N + n)];
                ASSERT_EQ(std::isnan(x), m == 2) << c << " [" << m << "," << n << "]";
                ASSERT_EQ(std::isinf(x), m != 2 && n == 42) << c << " [" << m << "," << n << "]";
              }
          }
  });
}

TEST(Gemm, ErrorsNameTheOperands) {
  GemmArgs args = make({kFastTypes[0], 4, 5, 3});
  args.b = empty({4, 5}, DType::f32);
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: op(a) must be [M,K], op(b) [K,N] and c [M,N], got a f32[4,3], b f32[4,5], c f32[4,5]");
  args = make({kFastTypes[0], 4, 5, 3});
  args.transpose_a = true;
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: op(a) must be [M,K], op(b) [K,N] and c [M,N], got a f32[4,3] transposed, b f32[3,5], c f32[4,5]");
  args = make({kFastTypes[1], 4, 5, 3});
  args.b = empty({3, 5}, DType::f32);
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: types must be f64 x f64 -> f64, f32 x f32 -> f32 or bf16 x bf16 -> bf16 or f32, got a bf16[4,3], b "
            "f32[3,5], c f32[4,5]");
  args = make({kFastTypes[0], 4, 5, 3});
  args.bias = empty({4}, DType::f32);
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: bias must be f32[5], got f32[4] with a f32[4,3], b f32[3,5], c f32[4,5]");
  args = make({kFastTypes[0], 4, 5, 3});
  args.c = empty({4, 5}, DType::f32, Device::meta);
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: a, b, c and bias must all be on the meta device or none: a f32[4,3], b f32[3,5], c f32[4,5]");
  args.c = {};
  EXPECT_EQ(kit::error_of([&] { gemm(args); }), "gemm: a, b and c must be tensors");
  args = make({kFastTypes[0], 4, 5, 3});
  const PackedMatrix w = packed(args.b, false);
  args.packed = &w;
  const std::string wrong =
      "gemm: a packed matrix must hold numbers, be packed the way it is read, and stand in place of b";
  EXPECT_EQ(kit::error_of([&] { gemm(args); }), wrong);  // beside b
  args.b = {}, args.rowwise = true, args.transpose_b = true;
  EXPECT_EQ(kit::error_of([&] { gemm(args); }), wrong);  // by columns
  args.transpose_b = false, args.a = empty({4, 4}, DType::f32);
  EXPECT_EQ(kit::error_of([&] { gemm(args); }),
            "gemm: op(a) must be [M,K], op(b) [K,N] and c [M,N], got a f32[4,4], b f32[3,5], c f32[4,5]");
}

}  // namespace
}  // namespace lithe::kernels
