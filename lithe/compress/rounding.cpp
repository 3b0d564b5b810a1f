#include "lithe/compress/rounding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lithe/base/threads.h"

namespace lithe {

int64_t Rounding::unclipped(double x) const { return step ? int64_t(std::round(x / step)) : 0; }
int64_t Rounding::quantise(double x) const { return std::clamp(unclipped(x), least, most); }

// spec: hpc.ptq | compression | weights rounded to 8 bits an output or 4 bits a group, symmetric | TB Eq 6.196-6.197
Rounding rounding_of(std::span<const float> x, int bits, RoundingScheme scheme, double percentile) {
  check(bits >= 2 && bits <= 16, "rounding", "bits must lie in [2, 16], got ", bits);
  check(percentile > 0 && percentile <= 100, "rounding", "percentile must lie in (0, 100], got ", percentile);
  const bool sign = scheme == RoundingScheme::symmetric;
  std::vector<float> sizes;
  for (const float v : x) {
    check(std::isfinite(v), "rounding", "a number is ", v, "; only finite numbers can be rounded");
    sizes.push_back(sign ? std::abs(v) : std::max(v, 0.0f));
  }
  const int64_t most = (int64_t(1) << (sign ? bits - 1 : bits)) - 1;
  Rounding out{0, sign ? -most : 0, most};
  if (sizes.empty()) return out;
  const auto at = sizes.begin() + int64_t(std::ceil(percentile / 100 * double(sizes.size()))) - 1;
  std::nth_element(sizes.begin(), at, sizes.end());
  out.step = double(*at) / double(most);
  return out;
}

namespace {

// The numbers of output n.
void output_row(const Tensor& w, const kernels::PackedMatrix& m, int64_t n, std::vector<float>& to) {
  to.resize(size_t(m.inputs));
  dispatch_float(w.dtype(), [&]<class T>() {
    const T* from = w.data<T>();
    for (int64_t k = 0; k < m.inputs; ++k)
      to[size_t(k)] = float(m.by_rows ? from[n * m.inputs + k] : from[k * m.outputs + n]);
  });
}

int round_to(float x, float inverse) {
  const float v = x * inverse;
  return std::clamp(int(v + (v < 0 ? -0.5f : 0.5f)), -8, 7);
}

// The step of a group of 4-bit integers in [-8, 7]: of several near max / 8, the one whose integers, with the best
// factor for them, leave the least squared error.
bf16 group_step(const float* w, int64_t count) {
  float largest = 0;
  for (int64_t k = 0; k < count; ++k)
    if (std::abs(w[k]) > std::abs(largest)) largest = w[k];
  if (std::abs(largest) < 0x1p-100f) return bf16(0);
  float best = largest / -8, most = -1;
  for (int i = -8; i <= 8; ++i) {
    const float inverse =
        (-8 + 0.15f * float(i)) / largest;  // the largest becomes about -8, which has no positive twin
    float wq = 0, qq = 0;
    for (int64_t k = 0; k < count; ++k) {
      const auto q = float(round_to(w[k], inverse));
      wq += w[k] * q, qq += q * q;
    }
    if (qq > 0 && wq * wq / qq > most) most = wq * wq / qq, best = wq / qq;
  }
  return bf16(best);
}

}  // namespace

kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m) {
  check(w.shape() == m.shape(), "rounding", "'", m.name, "' is ", w.shape(), ", not ", m.shape());
  const bool wide = m.format == kernels::PackedFormat::int8;
  const int64_t row_bytes = wide ? m.inputs : m.groups() * m.group / 2;
  const kernels::QuantizedTensors out{
      empty({m.outputs, row_bytes}, wide ? DType::i8 : DType::u8),
      wide ? empty({m.outputs}, DType::f32) : empty({m.outputs, m.groups()}, DType::bf16)};
  std::vector<float> row;
  for (int64_t n = 0; n < m.outputs; ++n) {  // checked here: a loop of threads cannot throw
    output_row(w, m, n, row);
    for (const float v : row)
      check(std::isfinite(v), "rounding", "'", m.name, "' holds ", v, "; only finite numbers can be rounded");
  }
  parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> x;
    for (int64_t n = begin; n < end; ++n) {
      output_row(w, m, n, x);
      if (wide) {
        Rounding rounding = rounding_of(x);
        rounding.step = float(rounding.step);  // as it is stored
        out.scales.data<float>()[n] = float(rounding.step);
        for (int64_t k = 0; k < m.inputs; ++k)
          out.values.data<int8_t>()[n * row_bytes + k] = int8_t(rounding.quantise(x[size_t(k)]));
        continue;
      }
      uint8_t* to = out.values.data<uint8_t>() + n * row_bytes;
      x.resize(size_t(row_bytes * 2), 0.0f);
      for (int64_t g = 0; g < m.groups(); ++g) {
        const float* group = x.data() + g * m.group;
        const bf16 step = group_step(group, m.group);
        out.scales.data<bf16>()[n * m.groups() + g] = step;
        const float inverse = float(step) ? 1 / float(step) : 0;
        for (int64_t k = 0; k < m.group; k += 2)
          to[(g * m.group + k) / 2] =
              uint8_t((round_to(group[k], inverse) + 8) | (round_to(group[k + 1], inverse) + 8) << 4);
      }
    }
  });
  return out;
}

double rounding_error(const Tensor& w, const kernels::PackedMatrix& packed) {
  std::vector<float> row;
  double error = 0, size = 0;
  for (int64_t n = 0; n < packed.outputs; ++n) {
    output_row(w, packed, n, row);
    for (int64_t k = 0; k < packed.inputs; ++k) {
      const double x = row[size_t(k)], d = x - double(quantized_scale(packed, n, k)) * quantized_value(packed, n, k);
      error += d * d, size += x * x;
    }
  }
  return size ? std::sqrt(error / size) : 0;
}

}  // namespace lithe
