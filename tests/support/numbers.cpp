#include "tests/support/numbers.h"

#include <cmath>
#include <cstring>

#include "lithe/base/random.h"

namespace lithe::kit {

Tensor normal(const Shape& shape, DType dtype, uint64_t seed, double deviation, double mean) {
  const Tensor x = empty(shape, dtype);
  const RandomKey key{.seed = seed, .purpose = purpose_of("kit.normal")};
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, mean + deviation * random_normal(key, uint64_t(i)));
  return x;
}

Tensor ids_of(const std::vector<int>& ids, Device device) {
  const Tensor x = empty({int64_t(ids.size())}, DType::i32, device);
  if (!x.is_meta()) std::copy(ids.begin(), ids.end(), x.data<int32_t>());
  return x;
}

Tensor random_ids(int64_t n, int64_t vocab, uint64_t seed, Device device) {
  std::vector<int> ids;
  const RandomKey key{.seed = seed, .purpose = purpose_of("kit.ids")};
  for (int64_t i = 0; i < n; ++i) ids.push_back(int(random_below(key, uint64_t(i), uint64_t(vocab))));
  return ids_of(ids, device);
}

std::vector<double> values(const Tensor& x) {
  std::vector<double> out;
  for (int64_t i = 0; i < x.numel(); ++i) out.push_back(value_at(x, i));
  return out;
}

Tensor tensor_f64(const Shape& shape, const std::vector<double>& values) {
  return tensor_of(shape, std::span<const double>(values));
}

Tensor concatenate(const std::vector<Tensor>& parts) {
  int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.rows();
  const Tensor out = empty({rows, parts.at(0).cols()}, parts[0].dtype());
  int64_t at = 0;
  for (const Tensor& part : parts) {
    copy_into(out.slice(at, at + part.rows()), part);
    at += part.rows();
  }
  return out;
}

Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows) {
  std::vector<Tensor> parts;
  for (int64_t r : rows) parts.push_back(x.slice(r, r + 1));
  return concatenate(parts);
}

std::string bit_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return cat("shapes ", a.dtype(), a.shape(), " and ", b.dtype(), b.shape());
  const auto* x = static_cast<const std::byte*>(a.raw());
  const auto* y = static_cast<const std::byte*>(b.raw());
  const int64_t size = size_of(a.dtype());
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(x + i * size, y + i * size, size_t(size)))
      return cat("element ", i, " of ", a.shape(), ": ", value_at(a, i), " and ", value_at(b, i), ", apart by ",
                 value_at(a, i) - value_at(b, i));
  return "";
}

std::vector<int64_t> changed_rows(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> out;
  for (int64_t r = 0; r < a.rows(); ++r)
    if (!bit_difference(a.slice(r, r + 1), b.slice(r, r + 1)).empty()) out.push_back(r);
  return out;
}

std::string close(const Tensor& got, const Tensor& want, double roundings) {
  if (got.shape() != want.shape()) return cat("shapes ", got.shape(), " and ", want.shape());
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < want.numel(); ++i) largest = std::max(largest, std::abs(value_at(want, i)));
  const double bound = roundings * epsilon_of(got.dtype()) * largest;
  std::string message;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double error = std::abs(value_at(got, i) - value_at(want, i));
    if (error <= std::max(bound, worst)) continue;
    worst = error;
    message = cat("element ", i, " of ", got.shape(), ": got ", value_at(got, i), ", want ", value_at(want, i),
                  ", apart by ", error, ", bound ", bound);
    if (std::isnan(error)) return message;
  }
  return message;
}

std::string close_to_printed(const Tensor& got, const std::vector<double>& printed, int decimals) {
  if (got.numel() != int64_t(printed.size())) return cat("got ", got.shape(), ", want ", printed.size(), " numbers");
  const double bound = 0.51 * std::pow(10, -decimals);
  for (int64_t i = 0; i < got.numel(); ++i)
    if (!(std::abs(value_at(got, i) - printed[size_t(i)]) <= bound))
      return cat("element ", i, ": got ", value_at(got, i), ", printed ", printed[size_t(i)]);
  return "";
}

double largest_difference(const Tensor& a, const Tensor& b) {
  check(a.shape() == b.shape(), "test", "shapes ", a.shape(), " and ", b.shape());
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double error = std::abs(value_at(a, i) - value_at(b, i));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

Tensor product(const Tensor& a, const Tensor& b) {
  check(a.cols() == b.rows(), "test", "product of ", a.shape(), " and ", b.shape());
  const Tensor out = empty({a.rows(), b.cols()}, DType::f64);
  for (int64_t r = 0; r < a.rows(); ++r)
    for (int64_t c = 0; c < b.cols(); ++c) {
      double total = 0;
      for (int64_t k = 0; k < a.cols(); ++k) total += value_at(a, r * a.cols() + k) * value_at(b, k * b.cols() + c);
      set_value(out, r * b.cols() + c, total);
    }
  return out;
}

Tensor sum(const Tensor& a, const Tensor& b) {
  check(a.shape() == b.shape(), "test", "sum of ", a.shape(), " and ", b.shape());
  const Tensor out = empty(a.shape(), DType::f64);
  for (int64_t i = 0; i < out.numel(); ++i) set_value(out, i, value_at(a, i) + value_at(b, i));
  return out;
}

Tensor columns_of(const Tensor& x, const std::vector<int64_t>& columns) {
  const auto n = int64_t(columns.size());
  const Tensor out = empty({x.rows(), n}, x.dtype());
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < n; ++c) set_value(out, r * n + c, value_at(x, r * x.cols() + columns[size_t(c)]));
  return out;
}

Tensor identity(int64_t n) {
  const Tensor out = zeros({n, n}, DType::f64);
  for (int64_t i = 0; i < n; ++i) set_value(out, i * n + i, 1);
  return out;
}

void assign(const Tensor& to, const std::vector<double>& values) {
  check(to.numel() == int64_t(values.size()), "test", values.size(), " values for ", to.shape());
  for (int64_t i = 0; i < to.numel(); ++i) set_value(to, i, values[size_t(i)]);
}

void assign(const Tensor& to, const Tensor& from) { assign(to, values(from)); }

}  // namespace lithe::kit
