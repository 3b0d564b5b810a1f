// Random attention problems, their exact results in f64, and bounds of what rounding may change.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "lithe/kernels/attention/attention.h"
#include "lithe/kernels/attention/reference.h"
#include "lithe/kernels/int4_rows/int4_rows.h"
#include "lithe/kernels/quantized_rows/quantized_rows.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {

using testing_support::expect_close;
using testing_support::expect_same_bits;
using testing_support::random_tensor;

struct WithIsa {
  explicit WithIsa(Isa isa) : before_(usable_isa()) { limit_isa(isa); }
  ~WithIsa() { limit_isa(before_); }

 private:
  Isa before_;
};
/// Types that have kernels of their own on the set that is in use: emulated tiles take bf16 alone.
inline std::vector<DType> fast_types() {
  return usable_isa() == Isa::amx_emulated ? std::vector{DType::bf16} : std::vector{DType::f32, DType::bf16};
}

struct Lengths {
  int64_t queries, keys;
};

struct AttentionCase {
  DType dtype;
  std::vector<Lengths> segments;
  int64_t heads = 1, kv_heads = 1, head_dim = 16, value_dim = 16;
  AttentionMask mask;
  bool own_keys = false;
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  // Own keys only:
  std::optional<DType> cached;  // their type; none: dtype
  int64_t page_rows = 0;        // 0: one page
  std::vector<AttentionMask> head_masks = {};
  std::function<void(AttentionArgs&)> change = {};  // adds biases, tiles or shares
  std::string changes = "";
};
/// The case, on emulated tiles with heads of widths that these take.
inline AttentionCase fitted(AttentionCase c) {
  if (usable_isa() == Isa::amx_emulated) c.head_dim = 32, c.value_dim = 64;
  return c;
}
inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  out << c.dtype << " heads " << c.heads << "/" << c.kv_heads << " dims " << c.head_dim << "," << c.value_dim
      << (c.mask.causal ? " causal" : "") << " window " << c.mask.window << (c.own_keys ? " own keys" : "");
  if (c.own_keys) out << " " << c.cached.value_or(c.dtype) << " in pages of " << c.page_rows;
  if (!c.changes.empty()) out << " " << c.changes;
  out << " on " << name_of(usable_isa()) << ", segments";
  for (const Lengths& s : c.segments) out << " " << s.queries << "x" << s.keys;
  return out;
}

/// Rows of `heads` heads as pages of another type.
inline PagedRows in_pages(const Tensor& rows, int64_t heads, DType type, int64_t page_rows) {
  PagedRows out;
  const int64_t step = page_rows ? page_rows : rows.dim(0);
  for (int64_t at = 0; at < rows.dim(0); at += step) {
    const Tensor page = clone(rows.slice(at, std::min(at + step, rows.dim(0))));
    if (type == DType::u8) {
      const Int4Rows int4{heads, page.cols() / heads};
      out.width = page.cols();
      out.pages.push_back(empty({page.dim(0), int4.bytes()}, DType::u8));
      out.scales.push_back(empty({page.dim(0), int4.scales()}, DType::bf16));
      quantize_int4_rows({.x = page, .codes = out.pages.back(), .scales = out.scales.back(), .heads = heads});
      continue;
    }
    if (type != DType::i8) {
      out.pages.push_back(convert(page, type));
      continue;
    }
    out.pages.push_back(empty(page.shape(), DType::i8));
    out.scales.push_back(empty({page.dim(0), heads}, DType::f32));
    quantize_rows({.x = page, .values = out.pages.back(), .scales = out.scales.back()});
  }
  return out;
}

/// Normal q, k and v; a row that no segment covers lies before each segment.
inline AttentionArgs make_attention(const AttentionCase& c, uint64_t seed = 1) {
  AttentionArgs a;
  a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim, a.value_dim = c.value_dim;
  a.scale = c.scale != 0 ? c.scale : 1 / std::sqrt(double(c.head_dim));
  a.mask = c.mask, a.head_masks = c.head_masks;
  int64_t queries = 0, keys = 0;
  for (const Lengths& s : c.segments) {
    AttentionSegment segment{queries + 1, s.queries, keys + 1, s.keys, {}, {}};
    if (c.own_keys) {
      segment.key_row = 0;
      const auto own = [&](int64_t cols, uint64_t which) {
        return in_pages(random_tensor({s.keys + 3, c.kv_heads * cols}, c.dtype, seed + 10 * a.segments.size() + which),
                        c.kv_heads, c.cached.value_or(c.dtype), c.page_rows);
      };
      segment.keys = own(c.head_dim, 4);
      segment.values = own(c.value_dim, 5);
    }
    a.segments.push_back(segment);
    queries += 1 + s.queries, keys += 1 + s.keys;
  }
  a.q = random_tensor({queries, c.heads * c.head_dim}, c.dtype, seed + 1);
  if (!c.own_keys) {
    a.k = random_tensor({keys, c.kv_heads * c.head_dim}, c.dtype, seed + 2);
    a.v = random_tensor({keys, c.kv_heads * c.value_dim}, c.dtype, seed + 3);
  }
  a.out = zeros({queries, c.heads * c.value_dim}, c.dtype);
  a.lse = zeros({queries, c.heads}, c.dtype == DType::f64 ? DType::f64 : DType::f32);
  if (c.change) c.change(a);
  return a;
}

/// The same problem in f64 with outputs of its own.
inline AttentionArgs exact(const AttentionArgs& a) {
  AttentionArgs e = a;
  const auto wide = [](const Tensor& x) { return x ? convert(x, DType::f64) : Tensor(); };
  e.q = wide(a.q), e.k = wide(a.k), e.v = wide(a.v);
  const auto one_page = [&](const std::vector<double>& values, int64_t rows) -> PagedRows {
    if (values.empty()) return {};
    return tensor_of({rows, int64_t(values.size()) / rows}, std::span<const double>(values));
  };
  for (AttentionSegment& s : e.segments) {
    std::vector<double> keys = ref::numbers(s.keys, s.key_rows, a.kv_heads);
    ref::turn(a, s, keys);
    s.keys = one_page(keys, s.key_rows);
    s.values = one_page(ref::numbers(s.values, s.key_rows, a.kv_heads), s.key_rows);
  }
  e.turn = nullptr;
  e.out = zeros(a.out.shape(), DType::f64);
  e.lse = zeros({a.q.dim(0), a.heads}, DType::f64);
  for (Tensor* x :
       {&e.bias.table, &e.bias.rows, &e.bias.columns, &e.bias.rates, &e.bias.centres, &e.bias.pairs, &e.shares})
    *x = wide(*x);
  return e;
}

inline std::function<double(int64_t)> each_of(const std::vector<double>& bounds) {
  return [&bounds](int64_t i) { return bounds[size_t(i)]; };
}

inline Tensor abs_of(const Tensor& x, double sign = 1) {
  if (!x) return x;
  Tensor y = clone(x);
  for (int64_t i = 0; i < y.numel(); ++i) set_value(y, i, sign * std::abs(value_at(y, i)));
  return y;
}

/// How far rounding may move the bias of a pair: each of its parts, and where x = centre - j is rounded.
struct BiasError {
  AttentionArgs sizes;
  explicit BiasError(const AttentionArgs& e) : sizes(e) {
    sizes.bias.table = abs_of(e.bias.table), sizes.bias.rows = abs_of(e.bias.rows);
    sizes.bias.columns = abs_of(e.bias.columns);
    sizes.bias.rates = abs_of(e.bias.rates, -1);
    sizes.bias.pairs = abs_of(e.bias.pairs);
    for (int64_t i = 0; sizes.bias.pairs && i < sizes.bias.pairs.numel(); ++i)  // hidden pairs are so exactly
      if (std::isinf(value_at(sizes.bias.pairs, i))) set_value(sizes.bias.pairs, i, 0);
  }
  double operator()(int64_t segment, int64_t head, int64_t i, int64_t j) const {
    const AttentionBias& b = sizes.bias;
    if (!b.defined()) return 0;
    const ref::Place at{sizes, segment, head};
    double error = 8 * at.added_up(i, j) + b.multiplies_weights;
    if (b.centres)
      error += 4 * std::abs(value_at(b.rates, at.in_heads(b.rates, i))) *
               (std::abs(value_at(b.centres, at.in_heads(b.centres, i))) + double(j)) *
               (b.squared ? std::abs(at.apart(i, j)) : 1);
    return error * 0x1p-24;
  }
};

/// Rounding of the storage type and of the f32 arithmetic, as far as attention depends on them.
///   logit:  a sum of head_dim products (each partial sum within eps of the sum of magnitudes), scaling and
///           subtraction of the maximum: (head_dim + 6) eps times scale |q|.|k|
///   weight: twice the logit's error (its own and the sum's), the exponential, the sum over keys
///   value:  the sum over keys again; with pairs of bf16 also one rounding of each weight
struct AttentionBounds {
  std::vector<double> out, lse, weight;  // weight: relative, [rows * heads]

  AttentionBounds(const AttentionArgs& a, const AttentionArgs& e) {
    const double eps = 0x1p-24, store = epsilon_of(a.q.dtype());
    AttentionArgs magnitude = e;  // sum_j p |v|
    magnitude.out = zeros(e.out.shape(), DType::f64);
    magnitude.v = abs_of(e.v);
    for (AttentionSegment& s : magnitude.segments)
      if (s.values.defined()) s.values = abs_of(s.values.pages[0]);
    ref::attention<double>(magnitude);

    const BiasError bias(e);
    weight.assign(size_t(a.q.dim(0) * a.heads), 0);
    lse = weight;
    out.assign(size_t(a.out.numel()), 0);
    for (const AttentionSegment& s : e.segments)
      for (int64_t head = 0; head < a.heads; ++head) {
        const ref::HeadView<double> x(e, s, head);
        for (int64_t i = 0; i < s.query_rows; ++i) {
          const ref::Visible keys = ref::Place{e, &s - e.segments.data(), head}.visible(i);
          double largest = 0, of_bias = 0, turning = 0;
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            const double *q = x.q + i * x.q_stride, *k = x.k + j * x.k_stride;
            double sum = 0;
            for (int64_t c = 0; c < a.head_dim; ++c) sum += std::abs(q[c] * k[c]);
            largest = std::max(largest, std::abs(a.scale) * sum);
            if (a.turn)  // a pair moves by its length times the error of sine and cosine and of their products
              turning = std::max(turning, 10 * eps * std::abs(a.scale) *
                                              std::sqrt(ref::dot(q, q, a.head_dim) * ref::dot(k, k, a.head_dim)));
            of_bias = std::max(of_bias, bias(&s - e.segments.data(), head, i, j));
          }
          const double logit = double(a.head_dim + 6) * eps * largest + of_bias + turning,
                       sums = double(keys.end - keys.begin + 16) * eps;
          const size_t n = size_t((s.query_row + i) * a.heads + head);
          weight[n] = 2 * logit + 2 * sums + (a.q.dtype() == DType::bf16 ? store : 0);
          lse[n] = logit + sums + 4 * eps * std::abs(value_at(e.lse, int64_t(n)));
          for (int64_t c = 0; c < a.value_dim; ++c) {
            const size_t at = n * size_t(a.value_dim) + size_t(c);
            out[at] = 1.01 * (weight[n] + sums) * value_at(magnitude.out, int64_t(at)) +
                      1.01 * store * std::abs(value_at(e.out, int64_t(at)));
          }
        }
      }
  }
};

/// Runs the case and compares out and lse with the reference in f64.
inline void expect_forward_right(const AttentionCase& c, uint64_t seed = 1) {
  SCOPED_TRACE(testing::Message() << c);
  const AttentionArgs a = make_attention(c, seed), e = exact(a);
  ref::attention<double>(e);
  attention(a);
  const AttentionBounds bounds(a, e);
  expect_close(a.out, e.out, each_of(bounds.out), "out");
  expect_close(a.lse, e.lse, each_of(bounds.lse), "lse");
  if (!a.shares) return;
  const int64_t numbers = a.shares.dim(1) / a.heads;
  expect_close(
      a.shares, e.shares,
      [&](int64_t i) {  // weights with pairs of bf16 are rounded, too
        return 1.01 * (bounds.weight[size_t(i / numbers)] + 1e3 * 0x1p-24) * value_at(e.shares, i) + 0x1p-60;
      },
      "shares");
}

}  // namespace lithe::kernels
