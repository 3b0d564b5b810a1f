// The worked examples and identities of the specification, on every implementation.
#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {
namespace {

constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16};

Tensor matrix(std::initializer_list<std::initializer_list<double>> rows, DType dtype) {
  const Tensor x = empty({int64_t(rows.size()), int64_t(rows.begin()->size())}, dtype);
  int64_t i = 0;
  for (const auto& row : rows)
    for (double value : row) set_value(x, i++, value);
  return x;
}

Tensor identity(int64_t n, DType dtype) {
  const Tensor x = zeros({n, n}, dtype);
  for (int64_t i = 0; i < n; ++i) set_value(x, i * n + i, 1);
  return x;
}

/// One head over one segment.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, double scale, AttentionMask mask = {}) {
  AttentionArgs a;
  a.q = q, a.k = k, a.v = v;
  a.out = empty({q.dim(0), v.dim(1)}, q.dtype());
  a.segments = {{0, q.dim(0), 0, k.dim(0), {}, {}}};
  a.head_dim = q.dim(1), a.value_dim = v.dim(1);
  a.scale = scale, a.mask = mask;
  attention(a);
  return a.out;
}

/// What the storage type may change in a value of about 1.
double grain(DType dtype) { return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 4e-6 : 2e-2; }

/// f(dtype) for every type on every implementation.
template <class F>
void everywhere(F&& f) {
  for (DType dtype : kAll)
    on_every_implementation([&](const std::string& name) {
      SCOPED_TRACE(testing::Message() << name << " " << dtype);
      f(dtype);
    });
}

Tensor rows_in_order(const Tensor& x, const std::vector<int64_t>& order) {
  const Tensor y = empty({int64_t(order.size()), x.dim(1)}, x.dtype());
  for (size_t i = 0; i < order.size(); ++i)
    copy_into(y.slice(int64_t(i), int64_t(i) + 1), x.slice(order[i], order[i] + 1));
  return y;
}

void expect_near(const Tensor& got, const Tensor& want, double bound) { expect_close(got, want, bound, "out"); }

// oracle: attn.dot_single
TEST(AttentionOracle, DotSingle) {
  const double to_sqrt2 = 1 / std::sqrt(2.0);
  everywhere([&](DType dtype) {
    const Tensor h = identity(2, dtype);
    expect_near(attend(h, h, h, to_sqrt2), matrix({{0.669762, 0.330238}, {0.330238, 0.669762}}, dtype),
                std::max(5e-7, 0.25 * grain(dtype)));
    const Tensor x = random_tensor({37, 20}, dtype, 1);
    // beta to infinity: the mean of the rows.
    const Tensor means = attend(x, x, x, 1e-9), mean = zeros({37, 20}, DType::f64);
    for (int64_t i = 0; i < 37; ++i)
      for (int64_t j = 0; j < 37; ++j)
        for (int64_t c = 0; c < 20; ++c)
          set_value(mean, i * 20 + c, value_at(mean, i * 20 + c) + value_at(x, j * 20 + c) / 37);
    expect_near(means, convert(mean, dtype), 1e-7 + grain(dtype));
    // All rows equal: the output is the input.
    const Tensor same = rows_in_order(x, std::vector<int64_t>(37, 3));
    expect_near(attend(same, same, same, 0.3), same, 3 * grain(dtype));
    // Equivariance: f(P X) = P f(X).
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 37; ++i) order.push_back(i * 10 % 37);
    const Tensor turned = rows_in_order(x, order);
    expect_near(attend(turned, turned, turned, 0.2), rows_in_order(attend(x, x, x, 0.2), order), 4 * grain(dtype));
  });
}

// oracle: attn.qkv
TEST(AttentionOracle, WeightsAreAtLeastZeroAndSumToOne) {
  everywhere([&](DType dtype) {
    const Tensor weights =
        attend(random_tensor({41, 24}, dtype, 1), random_tensor({70, 24}, dtype, 2), identity(70, dtype), 0.2);
    for (int64_t i = 0; i < 41; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 70; ++j) {
        ASSERT_GE(value_at(weights, i * 70 + j), 0);
        sum += value_at(weights, i * 70 + j);
      }
      ASSERT_NEAR(sum, 1, grain(dtype));
    }
  });
}

// oracle: attn.qkv
TEST(AttentionOracle, ShiftsOfKeysAndValues) {
  everywhere([&](DType dtype) {
    // Numbers with few bits, so that the shifts are exact in every type.
    const auto coarse = [&](int64_t rows, uint64_t seed) {
      const Tensor x = random_tensor({rows, 16}, DType::f64, seed);
      for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, std::round(value_at(x, i) * 4) / 4);
      return convert(x, dtype);
    };
    const Tensor q = coarse(35, 1), k = coarse(50, 2), v = coarse(50, 3), shifted_k = clone(k), shifted_v = clone(v);
    for (int64_t i = 0; i < k.numel(); ++i) {
      set_value(shifted_k, i, value_at(k, i) + double(i % 16 % 5) / 2);
      set_value(shifted_v, i, value_at(v, i) + double(i % 16 % 3));
    }
    const Tensor out = attend(q, k, v, 0.25), moved = clone(out);
    expect_near(attend(q, shifted_k, v, 0.25), out, 8 * grain(dtype));
    for (int64_t i = 0; i < out.numel(); ++i) set_value(moved, i, value_at(out, i) + double(i % 16 % 3));
    expect_near(attend(q, k, shifted_v, 0.25), moved, 4 * grain(dtype));
  });
}

// oracle: attn.qkv
TEST(AttentionOracle, OneKeyPermutedKeysAndDuplicates) {
  everywhere([&](DType dtype) {
    const Tensor q = random_tensor({33, 16}, dtype, 1), k = random_tensor({45, 16}, dtype, 2),
                 v = random_tensor({45, 8}, dtype, 3);
    const Tensor one = attend(q, k.slice(0, 1), v.slice(0, 1), 0.25);
    for (int64_t i = 0; i < 33; ++i)
      for (int64_t c = 0; c < 8; ++c) ASSERT_NEAR(value_at(one, i * 8 + c), value_at(v, c), grain(dtype));
    const Tensor out = attend(q, k, v, 0.25);
    std::vector<int64_t> order, twice;
    for (int64_t i = 0; i < 45; ++i) order.push_back(i * 7 % 45), twice.push_back(i), twice.push_back(44 - i);
    expect_near(attend(q, rows_in_order(k, order), rows_in_order(v, order), 0.25), out, 2 * grain(dtype));
    expect_near(attend(q, rows_in_order(k, twice), rows_in_order(v, twice), 0.25), out, 2 * grain(dtype));
  });
}

// oracle: attn.qkv
TEST(AttentionOracle, LargeScaleSelectsTheLargestLogit) {
  everywhere([&](DType dtype) {
    const Tensor q = random_tensor({33, 16}, dtype, 1), k = random_tensor({45, 16}, dtype, 2),
                 v = random_tensor({45, 8}, dtype, 3);
    const Tensor out = attend(q, k, v, 1e7);
    for (int64_t i = 0; i < 33; ++i) {
      int64_t best = 0;
      double most = -1e300;
      for (int64_t j = 0; j < 45; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < 16; ++c) dot += value_at(q, i * 16 + c) * value_at(k, j * 16 + c);
        if (dot > most) most = dot, best = j;
      }
      for (int64_t c = 0; c < 8; ++c)
        ASSERT_NEAR(value_at(out, i * 8 + c), value_at(v, best * 8 + c), grain(dtype)) << "row " << i;
    }
  });
}

// oracle: mask.causal
TEST(AttentionOracle, WorkedCausalExample) {  // TB 6.47, logits given
  everywhere([&](DType dtype) {
    const Tensor logits = matrix({{2, .1, 1, 1}, {0, .9, .9, .9}, {.2, .8, .7, 2}, {.3, 1, .3, 3}}, dtype),
                 one = identity(4, dtype);
    const Tensor want = matrix({{1, 0, 0, 0},
                                {0.289050, 0.710950, 0, 0},
                                {0.223672, 0.407556, 0.368772, 0},
                                {0.052928, 0.106585, 0.052928, 0.787559}},
                               dtype);
    expect_near(attend(logits, one, one, 1, {.causal = true}), want, std::max(6e-7, 0.5 * grain(dtype)));
    // The offset form: the last two queries alone, of four keys.
    expect_near(attend(logits.slice(2, 4), one, one, 1, {.causal = true}), want.slice(2, 4),
                std::max(6e-7, 0.5 * grain(dtype)));
  });
}

// oracle: hpc.flash, attn.qkv
TEST(AttentionOracle, WindowSeesExactlyItsKeys) {
  everywhere([&](DType dtype) {
    const int64_t n = 70;
    const Tensor q = zeros({n, 8}, dtype),
                 weights_causal = attend(q, q, identity(n, dtype), 1, {.causal = true, .window = 5});
    const Tensor weights = attend(q, q, identity(n, dtype), 1, {.window = 5});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        ASSERT_EQ(value_at(weights_causal, i * n + j) > 0, j <= i && j > i - 5) << i << "," << j;
        ASSERT_EQ(value_at(weights, i * n + j) > 0, j > i - 5 && j < i + 5) << i << "," << j;
      }
  });
}

}  // namespace
}  // namespace lithe::kernels
