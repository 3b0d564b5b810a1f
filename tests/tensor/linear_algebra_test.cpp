#include "lithe/tensor/linear_algebra.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/error.h"

namespace lithe {
namespace {

// L D L^T with L = [1; 2 1; -1 3 1] and D = (4, 9, 0.25): pivots are known, and a x = b for x = [[1, 0], [-2, 5], [3,
// 1]].
const std::vector<double> kPositive{4, 8, -4, 8, 25, 19, -4, 19, 85.25};

TEST(LinearAlgebra, SolvesByTheLowerTriangle) {
  std::vector<double> a = kPositive, b;
  const double x[3][2] = {{1, 0}, {-2, 5}, {3, 1}};
  for (int i = 0; i < 3; ++i)
    for (int c = 0; c < 2; ++c) {
      b.push_back(0);
      for (int k = 0; k < 3; ++k) b.back() += a[size_t(3 * i + k)] * x[k][c];
    }
  a[1] = a[2] = a[5] = std::nan("");  // above the diagonal
  EXPECT_DOUBLE_EQ(solve_positive(a, b, 3), 0.25);
  for (int i = 0; i < 3; ++i)
    for (int c = 0; c < 2; ++c) EXPECT_NEAR(b[size_t(2 * i + c)], x[i][c], 1e-12) << i << "," << c;
}

TEST(LinearAlgebra, SaysWhatIsNotPositive) {
  std::vector<double> b{1, 1};
  EXPECT_EQ(solve_positive(std::vector<double>{1, 0, 2, 1}, b, 2), 0);  // eigenvalues 3 and -1
  EXPECT_THROW(solve_positive(kPositive, b, 3), Error);                 // two rows, not three
  EXPECT_THROW(solve_positive(kPositive, b, 2), Error);
}

TEST(LinearAlgebra, DecomposesIntoTurnsAndLengths) {
  // A turn by 0.3, lengths 7 and 2, a turn by 1.1.
  const double c = std::cos(0.3), s = std::sin(0.3), e = std::cos(1.1), f = std::sin(1.1);
  const std::vector<double> a{7 * c * e + 2 * s * f, 7 * c * f - 2 * s * e, 7 * s * e - 2 * c * f,
                              7 * s * f + 2 * c * e};
  const Decomposed of = decompose(a, 2);
  ASSERT_EQ(of.values.size(), 2u);
  EXPECT_NEAR(of.values[0], 7, 1e-14);
  EXPECT_NEAR(of.values[1], 2, 1e-14);
  EXPECT_NEAR(std::abs(of.u[0] * c + of.u[1] * s), 1, 1e-14);  // u_0 is (cos 0.3, sin 0.3), up to its sign
  EXPECT_NEAR(std::abs(of.v[0] * e + of.v[1] * f), 1, 1e-14);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      double sum = 0;
      for (int k = 0; k < 2; ++k) sum += of.values[size_t(k)] * of.u[size_t(2 * k + i)] * of.v[size_t(2 * k + j)];
      EXPECT_NEAR(sum, a[size_t(2 * i + j)], 1e-14);
    }
  EXPECT_TRUE(decompose({}, 0).values.empty());
  EXPECT_THROW(decompose(a, 3), Error);
}

TEST(LinearAlgebra, Inverts) {
  const std::vector<double> a{2, 1, 1, 1};
  const std::vector<double> inverted = inverse(a, 2), want{1, -1, -1, 2};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(inverted[i], want[i], 1e-15);
  EXPECT_THROW(inverse(std::vector<double>{1, 2, 2, 4}, 2), Error);
}

TEST(LinearAlgebra, RaisesETo) {
  // A rotation by 1, and a nilpotent matrix.
  const std::vector<double> turned = exponential(std::vector<double>{0, 1, -1, 0}, 2),
                            sheared = exponential(std::vector<double>{0, 3, 0, 0}, 2);
  const double rotation[] = {std::cos(1), std::sin(1), -std::sin(1), std::cos(1)}, shear[] = {1, 3, 0, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(turned[i], rotation[i], 1e-15);
    EXPECT_NEAR(sheared[i], shear[i], 1e-15);
  }
}

}  // namespace
}  // namespace lithe
