#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_gradient;

AttentionGradArgs make_grad(const AttentionCase& c, DType grad_dtype, bool accumulate, uint64_t seed = 1) {
  AttentionGradArgs g;
  g.forward = make_attention(c, seed);
  attention(g.forward);
  g.dout = random_tensor(g.forward.out.shape(), c.dtype, seed + 100);
  g.dq = random_tensor(g.forward.q.shape(), grad_dtype, seed + 101);
  g.dk = random_tensor(g.forward.k.shape(), grad_dtype, seed + 102);
  g.dv = random_tensor(g.forward.v.shape(), grad_dtype, seed + 103);
  g.accumulate_dq = g.accumulate_dk = g.accumulate_dv = accumulate;
  return g;
}

AttentionGradArgs exact(const AttentionGradArgs& g) {
  AttentionGradArgs e = g;
  e.forward = exact(g.forward);
  ref::attention<double>(e.forward);
  for (Tensor* t : {&e.dout, &e.dq, &e.dk, &e.dv}) *t = convert(*t, DType::f64);
  return e;
}

/// What rounding may change, from the formula at the top of attention/reference.h, every operand with its own
/// error: p as in AttentionBounds (its logit and lse), dout . v and dout . out as sums of value_dim
/// products, out as stored, their difference, and sums over keys or queries. With bf16, p and dl may be
/// rounded to bf16 before the last products.
struct GradBounds {
  std::vector<double> dq, dk, dv;

  GradBounds(const AttentionGradArgs& g, const AttentionGradArgs& e, const AttentionGradArgs& before) {
    const AttentionArgs& a = e.forward;
    const AttentionBounds forward(g.forward, a);
    const double eps = 0x1p-24, round = g.forward.q.dtype() == DType::bf16 ? 0x1p-8 : 0;
    const int64_t qk = a.head_dim, vd = a.value_dim, group = a.heads / a.kv_heads;
    dq.assign(size_t(g.dq.numel()), 0), dk.assign(size_t(g.dk.numel()), 0), dv.assign(size_t(g.dv.numel()), 0);
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
          const double p_error = 2 * forward.weight[size_t(n)] + 4 * eps * std::abs(lse);
          double delta = 0, delta_error = 0;
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
            const double size = a.scale * w * std::abs(dp - delta);
            const double dl_error =
                size * (p_error + 4 * eps + round) + a.scale * w * (double(vd + 2) * eps * dp_size + delta_error);
            const size_t to = size_t((s.key_row + j) * a.kv_heads + head / group);
            for (int64_t c = 0; c < qk; ++c) {
              dq[size_t(n * qk + c)] += (dl_error + sums * size) * std::abs(x.k[j * x.k_stride + c]);
              dk[to * size_t(qk) + size_t(c)] += (dl_error + sums * size) * std::abs(x.q[i * x.q_stride + c]);
            }
            for (int64_t c = 0; c < vd; ++c)
              dv[to * size_t(vd) + size_t(c)] += (p_error + round + sums) * w * std::abs(dout[c]);
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
  }
};

void expect_backward_right(const AttentionCase& c, DType grad_dtype, bool accumulate, uint64_t seed = 1) {
  SCOPED_TRACE(testing::Message() << c << (accumulate ? " accumulate into " : " into ") << grad_dtype);
  const AttentionGradArgs g = make_grad(c, grad_dtype, accumulate, seed), before = exact(g), e = exact(g);
  ref::attention_grad<double>(e);
  attention_grad(g);
  const GradBounds bounds(g, e, before);
  expect_close(g.dq, e.dq, each_of(bounds.dq), "dq");
  expect_close(g.dk, e.dk, each_of(bounds.dk), "dk");
  expect_close(g.dv, e.dv, each_of(bounds.dv), "dv");
}

// oracle: attn.qkv
TEST(AttentionGrad, ReferenceEqualsCentralDifferences) {
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.causal = true, .window = 2}}) {
    const AttentionGradArgs g = make_grad({.dtype = DType::f64,
                                           .segments = {{3, 3}, {2, 4}, {3, 2}},
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 3,
                                           .value_dim = 2,
                                           .mask = mask},
                                          DType::f64, false);
    attention_grad(g);
    const auto loss = [&] {
      attention(g.forward);
      double sum = 0;
      for (const AttentionSegment& s : g.forward.segments)
        for (int64_t i = s.query_row * g.dout.cols(); i < (s.query_row + s.query_rows) * g.dout.cols(); ++i)
          sum += value_at(g.dout, i) * value_at(g.forward.out, i);
      return sum;
    };
    expect_gradient(g.dq, g.forward.q, loss, "dq");
    expect_gradient(g.dk, g.forward.k, loss, "dk");
    expect_gradient(g.dv, g.forward.v, loss, "dv");
  }
}

// oracle: attn.local_window
TEST(AttentionGrad, HeadsWithMasksOfTheirOwn) {
  for (Isa isa : usable_sets()) {
    const WithIsa limit(isa);
    for (DType dtype : {DType::f32, DType::bf16})
      expect_backward_right({.dtype = dtype,
                             .segments = {{140, 140}, {0, 3}, {17, 100}},
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 20,
                             .value_dim = 37,
                             .head_masks = {{.causal = true, .window = 3},
                                            {.causal = true},
                                            {.causal = true, .window = 70},
                                            {.causal = true, .window = 1}}},
                            dtype, true);
  }
}

// oracle: hpc.flash
TEST(AttentionGrad, EveryInstructionSetEqualsTheReference) {
  for (Isa isa : usable_sets()) {
    const WithIsa limit(isa);
    for (DType dtype : {DType::f32, DType::bf16})
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 5},
                                        AttentionMask{.causal = true, .window = 37}}) {
        expect_backward_right({.dtype = dtype, .segments = {{70, 70}, {1, 1}, {33, 64}, {5, 130}}, .mask = mask}, dtype,
                              false);
        expect_backward_right({.dtype = dtype,
                               .segments = {{129, 129}, {9, 65}, {20, 0}},
                               .heads = 2,
                               .head_dim = 64,
                               .value_dim = 64,
                               .mask = mask},
                              DType::f32, true);
        expect_backward_right({.dtype = dtype,
                               .segments = {{40, 20}, {0, 3}, {17, 100}},
                               .heads = 6,
                               .kv_heads = 2,
                               .head_dim = 20,
                               .value_dim = 37,
                               .mask = mask},
                              dtype, true);
      }
  }
}

}  // namespace
}  // namespace lithe::kernels
