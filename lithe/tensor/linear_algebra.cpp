#include "lithe/tensor/linear_algebra.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/SVD>
#include <unsupported/Eigen/MatrixFunctions>

#include "lithe/base/error.h"

namespace lithe {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void check_size(const char* operation, size_t numbers, int64_t n) {
  check(int64_t(numbers) == n * n, operation, "a square matrix of ", n, " rows has ", n * n, " numbers, got ", numbers);
}

std::vector<double> rows_of(const Rows& x) { return {x.data(), x.data() + x.size()}; }

}  // namespace

double solve_positive(std::span<const double> a, std::span<double> b, int64_t n) {
  check_size("solve_positive", a.size(), n);
  check(n == 0 || int64_t(b.size()) % n == 0, "solve_positive", "b must have ", n, " rows, as a has, got ", b.size(),
        " numbers");
  if (n == 0) return 0;
  const Eigen::LLT<Rows> factor(Eigen::Map<const Rows>(a.data(), n, n));
  if (factor.info() != Eigen::Success) return 0;
  Eigen::Map<Rows> x(b.data(), n, int64_t(b.size()) / n);
  factor.solveInPlace(x);
  const double least = factor.matrixLLT().diagonal().minCoeff();
  return least * least;
}

std::vector<double> inverse_factor(std::span<const double> a, int64_t n) {
  check_size("inverse_factor", a.size(), n);
  const Eigen::LLT<Rows> factor(Eigen::Map<const Rows>(a.data(), n, n));
  check(factor.info() == Eigen::Success, "inverse_factor", "the matrix of ", n, " rows is not positive definite");
  const Eigen::LLT<Rows> of_inverse(factor.solve(Rows::Identity(n, n)));
  check(of_inverse.info() == Eigen::Success, "inverse_factor", "the inverse of ", n, " rows is not positive definite");
  return rows_of(of_inverse.matrixU());
}

Decomposed decompose(std::span<const double> a, int64_t n) {
  check_size("decompose", a.size(), n);
  if (n == 0) return {};
  const Eigen::BDCSVD<Rows> of(Eigen::Map<const Rows>(a.data(), n, n), Eigen::ComputeFullU | Eigen::ComputeFullV);
  const auto& values = of.singularValues();
  return {{values.data(), values.data() + values.size()},
          rows_of(of.matrixU().transpose()),
          rows_of(of.matrixV().transpose())};
}

std::vector<double> inverse(std::span<const double> a, int64_t n) {
  check_size("inverse", a.size(), n);
  if (n == 0) return {};
  const Eigen::FullPivLU<Rows> factors(Eigen::Map<const Rows>(a.data(), n, n));
  check(factors.isInvertible(), "inverse", "the matrix of ", n, " rows has rank ", factors.rank(),
        ", and only one of full rank has an inverse");
  return rows_of(factors.inverse());
}

std::vector<double> exponential(std::span<const double> a, int64_t n) {
  check_size("exponential", a.size(), n);
  if (n == 0) return {};
  return rows_of(Rows(Eigen::Map<const Rows>(a.data(), n, n).exp()));
}

}  // namespace lithe
