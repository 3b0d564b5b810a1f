// Dense linear algebra of small matrices in f64, by Eigen. Matrices stand row by row. The bits do not depend on
// threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lithe {

/// Solves a x = b in place of b [n, m] for a symmetric positive definite a [n, n], of which the lower triangle is read.
/// Returns the smallest pivot of its Cholesky factor L D L^T, or 0 where a is not positive definite and b means
/// nothing.
double solve_positive(std::span<const double> a, std::span<double> b, int64_t n);

/// The upper triangular u [n, n] with a^-1 = u^T u, of a symmetric positive definite a. Fails where it is not.
std::vector<double> inverse_factor(std::span<const double> a, int64_t n);

/// a [n, n] = sum over k of values[k] u_k v_k^T, values falling. u and v [n, n] hold u_k and v_k as rows.
struct Decomposed {
  std::vector<double> values, u, v;
};
Decomposed decompose(std::span<const double> a, int64_t n);

/// a^-1 of a [n, n]. Fails where a is singular.
std::vector<double> inverse(std::span<const double> a, int64_t n);

/// e^a of a [n, n], by scaling and squaring [Higham 2005].
std::vector<double> exponential(std::span<const double> a, int64_t n);

}  // namespace lithe
