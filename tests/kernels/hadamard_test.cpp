#include "lithe/kernels/hadamard/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

std::string row_of(Paley kind, int q, int i) {
  std::string out;
  for (int j = 0; j < (kind == Paley::one ? q + 1 : 2 * (q + 1)); ++j) out += paley_sign(kind, q, i, j) > 0 ? '+' : '-';
  return out;
}

// oracle: had.kronecker
TEST(Paley, GivesHadamardMatrices) {
  const std::pair<Paley, int> all[] = {{Paley::one, 3},  {Paley::one, 7}, {Paley::one, 11}, {Paley::one, 19},
                                       {Paley::one, 23}, {Paley::two, 5}, {Paley::two, 13}, {Paley::two, 17}};
  for (const auto& [kind, q] : all) {
    const int m = kind == Paley::one ? q + 1 : 2 * (q + 1);
    bool symmetric = true;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) {
        int dot = 0;
        for (int c = 0; c < m; ++c) dot += paley_sign(kind, q, i, c) * paley_sign(kind, q, j, c);
        EXPECT_EQ(dot, i == j ? m : 0) << "order " << m << ", rows " << i << ", " << j;
        EXPECT_EQ(std::abs(paley_sign(kind, q, i, j)), 1);
        symmetric = symmetric && paley_sign(kind, q, i, j) == paley_sign(kind, q, j, i);
      }
    EXPECT_EQ(symmetric, kind == Paley::two) << "order " << m;
  }
  EXPECT_EQ(row_of(Paley::two, 5, 0), "+-++++++++++");
  EXPECT_EQ(row_of(Paley::two, 5, 1), "--+-+-+-+-+-");
  EXPECT_EQ(row_of(Paley::two, 5, 2), "+++-++----++");
  EXPECT_EQ(row_of(Paley::one, 11, 0), "++++++++++++");
  EXPECT_EQ(row_of(Paley::one, 11, 1), "-++-+++---+-");
  for (int i = 0; i < 3; ++i) {
    int sum = 0;
    for (char c : row_of(Paley::two, 5, i)) sum += c == '+' ? 1 : -1;
    EXPECT_EQ(sum, i == 0 ? 10 : i == 1 ? -2 : 2);
  }
}

// oracle: had.kronecker
TEST(HadamardOrder, TakesPowersOfTwoTimesABase) {
  const std::pair<int64_t, int> all[] = {{1, 1},     {2, 1},     {4, 1},    {4096, 1}, {192, 12},
                                         {384, 12},  {768, 12},  {896, 28}, {576, 36}, {1280, 20},
                                         {1536, 12}, {2560, 20}, {24, 12},  {3072, 12}};
  for (const auto& [order, base] : all) {
    ASSERT_NE(hadamard_base(order), nullptr) << order;
    EXPECT_EQ(hadamard_base(order)->order, base) << order;
  }
  for (const int64_t order : {0, 3, 6, 14, 15, 100, 1600}) EXPECT_EQ(hadamard_base(order), nullptr) << order;
  try {
    check_hadamard_order("hadamard", 1600);
    FAIL() << "took 1600";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "hadamard: no Hadamard matrix of order 1600 can be built: orders are m*2^k with m = 1, 12, 20, 28 or "
                 "36; the nearest are 1536 below and 1792 above; pad the rows to one of these");
  }
}

/// x H, unscaled, on every implementation and type that holds the numbers exactly.
void expect_transform(const std::vector<double>& x, const std::vector<double>& expected, double scale = 1) {
  const int64_t d = int64_t(x.size());
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      const Tensor out = empty({1, d}, type);
      hadamard({convert(tensor_of({1, d}, std::span<const double>(x)), type), {}, {}, out, d, scale});
      expect_close(out, tensor_of({1, d}, std::span<const double>(expected)), 0, cat(isa, " ", type));
    });
}

// oracle: had.fwht
TEST(Fwht, GivesTheWorkedExamples) {
  expect_transform({1, 2, 3, 4}, {10, -2, -4, 0});
  expect_transform({1, 2, 3, 4}, {5, -1, -2, 0}, 0.5);
  expect_transform({7}, {7});
  for (const int64_t n : {2, 8, 64, 512}) {
    std::vector<double> unit(size_t(n), 0);
    unit[0] = 1;
    expect_transform(unit, std::vector<double>(size_t(n), 1));
  }
}

// oracle: had.fwht
TEST(Fwht, TwiceIsTheOrderTimesTheRow) {
  for (int64_t n = 1; n <= 8192; n *= 2) {
    std::vector<double> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(double(i * 7 % 11) - 5);  // integers: every sum is exact
    on_every_implementation([&](const std::string& isa) {
      if (isa == "ref" && n > 256) return;
      const Tensor row = convert(tensor_of({1, n}, std::span<const double>(x)), DType::f32), twice = empty_like(row);
      hadamard({row, {}, {}, twice, n});
      hadamard({twice, {}, {}, twice, n, 1 / double(n)});
      expect_close(twice, row, 0, cat(isa, " n ", n));
    });
  }
}

struct Problem {
  int64_t columns, order;
};
constexpr Problem kProblems[] = {{1, 1},     {2, 2},     {4, 4},     {8, 8},     {16, 16},   {32, 32},   {64, 64},
                                 {128, 128}, {256, 256}, {512, 512}, {12, 12},   {24, 24},   {48, 48},   {96, 96},
                                 {20, 20},   {40, 40},   {160, 160}, {640, 640}, {28, 28},   {224, 224}, {36, 36},
                                 {72, 72},   {576, 576}, {768, 768}, {3, 4},     {5, 8},     {17, 32},   {48, 64},
                                 {100, 128}, {257, 512}, {300, 512}, {15, 24},   {700, 768}, {30, 40}};

/// Entry (i, j) by the definition, with base matrices written out where they are printed above.
double entry(int64_t order, int64_t i, int64_t j) {
  const HadamardBase& base = *hadamard_base(order);
  const int64_t power = order / base.order;
  const int sign = base.sign(int(i / power), int(j / power));
  return std::popcount(uint64_t(i % power & j % power)) % 2 ? -sign : sign;
}

/// y = x H[0:C, 0:C] in f64, or x Hᵀ; and the sums of |x| of each row.
struct Exact {
  std::vector<double> y, size;
};
Exact multiply(const Tensor& x, const Tensor& factor, int64_t order, bool transposed) {
  const int64_t N = x.rows(), C = x.cols();
  std::vector<int8_t> h(size_t(C * C));
  for (int64_t i = 0; i < C; ++i)
    for (int64_t j = 0; j < C; ++j) h[size_t(i * C + j)] = int8_t(transposed ? entry(order, j, i) : entry(order, i, j));
  Exact out{std::vector<double>(size_t(N * C), 0), std::vector<double>(size_t(N), 0)};
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < C; ++i) {
      const double v = at(x, n * C + i) * (factor ? at(factor, i) : 1);
      out.size[size_t(n)] += std::abs(v);
      for (int64_t j = 0; j < C; ++j) out.y[size_t(n * C + j)] += v * h[size_t(i * C + j)];
    }
  return out;
}

/// Every sum passes log2(2^k) + m roundings at most, each relative to the sum of magnitudes.
double depth(int64_t order) {
  const int64_t base = hadamard_base(order)->order;
  return double(base) + std::log2(double(order / base)) + 4;
}

// oracle: had.fwht, had.kronecker, had.pad
TEST(Hadamard, EveryImplementationAgreesWithTheExplicitMatrix) {
  for (const DType type : kTypes)
    for (const Problem& problem : kProblems)
      for (const bool affine : {false, true}) {
        const int64_t N = 3, C = problem.columns, order = problem.order;
        const Tensor x = random_tensor({N, C}, type, 1, 2);
        const Tensor alpha = affine ? random_tensor({C}, wide(type), 2) : Tensor(),
                     beta = affine ? random_tensor({C}, wide(type), 3) : Tensor();
        const double scale = 1 / std::sqrt(double(order));
        const Exact exact = multiply(x, {}, order, false);
        std::vector<double> expected(exact.y.size());
        const auto a = [&](int64_t i) { return affine ? at(alpha, i % C) : 1; };
        const auto b = [&](int64_t i) { return affine ? at(beta, i % C) : 0; };
        for (int64_t i = 0; i < N * C; ++i) expected[size_t(i)] = a(i) * scale * exact.y[size_t(i)] + b(i);
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " C ", C, " order ", order, affine ? " affine" : "");
          const Guarded out(random_tensor({N, C}, type, 4));
          hadamard({x, alpha, beta, out.tensor(), order, scale});
          expect_close(
              out.tensor(), tensor_of({N, C}, std::span<const double>(expected)),
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(expected[size_t(i)]) +
                       arithmetic(type) *
                           (depth(order) * std::abs(a(i)) * scale * exact.size[size_t(i / C)] + std::abs(b(i)));
              },
              what);
          out.expect_untouched(what);
          const Tensor in_place = clone(x);
          hadamard({in_place, alpha, beta, in_place, order, scale});
          expect_same_bits(in_place, out.tensor(), what + " in place");
        });
      }
}

// oracle: had.kronecker
TEST(HadamardGrad, EveryImplementationAgreesWithTheExplicitMatrix) {
  for (const DType type : kTypes)
    for (const Problem& problem : kProblems)
      for (const bool accumulate : {false, true}) {
        const int64_t N = 5, C = problem.columns, order = problem.order;
        const Tensor x = random_tensor({N, C}, type, 5), dout = random_tensor({N, C}, type, 6),
                     alpha = accumulate ? random_tensor({C}, wide(type), 7) : Tensor();
        const Tensor old_dx = random_tensor({N, C}, type, 8), old = random_tensor({C}, wide(type), 9);
        const double scale = 1 / std::sqrt(double(order));
        const Exact y = multiply(x, {}, order, false), g = multiply(dout, alpha, order, true);
        std::vector<double> dx(size_t(N * C)), dalpha(size_t(C), 0), dbeta(size_t(C), 0), product_size(size_t(C), 0),
            sum_size(size_t(C), 0);
        for (int64_t c = 0; c < C; ++c)
          dalpha[size_t(c)] = dbeta[size_t(c)] = at(old, c),
          product_size[size_t(c)] = sum_size[size_t(c)] = std::abs(at(old, c));
        for (int64_t i = 0; i < N * C; ++i) {
          const size_t c = size_t(i % C);
          dx[size_t(i)] = scale * g.y[size_t(i)] + (accumulate ? at(old_dx, i) : 0);
          dalpha[c] += scale * y.y[size_t(i)] * at(dout, i);
          dbeta[c] += at(dout, i);
          product_size[c] += scale * y.size[size_t(i / C)] * std::abs(at(dout, i));
          sum_size[c] += std::abs(at(dout, i));
        }
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " C ", C, " order ", order, accumulate ? " accumulate" : "");
          const Guarded to(old_dx), to_alpha(old), to_beta(old);
          hadamard_grad({x, alpha, dout, to.tensor(), to_alpha.tensor(), to_beta.tensor(), order, scale, accumulate});
          const double eps = arithmetic(type);
          expect_close(
              to.tensor(), tensor_of({N, C}, std::span<const double>(dx)),
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(dx[size_t(i)]) +
                       eps * (depth(order) * scale * g.size[size_t(i / C)] + std::abs(at(old_dx, i)));
              },
              what + " dx");
          expect_close(
              to_alpha.tensor(), tensor_of({C}, std::span<const double>(dalpha)),
              [&](int64_t c) { return (depth(order) + double(N)) * eps * product_size[size_t(c)]; }, what + " dalpha");
          expect_close(
              to_beta.tensor(), tensor_of({C}, std::span<const double>(dbeta)),
              [&](int64_t c) { return double(N + 1) * eps * sum_size[size_t(c)]; }, what + " dbeta");
          to.expect_untouched(what);
          to_alpha.expect_untouched(what);
          to_beta.expect_untouched(what);
          if (accumulate) return;
          const Tensor in_place = clone(dout), alone = clone(old), other = clone(old);
          hadamard_grad({x, alpha, in_place, in_place, {}, {}, order, scale});
          expect_same_bits(in_place, to.tensor(), what + " dx into dout");
          hadamard_grad({x, alpha, dout, {}, alone, {}, order, scale});
          expect_same_bits(alone, to_alpha.tensor(), what + " dalpha alone");
          hadamard_grad({{}, alpha, dout, {}, {}, other, order, scale});
          expect_same_bits(other, to_beta.tensor(), what + " dbeta alone");
        });
      }
}

// oracle: proj.hadamard, had.kronecker
TEST(Hadamard, PreservesNormsAndInnerProducts) {
  for (const int64_t d : {512, 768, 1280, 1536, 3584}) {
    const Tensor x = random_tensor({2, d}, DType::f32, 10), y = empty_like(x);
    hadamard({x, {}, {}, y, d, 1 / std::sqrt(double(d))});
    const auto dot = [&](const Tensor& t, int64_t a, int64_t b) {
      double sum = 0;
      for (int64_t c = 0; c < d; ++c) sum += at(t, a * d + c) * at(t, b * d + c);
      return sum;
    };
    // An element errs by depth eps sum|x| / sqrt(d) <= depth eps |x|, so a product of two rows by 2 sqrt(d) times that.
    const double bound = 2 * std::sqrt(double(d)) * depth(d) * kF32 * std::sqrt(dot(x, 0, 0) * dot(x, 1, 1));
    EXPECT_NEAR(dot(y, 0, 1), dot(x, 0, 1), bound) << d;
    EXPECT_NEAR(dot(y, 0, 0), dot(x, 0, 0), 2 * bound) << d;
  }
}

// oracle: had.pad
TEST(HadamardPad, Keeps768Of1024OfEveryUnitVectorsSquare) {
  const int64_t d = 768, order = hadamard_padded(d);
  ASSERT_EQ(order, 1024);
  const Tensor x = zeros({d, d}, DType::f32), y = empty_like(x);
  for (int64_t i = 0; i < d; ++i) set_value(x, i * d + i, 1);
  hadamard({x, {}, {}, y, order, 1 / std::sqrt(double(order))});
  for (int64_t i = 0; i < d; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += at(y, i * d + c) * at(y, i * d + c);
    EXPECT_EQ(sum, 0.75) << i;
  }
  // Full rank: elimination without a vanishing pivot.
  std::vector<double> a(size_t(d * d));
  for (int64_t i = 0; i < d * d; ++i) a[size_t(i)] = at(y, i) * 32;
  int64_t rank = 0;
  for (int64_t c = 0; c < d; ++c) {
    int64_t pivot = rank;
    for (int64_t r = rank; r < d; ++r)
      if (std::abs(a[size_t(r * d + c)]) > std::abs(a[size_t(pivot * d + c)])) pivot = r;
    if (std::abs(a[size_t(pivot * d + c)]) < 1e-6) continue;
    for (int64_t j = 0; j < d; ++j) std::swap(a[size_t(rank * d + j)], a[size_t(pivot * d + j)]);
    for (int64_t r = rank + 1; r < d; ++r)
      if (const double f = a[size_t(r * d + c)] / a[size_t(rank * d + c)])
        for (int64_t j = c; j < d; ++j) a[size_t(r * d + j)] -= f * a[size_t(rank * d + j)];
    ++rank;
  }
  EXPECT_EQ(rank, d);
}

// oracle: had.pad
TEST(HadamardPad, OfRandomRowsKeepsThreeQuartersOnAverage) {
  const int64_t N = 400, d = 768;
  const Tensor x = random_tensor({N, d}, DType::f32, 11), y = empty_like(x);
  hadamard({x, {}, {}, y, 1024, 1.0 / 32});
  double before = 0, after = 0;
  for (int64_t i = 0; i < N * d; ++i) before += at(x, i) * at(x, i), after += at(y, i) * at(y, i);
  // The share of one row deviates by about sqrt(2/d) at most; the mean of N by sqrt(2/(d N)), taken four times.
  EXPECT_NEAR(after / before, 0.75, 4 * std::sqrt(2.0 / double(N * d)));
}

TEST(Hadamard, RowsDoNotDependOnOtherRows) {
  const WithThreads two(2);
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t d : {96, 768, 1024}) {
      const int64_t N = 301;
      const Tensor x = random_tensor({N, d}, type, 12), alpha = random_tensor({d}, DType::f32, 13), y = empty_like(x),
                   one = empty({1, d}, type), dx = empty_like(x);
      hadamard({x, alpha, {}, y, d, 0.1});
      hadamard_grad({{}, alpha, x, dx, {}, {}, d, 0.1});
      for (const int64_t n : {int64_t(0), N / 2, N - 1}) {
        hadamard({x.slice(n, n + 1), alpha, {}, one, d, 0.1});
        expect_same_bits(one, y.slice(n, n + 1), cat(type, " d ", d));
        hadamard_grad({{}, alpha, x.slice(n, n + 1), one, {}, {}, d, 0.1});
        expect_same_bits(one, dx.slice(n, n + 1), cat(type, " d ", d, " dx"));
      }
    }
}

TEST(Hadamard, ErrorsNameTheRule) {
  const Tensor x = zeros({2, 16}, DType::f32), wrong = zeros({3}, DType::f32), y = empty_like(x);
  const auto text = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(text([&] {
              hadamard({x, {}, {}, y, 8});
            }),
            "hadamard: x [2,16] has more columns than H, of order 8; pass an order of at least the columns");
  EXPECT_NE(text([&] { hadamard({x, {}, {}, y, 15}); }).find("12 below and 16 above"), std::string::npos);
  EXPECT_NE(text([&] { hadamard({x, wrong, {}, y, 16}); }).find("alpha must be f32[16]"), std::string::npos);
  EXPECT_NE(text([&] {
              hadamard_grad({{}, {}, x, {}, zeros({16}, DType::f32), {}, 16});
            }).find("dalpha needs x"),
            std::string::npos);
}

TEST(Hadamard, OfNoRowsIsNothing) {
  on_every_implementation([](const std::string&) {
    const Tensor none = empty({0, 24}, DType::f32), sums = zeros({24}, DType::f32);
    hadamard({none, {}, {}, none, 24});
    hadamard_grad({none, {}, none, none, sums, sums, 24});
    expect_same_bits(sums, zeros({24}, DType::f32), "sums");
  });
}

// oracle: had.kronecker
TEST(Hadamard, CostsTheAdditionsOfTheFastTransform) {
  const auto flops = [](int64_t d) {
    const Tensor x = empty({1, d}, DType::f32);
    return cost(HadamardArgs{x, {}, {}, x, d}).flops - 2 * double(d);
  };
  EXPECT_EQ(flops(768), 13056);
  EXPECT_EQ(flops(1536), 27648);
  EXPECT_EQ(flops(1024), 1024 * 10);
}

}  // namespace
}  // namespace lithe::kernels
