// Random gradients of attention, their exact results in f64, and bounds of what rounding may change.
#pragma once

#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {

inline AttentionGradArgs make_grad(const AttentionCase& c, DType grad_dtype, bool accumulate, uint64_t seed = 1) {
  AttentionGradArgs g;
  AttentionArgs& a = g.forward;
  a = make_attention(c, seed);
  attention(a);
  g.dout = random_tensor(a.out.shape(), c.dtype, seed + 100);
  const DType wide = a.lse.dtype();
  const auto like = [&](const Tensor& x, uint64_t which) {
    return x ? random_tensor(x.shape(), wide, seed + which) : Tensor();
  };
  g.dtable = like(a.bias.table, 110), g.drows = like(a.bias.rows, 111);
  g.dcolumns = like(a.bias.columns, 117);
  g.drates = like(a.bias.rates, 112), g.dcentres = like(a.bias.centres, 113);
  g.accumulate_dtable = g.accumulate_drows = g.accumulate_dcolumns = g.accumulate_drates = g.accumulate_dcentres =
      accumulate;
  if (!c.changes.empty()) g.dlse = like(a.lse, 114);
  if (a.shares) {
    // As if values by distance had been added to out.
    g.dshares = like(a.shares, 115);
    const int64_t numbers = a.shares.dim(1) / a.heads;
    const Tensor table = random_tensor({numbers, c.value_dim}, wide, seed + 116);
    for (int64_t n = 0; n < a.q.dim(0) * a.heads; ++n) {
      for (int64_t u = 0; u < numbers; ++u) {
        double sum = 0;
        for (int64_t v = 0; v < c.value_dim; ++v)
          sum += value_at(g.dout, n * c.value_dim + v) * value_at(table, u * c.value_dim + v);
        set_value(g.dshares, n * numbers + u, sum);
      }
      for (int64_t v = 0; v < c.value_dim; ++v) {
        double sum = value_at(a.out, n * c.value_dim + v);
        for (int64_t u = 0; u < numbers; ++u)
          sum += value_at(a.shares, n * numbers + u) * value_at(table, u * c.value_dim + v);
        set_value(a.out, n * c.value_dim + v, sum);
      }
    }
  }
  g.dq = random_tensor(g.forward.q.shape(), grad_dtype, seed + 101);
  g.dk = random_tensor(g.forward.k.shape(), grad_dtype, seed + 102);
  g.dv = random_tensor(g.forward.v.shape(), grad_dtype, seed + 103);
  g.accumulate_dq = g.accumulate_dk = g.accumulate_dv = accumulate;
  return g;
}

inline AttentionGradArgs exact(const AttentionGradArgs& g) {
  AttentionGradArgs e = g;
  e.forward = exact(g.forward);
  ref::attention<double>(e.forward);
  if (g.forward.shares) e.forward.out = convert(g.forward.out, DType::f64);
  for (Tensor* t :
       {&e.dout, &e.dq, &e.dk, &e.dv, &e.dtable, &e.drows, &e.dcolumns, &e.drates, &e.dcentres, &e.dshares, &e.dlse})
    if (*t) *t = convert(*t, DType::f64);
  return e;
}

/// What rounding may change, from the formula at the top of attention/reference.h, every operand with its own
/// error: p as in AttentionBounds (its logit and lse), dout . v and dout . out as sums of value_dim
/// products, out as stored, their difference, and sums over keys or queries. With bf16, p and dl may be
/// rounded to bf16 before the last products.
struct GradBounds {
  std::vector<double> dq, dk, dv, dtable, drows, dcolumns, drates, dcentres;

  GradBounds(const AttentionGradArgs& g, const AttentionGradArgs& e, const AttentionGradArgs& before) {
    const AttentionArgs& a = e.forward;
    const AttentionBounds forward(g.forward, a);
    const double eps = 0x1p-24, round = g.forward.q.dtype() == DType::bf16 ? 0x1p-8 : 0;
    const int64_t qk = a.head_dim, vd = a.value_dim, group = a.heads / a.kv_heads;
    dq.assign(size_t(g.dq.numel()), 0), dk.assign(size_t(g.dk.numel()), 0), dv.assign(size_t(g.dv.numel()), 0);
    const auto none = [](const Tensor& x) { return std::vector<double>(x ? size_t(x.numel()) : 0, 0.0); };
    dtable = none(g.dtable), drows = none(g.drows), dcolumns = none(g.dcolumns), drates = none(g.drates),
    dcentres = none(g.dcentres);
    for (const AttentionSegment& s : a.segments)
      for (int64_t head = 0; head < a.heads; ++head) {
        const ref::HeadView<double> x(a, s, head);
        const ref::Place place{a, &s - a.segments.data(), head};
        const double sums = double(s.key_rows + s.query_rows * group + 16) * eps;
        std::vector<double> p;
        for (int64_t i = 0; i < s.query_rows; ++i) {
          const int64_t n = (s.query_row + i) * a.heads + head;
          const double *dout = e.dout.data<double>() + n * vd, *out = a.out.data<double>() + n * vd;
          const ref::Visible keys = place.visible(i);
          const double lse = ref::weights(place, x, i, keys, p);
          const double p_error = 2 * forward.weight[size_t(n)] + (std::isfinite(lse) ? 4 * eps * std::abs(lse) : 0);
          double delta = 0, delta_error = 0;
          if (e.dlse) delta -= value_at(e.dlse, n), delta_error += 2 * eps * std::abs(delta);
          for (int64_t c = 0; c < vd; ++c) {
            delta += dout[c] * out[c];
            delta_error +=
                std::abs(dout[c]) * (double(vd + 2) * eps * std::abs(out[c]) + forward.out[size_t(n * vd + c)]);
          }
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            const double w = p[size_t(j - keys.begin)];
            double dp = 0, dp_size = 0;
            for (int64_t c = 0; c < vd; ++c)
              dp += dout[c] * x.v[j * x.v_stride + c], dp_size += std::abs(dout[c] * x.v[j * x.v_stride + c]);
            if (e.dshares) {
              const double more = value_at(e.dshares, place.in_rows(e.dshares, a.shares_first, i, j));
              dp += more, dp_size += std::abs(more);
            }
            const bool multiplied = a.bias.multiplies_weights;
            const double by = place.multiplier(i, j), by_error = multiplied ? p_error * std::abs(dp * by) : 0;
            dp *= by, dp_size *= by;
            const double size = a.scale * w * std::abs(dp - delta);
            const double dl_error = size * (p_error + 4 * eps + round) +
                                    a.scale * w * (double(vd + 2) * eps * dp_size + by_error + delta_error);
            const double of_bias = multiplied ? w * (2 * by_error + (sums + double(vd + 6) * eps) * dp_size)
                                              : (dl_error + sums * size) / a.scale;
            if (g.dtable) dtable[size_t(place.in_table(a.bias.table, i, j))] += of_bias;
            if (g.drows) drows[size_t(place.in_rows(a.bias.rows, a.bias.first, i, j))] += of_bias;
            if (g.dcolumns) dcolumns[size_t(place.in_columns(a.bias.columns, i, j))] += of_bias;
            if (a.bias.rates) {
              const double apart = std::abs(place.apart(i, j)),
                           rate = value_at(a.bias.rates, place.in_heads(a.bias.rates, i)),
                           far = a.bias.centres ? 4 * eps * double(s.key_rows + s.query_rows) *
                                                      (multiplied ? w * std::abs(dp) : size / a.scale)
                                                : 0;
              if (g.drates)
                drates[size_t(place.in_heads(a.bias.rates, i))] +=
                    a.bias.squared ? of_bias * apart * apart + 2 * far * apart : of_bias * apart + far;
              if (g.dcentres)
                dcentres[size_t(place.in_heads(a.bias.centres, i))] +=
                    std::abs(rate) * (a.bias.squared ? 2 * of_bias * apart + 2 * far : of_bias);
            }
            const size_t to = size_t((s.key_row + j) * a.kv_heads + head / group);
            for (int64_t c = 0; c < qk; ++c) {
              dq[size_t(n * qk + c)] += (dl_error + sums * size) * std::abs(x.k[j * x.k_stride + c]);
              dk[to * size_t(qk) + size_t(c)] += (dl_error + sums * size) * std::abs(x.q[i * x.q_stride + c]);
            }
            for (int64_t c = 0; c < vd; ++c)
              dv[to * size_t(vd) + size_t(c)] +=
                  ((multiplied ? 2 : 1) * p_error + round + sums) * w * by * std::abs(dout[c]);
          }
        }
      }
    const auto stored = [&](std::vector<double>& bound, const Tensor& got, const Tensor& want, const Tensor& start,
                            bool add) {
      for (size_t i = 0; i < bound.size(); ++i) {
        const double begin = add ? std::abs(value_at(start, int64_t(i))) : 0;
        bound[i] = 1.01 * (bound[i] + (epsilon_of(got.dtype())) * std::abs(value_at(want, int64_t(i))) +
                           1e4 * eps * eps + 2 * double(g.forward.heads * 400) * eps * begin);
      }
    };
    stored(dq, g.dq, e.dq, before.dq, g.accumulate_dq);
    stored(dk, g.dk, e.dk, before.dk, g.accumulate_dk);
    stored(dv, g.dv, e.dv, before.dv, g.accumulate_dv);
    if (g.dtable) stored(dtable, g.dtable, e.dtable, before.dtable, g.accumulate_dtable);
    if (g.drows) stored(drows, g.drows, e.drows, before.drows, g.accumulate_drows);
    if (g.dcolumns) stored(dcolumns, g.dcolumns, e.dcolumns, before.dcolumns, g.accumulate_dcolumns);
    if (g.drates) stored(drates, g.drates, e.drates, before.drates, g.accumulate_drates);
    if (g.dcentres) stored(dcentres, g.dcentres, e.dcentres, before.dcentres, g.accumulate_dcentres);
  }
};

inline void expect_backward_right(const AttentionCase& c, DType grad_dtype, bool accumulate, uint64_t seed = 1) {
  SCOPED_TRACE(testing::Message() << c << (accumulate ? " accumulate into " : " into ") << grad_dtype);
  const AttentionGradArgs g = make_grad(c, grad_dtype, accumulate, seed), before = exact(g), e = exact(g);
  ref::attention_grad<double>(e);
  attention_grad(g);
  const GradBounds bounds(g, e, before);
  expect_close(g.dq, e.dq, each_of(bounds.dq), "dq");
  expect_close(g.dk, e.dk, each_of(bounds.dk), "dk");
  expect_close(g.dv, e.dv, each_of(bounds.dv), "dv");
  if (g.dtable) expect_close(g.dtable, e.dtable, each_of(bounds.dtable), "dtable");
  if (g.drows) expect_close(g.drows, e.drows, each_of(bounds.drows), "drows");
  if (g.dcolumns) expect_close(g.dcolumns, e.dcolumns, each_of(bounds.dcolumns), "dcolumns");
  if (g.drates) expect_close(g.drates, e.drates, each_of(bounds.drates), "drates");
  if (g.dcentres) expect_close(g.dcentres, e.dcentres, each_of(bounds.dcentres), "dcentres");
}

}  // namespace lithe::kernels
