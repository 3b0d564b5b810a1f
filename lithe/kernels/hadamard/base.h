// Base matrices of the Hadamard transform by Paley's constructions (spec had.kronecker): entries +1 and -1, H Hᵀ = m I.
// Usable in constant expressions, so that kernels can be unrolled over the signs.
#pragma once

#include <cstdint>

namespace lithe::kernels {

/// chi(a) modulo the odd prime q: 0 when q divides a, 1 for squares, -1 otherwise.
constexpr int legendre(int a, int q) {
  a = (a % q + q) % q;
  if (a == 0) return 0;
  for (int x = 1; x <= q / 2; ++x)
    if (x * x % q == a) return 1;
  return -1;
}

enum class Paley {
  one,  // I + [[0,1],[-1ᵀ,Q]], Q_ij = chi(j - i), of order q + 1 for a prime q = 3 mod 4: not symmetric
  two,  // C x [[1,1],[1,-1]] + I x [[1,-1],[-1,-1]], C = [[0,1],[1ᵀ,Q]], of order 2(q + 1), q = 1 mod 4: symmetric
};

/// Entry (i, j) of the matrix.
constexpr int paley_sign(Paley kind, int q, int i, int j) {
  if (kind == Paley::one) {
    if (i == j) return 1;
    return i == 0 ? 1 : j == 0 ? -1 : legendre(j - i, q);
  }
  const int row = i / 2, column = j / 2, both_odd = i % 2 && j % 2;
  if (row == column) return i % 2 || j % 2 ? -1 : 1;
  const int c = row == 0 || column == 0 ? 1 : legendre(column - row, q);
  return both_odd ? -c : c;
}

/// Which base matrix has order m: Paley II where there is one with a prime q, else Paley I.
struct HadamardBase {
  int order;
  Paley kind;
  int q;
  constexpr int sign(int i, int j) const { return order == 1 ? 1 : paley_sign(kind, q, i, j); }
  constexpr bool symmetric() const { return order == 1 || kind == Paley::two; }
};
inline constexpr HadamardBase kHadamardBases[] = {
    {1, Paley::one, 0}, {12, Paley::two, 5}, {20, Paley::one, 19}, {28, Paley::two, 13}, {36, Paley::two, 17}};

}  // namespace lithe::kernels
