#include "lithe/model/rounding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/tensor/linear_algebra.h"

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

int round_to(float x, float inverse, const WeightIntegers& as) {
  const float v = x * inverse;
  return std::clamp(int(v + (v < 0 ? -0.5f : 0.5f)), as.least, as.most);
}

// The step of a group: of several near max / least, the one whose integers, with the best factor for them, leave the
// least squared error. With few integers the largest number is clipped by more.
// `importance`: of each squared error; null: alike.
bf16 group_step(const float* w, int64_t count, const WeightIntegers& as, const double* importance = nullptr) {
  float largest = 0;
  for (int64_t k = 0; k < count; ++k)
    if (std::abs(w[k]) > std::abs(largest)) largest = w[k];
  if (std::abs(largest) < 0x1p-100f) return bf16(0);
  float best = largest / float(as.least), most = -1;
  const bool few = as.most < 7;
  for (int i = -8; i <= 8; ++i) {
    // The largest becomes about `least`, which may have no positive twin.
    const float inverse = (few ? float(as.least) * (1 - 0.1f * float(i)) - 0.8f : -8 + 0.15f * float(i)) / largest;
    float wq = 0, qq = 0;
    for (int64_t k = 0; k < count; ++k) {
      const auto q = float(round_to(w[k], inverse, as));
      const float counts = importance ? float(importance[k]) : 1;
      wq += counts * w[k] * q, qq += counts * q * q;
    }
    if (qq > 0 && wq * wq / qq > most) most = wq * wq / qq, best = wq / qq;
  }
  return bf16(best);
}

}  // namespace

WeightIntegers weight_integers(const std::string& name, int64_t group_size) {
  if (name == "int8") return {name};
  check_usage(group_size == 32 || group_size == 64, "rounding", "the group size must be 32 or 64, got ", group_size);
  const auto as = [&](int least, int most) {
    return WeightIntegers{name, kernels::PackedFormat::int4, group_size, least, most};
  };
  if (name == "int4") return as(-8, 7);
  if (name == "int2") return as(-2, 1);
  check_usage(name == "ternary", "rounding", "'", name, "' is no kind of integers; choose int8, int4, int2 or ternary");
  return as(-1, 1);
}

kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m) {
  const bool wide = m.format == kernels::PackedFormat::int8;
  return round_matrix(w, m, weight_integers(wide ? "int8" : "int4", wide ? 32 : m.group));
}

namespace {

// The step of an output in 8 bits: that of the largest magnitude, or a smaller one with less error where errors count
// unalike.
float output_step(std::span<const float> x, const double* importance) {
  Rounding rounding = rounding_of(x);
  if (!importance) return float(rounding.step);
  double least = -1, best = rounding.step;
  const double whole = rounding.step;
  for (int i = 0; i <= 20; ++i) {
    rounding.step = float(whole * (1 - 0.02 * i));
    double error = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      const double d = x[k] - rounding.value(rounding.quantise(x[k]));
      error += importance[k] * d * d;
    }
    if (least < 0 || error < least) least = error, best = rounding.step;
  }
  return float(best);
}

// Room for the integers of a matrix, whose numbers must be finite.
kernels::QuantizedTensors room_for(const Tensor& w, const kernels::PackedMatrix& m) {
  check(w.shape() == m.shape(), "rounding", "'", m.name, "' is ", w.shape(), ", not ", m.shape());
  const bool wide = m.format == kernels::PackedFormat::int8;
  std::vector<float> row;
  for (int64_t n = 0; n < m.outputs; ++n) {  // checked here: a loop of threads cannot throw
    output_row(w, m, n, row);
    for (const float v : row)
      check(std::isfinite(v), "rounding", "'", m.name, "' holds ", v, "; only finite numbers can be rounded");
  }
  return {empty({m.outputs, wide ? m.inputs : m.groups() * m.group / 2}, wide ? DType::i8 : DType::u8),
          wide ? empty({m.outputs}, DType::f32) : empty({m.outputs, m.groups()}, DType::bf16)};
}

// Of the inverse of the moments, with `damping` times the mean of their diagonal added; an input that was never there
// counts as any other.
std::vector<double> damped_factor(const Tensor& moments, double damping) {
  const int64_t K = moments.dim(0);
  std::vector<double> a(moments.data<double>(), moments.data<double>() + K * K);
  double mean = 0;
  for (int64_t k = 0; k < K; ++k) mean += a[size_t(k * K + k)] / double(K);
  for (int64_t k = 0; k < K; ++k) a[size_t(k * K + k)] += mean > 0 ? damping * mean : 1;
  return inverse_factor(a, K);
}

// Writes the integers q of output n.
void put_integers(const kernels::QuantizedTensors& out, const kernels::PackedMatrix& m, int64_t n,
                  const std::vector<int>& q) {
  const int64_t row_bytes = out.values.cols();
  if (m.format == kernels::PackedFormat::int8) {
    for (int64_t k = 0; k < m.inputs; ++k) out.values.data<int8_t>()[n * row_bytes + k] = int8_t(q[size_t(k)]);
    return;
  }
  for (int64_t k = 0; k < row_bytes * 2; k += 2)
    out.values.data<uint8_t>()[n * row_bytes + k / 2] = uint8_t((q[size_t(k)] + 8) | (q[size_t(k) + 1] + 8) << 4);
}

}  // namespace

kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as) {
  return round_matrix(w, m, as, {});
}

namespace {

// With the step that step_of(output, group, its numbers) says: of an output in 8 bits (group 0), else of a group.
template <class F>
kernels::QuantizedTensors rounded_by(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                     const F& step_of) {
  const kernels::QuantizedTensors out = room_for(w, m);
  const bool wide = m.format == kernels::PackedFormat::int8;
  parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> x;
    std::vector<int> q;
    for (int64_t n = begin; n < end; ++n) {
      output_row(w, m, n, x);
      if (wide) {
        Rounding rounding{step_of(n, int64_t(0), x.data()), -127, 127};  // as it is stored
        out.scales.data<float>()[n] = float(rounding.step);
        q.clear();
        for (const float v : x) q.push_back(int(rounding.quantise(v)));
      } else {
        x.resize(size_t(m.groups() * m.group), 0.0f);
        q.assign(x.size(), 0);
        for (int64_t g = 0; g < m.groups(); ++g) {
          const float* group = x.data() + g * m.group;
          const auto step = bf16(step_of(n, g, group));
          out.scales.data<bf16>()[n * m.groups() + g] = step;
          const float inverse = float(step) ? 1 / float(step) : 0;
          for (int64_t k = 0; k < m.group; ++k) q[size_t(g * m.group + k)] = round_to(group[k], inverse, as);
        }
      }
      put_integers(out, m, n, q);
    }
  });
  return out;
}

}  // namespace

// spec: hpc.ptq | compression | steps that leave the least error of products with given rows | Lin et al. 2024, in part
kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                       const Tensor& importance) {
  check(!importance.defined() || importance.shape() == Shape{m.inputs}, "rounding", "importance must be [", m.inputs,
        "], one an input, got ", importance.defined() ? importance.shape() : Shape{});
  const bool wide = m.format == kernels::PackedFormat::int8;
  std::vector<double> counts;
  if (importance.defined()) {
    counts.assign(importance.data<double>(), importance.data<double>() + m.inputs);
    if (!wide) counts.resize(size_t(m.groups() * m.group), 0);
  }
  const double* const of_inputs = counts.empty() ? nullptr : counts.data();
  return rounded_by(w, m, as, [&](int64_t, int64_t g, const float* x) {
    return wide ? output_step({x, size_t(m.inputs)}, of_inputs)
                : float(group_step(x, m.group, as, of_inputs ? of_inputs + g * m.group : nullptr));
  });
}

kernels::QuantizedTensors round_at_steps(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                         const Tensor& steps) {
  const int64_t groups = m.format == kernels::PackedFormat::int8 ? 1 : m.groups();
  check(steps.dtype() == DType::f32 && steps.numel() == m.outputs * groups, "rounding", "'", m.name, "' needs ",
        m.outputs * groups, " steps in f32, got ", steps);
  return rounded_by(w, m, as, [&](int64_t n, int64_t g, const float*) { return steps.data<float>()[n * groups + g]; });
}

// spec: hpc.ptq | compression | integers chosen by second order, an input after another | Frantar et al. 2023
kernels::QuantizedTensors round_by_second_order(const Tensor& w, const kernels::PackedMatrix& m,
                                                const WeightIntegers& as, const Tensor& moments, double damping) {
  const int64_t K = m.inputs;
  check(moments.shape() == Shape{K, K}, "rounding", "moments must be [", K, ",", K, "], got ", moments.shape());
  const kernels::QuantizedTensors out = room_for(w, m);
  const std::vector<double> u = damped_factor(moments, damping);  // [K, K], upper
  const bool wide = m.format == kernels::PackedFormat::int8;
  parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> x;
    std::vector<double> rest;
    std::vector<int> q;
    for (int64_t n = begin; n < end; ++n) {
      output_row(w, m, n, x);
      rest.assign(x.begin(), x.end());
      double step = 0;
      if (wide) {
        step = output_step(x, nullptr);
        out.scales.data<float>()[n] = float(step);
        q.assign(size_t(K), 0);
      } else {
        q.assign(size_t(m.groups() * m.group), 0);
      }
      for (int64_t k = 0; k < K; ++k) {
        if (!wide && k % m.group == 0) {
          std::vector<float> group(size_t(m.group), 0);
          for (int64_t i = k; i < std::min(K, k + m.group); ++i) group[size_t(i - k)] = float(rest[size_t(i)]);
          const bf16 searched = group_step(group.data(), m.group, as);
          out.scales.data<bf16>()[n * m.groups() + k / m.group] = searched;
          step = float(searched);
        }
        const double value = rest[size_t(k)];
        q[size_t(k)] = step == 0 ? 0 : std::clamp(int(std::round(value / step)), as.least, as.most);
        const double* row = u.data() + k * K;
        const double error = (value - step * q[size_t(k)]) / row[k];
        for (int64_t i = k + 1; i < K; ++i) rest[size_t(i)] -= error * row[i];
      }
      put_integers(out, m, n, q);
    }
  });
  return out;
}

void write_numbers(const kernels::QuantizedTensors& integers, const kernels::PackedMatrix& m, const Tensor& out) {
  const bool wide = m.format == kernels::PackedFormat::int8;
  const int64_t row_bytes = integers.values.cols();
  dispatch_float(out.dtype(), [&]<class T>() {
    T* to = out.data<T>();
    parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t n = begin; n < end; ++n)
        for (int64_t k = 0; k < m.inputs; ++k) {
          float value;
          if (wide) {
            value = integers.scales.data<float>()[n] * float(integers.values.data<int8_t>()[n * row_bytes + k]);
          } else {
            const uint8_t pair = integers.values.data<uint8_t>()[n * row_bytes + k / 2];
            value = float(integers.scales.data<bf16>()[n * m.groups() + k / m.group]) *
                    float(int(k % 2 ? pair >> 4 : pair & 15) - 8);
          }
          to[m.by_rows ? n * m.inputs + k : k * m.outputs + n] = T(value);
        }
    });
  });
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
