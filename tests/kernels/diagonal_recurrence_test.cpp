#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

const std::vector<DiagonalSegment>& diagonal_segments() {
  static const std::vector<DiagonalSegment> all{{0, 5, {}}, {5, 1, {}}, {6, 0, {}}, {6, 40, {}}};
  return all;
}
/// Factors inside the unit disc.
Tensor factors(const Shape& shape, DType type, uint64_t seed) {
  const Tensor a = random_tensor(shape, type, seed);
  for (int64_t i = 0; i < a.numel(); ++i) set_value(a, i, 0.65 * std::tanh(at(a, i)));
  return a;
}

TEST(DiagonalRecurrence, IsASumOfPowers) {
  for (const bool complex : {false, true}) {
    const int64_t N = 9, C = 4, M = complex ? 2 : 4;
    const Tensor x = random_tensor({N, C}, DType::f64, 1), a = factors({C}, DType::f64, 2), y = empty_like(x);
    diagonal_recurrence({x, a, y, {{0, 3, {}}, {3, 6, {}}}, complex});
    const auto number = [&](const Tensor& t, int64_t row, int64_t c) {
      return std::complex<double>(at(t, row * C + c), complex ? at(t, row * C + c + M) : 0);
    };
    for (int64_t row = 0; row < N; ++row)
      for (int64_t c = 0; c < M; ++c) {
        std::complex<double> sum = 0;
        for (int64_t j = row < 3 ? 0 : 3; j <= row; ++j)
          sum += std::pow(number(a, 0, c), double(row - j)) * number(x, j, c);
        EXPECT_LT(std::abs(sum - number(y, row, c)), 1e-13);
      }
  }
}

TEST(DiagonalRecurrence, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool complex : {false, true})
      for (const bool constant : {false, true})
        for (const bool accumulate : {false, true})
          for (const int64_t C : {2, 18, 64, 70}) {
            const int64_t N = 46;
            const Tensor x = random_tensor({N, C}, type, 1),
                         a = factors(constant ? Shape{C} : Shape{N, C}, DType::f32, 2),
                         dy = random_tensor({N, C}, type, 3), old = random_tensor({N, C}, type, 4),
                         old_da = random_tensor(a.shape(), DType::f32, 5),
                         b = accumulate ? random_tensor({C}, DType::f32, 9) : Tensor(),
                         old_db = random_tensor({C}, DType::f32, 10);
            auto parts = diagonal_segments();
            if (accumulate) parts[3].state = random_tensor({C}, DType::f32, 6);
            DiagonalRecurrenceArgs e{exact(x), exact(a), zeros({N, C}, DType::f64), parts, complex, exact(b)};
            for (auto& s : e.segments) s.state = exact(s.state);
            const Tensor begun = e.segments[3].state ? clone(e.segments[3].state) : Tensor();
            diagonal_recurrence(e);
            const Tensor want = clone(e.y), state = e.segments[3].state;
            const Tensor y = convert(e.y, type);
            e.y = exact(y);
            e.segments[3].state = begun;
            const Tensor dx64 = exact(old), da64 = exact(old_da), db64 = b ? exact(old_db) : Tensor();
            diagonal_recurrence_grad({e, exact(dy), dx64, da64, db64, accumulate, accumulate, accumulate});
            on_every_implementation([&](const std::string& isa) {
              const std::string what = cat(isa, " ", type, " C ", C, complex ? " complex" : "",
                                           constant ? " constant" : "", accumulate ? " continued" : "");
              const Guarded mine(random_tensor({N, C}, type, 7)), dx(old);
              auto run = parts;
              if (run[3].state) run[3].state = clone(run[3].state);
              diagonal_recurrence({x, a, mine.tensor(), run, complex, b});
              const double sums = 42 * kF32 * 4 * (1 + largest_of(want));
              expect_close(
                  mine.tensor(), want, [&](int64_t i) { return sums + epsilon_of(type) * std::abs(at(want, i)); },
                  what);
              if (run[3].state) expect_close(run[3].state, state, sums, what + " state");
              mine.expect_untouched(what);
              const Tensor da = clone(old_da), db = b ? clone(old_db) : Tensor();
              diagonal_recurrence_grad(
                  {{x, a, y, parts, complex, b}, dy, dx.tensor(), da, db, accumulate, accumulate, accumulate});
              if (b) expect_close(db, db64, 46 * 4 * kF32 * 4 * (1 + largest_of(dx64)) * largest_of(x), what + " db");
              const double bound = 84 * kF32 * 4 * (1 + largest_of(dx64));
              expect_close(
                  dx.tensor(), dx64, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(dx64, i)); },
                  what + " dx");
              expect_close(da, da64, bound * (1 + largest_of(want)), what + " da");
              dx.expect_untouched(what);
            });
          }
}

TEST(DiagonalRecurrence, StatesContinueToTheBit) {
  for (const DType type : kTypes)
    for (const bool complex : {false, true}) {
      const int64_t N = 20, C = 38;
      const Tensor x = random_tensor({N, C}, type, 1), a = factors({N, C}, wide(type), 2);
      on_every_implementation([&](const std::string& isa) {
        const Tensor whole = empty_like(x), pieces = empty_like(x), alone = zeros({C}, wide(type)),
                     state = zeros({C}, wide(type));
        diagonal_recurrence({x, a, whole, {{0, N, alone}}, complex});
        int64_t begin = 0;
        for (const int64_t end : {1, 2, 12, 20}) {
          diagonal_recurrence({x, a, pieces, {{begin, end - begin, state}}, complex});
          begin = end;
        }
        // f64 states keep what the reference computes with; f32 states are what the vector sets compute with.
        if (type == DType::f64 || isa != "ref") {
          expect_same_bits(pieces, whole, cat(isa, " ", type));
          expect_same_bits(state, alone, cat(isa, " ", type, " state"));
        }
      });
    }
}

TEST(DiagonalRecurrenceGrad, MatchesCentralDifferences) {
  for (const bool complex : {false, true})
    for (const bool constant : {false, true}) {
      const int64_t N = 7, C = 4;
      const std::vector<DiagonalSegment> parts{{0, 3, {}}, {3, 4, random_tensor({C}, DType::f64, 8)}};
      const Tensor x = random_tensor({N, C}, DType::f64, 1),
                   a = factors(constant ? Shape{C} : Shape{N, C}, DType::f64, 2),
                   dy = random_tensor({N, C}, DType::f64, 3), y = empty_like(x), b = random_tensor({C}, DType::f64, 4);
      const auto value = [&] {
        auto run = parts;
        run[1].state = clone(run[1].state);
        diagonal_recurrence({x, a, y, run, complex, b});
        double sum = 0;
        for (int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(dy, i);
        return sum;
      };
      value();
      const Tensor dx = empty_like(x), da = empty_like(a), db = empty_like(b);
      diagonal_recurrence_grad({{x, a, y, parts, complex, b}, dy, dx, da, db});
      expect_gradient(db, b, value, "db");
      expect_gradient(dx, x, value, "dx");
      expect_gradient(da, a, value, "da");
    }
}

TEST(DiagonalRecurrence, ResultsDoNotDependOnThreadsOrNeighbours) {
  const int64_t N = 300, C = 512;
  const Tensor x = random_tensor({N, C}, DType::f32, 1), a = factors({C}, DType::f32, 2), together = empty_like(x),
               apart = empty_like(x);
  {
    const WithThreads four(4);
    diagonal_recurrence({x, a, together, {{0, 100, {}}, {100, 200, {}}}});
  }
  const WithThreads one(1);
  diagonal_recurrence({x, a, apart, {{0, 100, {}}}});
  diagonal_recurrence({x, a, apart, {{100, 200, {}}}});
  expect_same_bits(together, apart, "threads and neighbours");
}

TEST(DiagonalRecurrence, ErrorsSayWhatDoesNotFit) {
  const Tensor x = zeros({4, 3}, DType::f32), a = zeros({3}, DType::f32), y = empty_like(x);
  const auto error = [](const DiagonalRecurrenceArgs& args) -> std::string {
    try {
      diagonal_recurrence(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error({x, zeros({2}, DType::f32), y, {}}),
            "diagonal_recurrence: a must be f32[3] or [4,3] to match x, got f32[2]");
  EXPECT_EQ(error({x, a, y, {}, true}),
            "diagonal_recurrence: complex rows have as many imaginary as real columns, got x [4,3]");
  EXPECT_EQ(error({x, a, y, {{0, 3, {}}, {2, 2, {}}}}), "diagonal_recurrence: two segments share row 2");
  EXPECT_EQ(error({x, a, y, {{0, 4, zeros({2}, DType::f32)}}}),
            "diagonal_recurrence: a state must be f32[3], got f32[2]");
}

}  // namespace
}  // namespace lithe::kernels
