// Seeded numbers, plain arithmetic on them, and comparisons that say what differs.
#pragma once

#include <string>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe::kit {

/// Normally distributed, a pure function of the seed.
Tensor normal(const Shape& shape, DType dtype, uint64_t seed, double deviation = 1, double mean = 0);
Tensor ids_of(const std::vector<int>& ids, Device device = Device::cpu);
/// n ids in [0, vocab), i32.
Tensor random_ids(int64_t n, int64_t vocab, uint64_t seed, Device device = Device::cpu);
/// All elements in storage order.
std::vector<double> values(const Tensor& x);
Tensor tensor_f64(const Shape& shape, const std::vector<double>& values);
/// Rows of several tensors one after another.
Tensor concatenate(const std::vector<Tensor>& parts);
/// Rows at these indices.
Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows);

/// Empty when both have the same shape, dtype and bits; otherwise the first difference.
std::string bit_difference(const Tensor& a, const Tensor& b);
/// Indices of the rows of a that have other bits in b.
std::vector<int64_t> changed_rows(const Tensor& a, const Tensor& b);
/// Empty when the shapes are equal and every element of `got` lies within `roundings` roundings (of got's dtype) of the
/// largest magnitude in `want`; otherwise the worst element. A sum of n products needs about n roundings.
std::string close(const Tensor& got, const Tensor& want, double roundings);
/// The same against numbers printed with `decimals` decimals.
std::string close_to_printed(const Tensor& got, const std::vector<double>& printed, int decimals);

/// The largest absolute difference of elements; infinite when one is NaN.
double largest_difference(const Tensor& a, const Tensor& b);

/// Plain f64 arithmetic, to compare with: a b, a + b, rows and columns in another order.
Tensor product(const Tensor& a, const Tensor& b);
Tensor sum(const Tensor& a, const Tensor& b);
Tensor columns_of(const Tensor& x, const std::vector<int64_t>& columns);
Tensor identity(int64_t n);
void assign(const Tensor& to, const std::vector<double>& values);
void assign(const Tensor& to, const Tensor& from);

}  // namespace lithe::kit
