#include "lithe/ops/attention.h"

#include <cmath>

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

Tensor run(const Tensor& q, const Tensor& k, const Tensor& v, const AttendOptions& options = {}) {
  return attend(Var(q), Var(k), Var(v), Sequences::single(q.rows()), Sequences::single(k.rows()), options).value();
}

// oracle: attn.qkv
TEST(Attend, WeightsArePositiveAndSumToOne) {
  const Tensor weights = run(random({4, 3}, 1), random({5, 3}, 2), kit::identity(5));
  for (int64_t n = 0; n < 4; ++n) {
    double total = 0;
    for (int64_t s = 0; s < 5; ++s) {
      EXPECT_GT(value_at(weights, n * 5 + s), 0);
      total += value_at(weights, n * 5 + s);
    }
    EXPECT_NEAR(total, 1, 8 * 0x1p-53);
  }
}

TEST(Attend, IsTheFormula) {
  const Tensor q = random({3, 2}, 1), k = random({4, 2}, 2), v = random({4, 5}, 3);
  Tensor want = zeros({3, 5}, DType::f64);
  for (int64_t n = 0; n < 3; ++n) {
    double total = 0;
    std::vector<double> weight;
    for (int64_t s = 0; s < 4; ++s) {
      double dot = 0;
      for (int64_t c = 0; c < 2; ++c) dot += value_at(q, n * 2 + c) * value_at(k, s * 2 + c);
      weight.push_back(std::exp(dot / std::sqrt(2.0)));
      total += weight.back();
    }
    for (int64_t c = 0; c < 5; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < 4; ++s) sum += weight[size_t(s)] / total * value_at(v, s * 5 + c);
      set_value(want, n * 5 + c, sum);
    }
  }
  EXPECT_EQ(kit::close(run(q, k, v), want, 16), "");
}

TEST(Attend, ShiftedKeysChangeNothingAndShiftedValuesShiftTheResult) {
  const Tensor q = random({4, 3}, 1), k = random({5, 3}, 2), v = random({5, 3}, 3), c = random({1, 3}, 4);
  const auto shifted = [&](const Tensor& x) {
    return kit::sum(x, kit::concatenate(std::vector<Tensor>(size_t(x.rows()), c)));
  };
  EXPECT_EQ(kit::close(run(q, shifted(k), v), run(q, k, v), 64), "");
  EXPECT_EQ(kit::close(run(q, k, shifted(v)), shifted(run(q, k, v)), 16), "");
}

TEST(Attend, OneKeyGivesItsValue) {
  const Tensor v = random({1, 3}, 3);
  EXPECT_EQ(kit::close(run(random({4, 2}, 1), random({1, 2}, 2), v), kit::concatenate({v, v, v, v}), 2), "");
}

TEST(Attend, OrderAndRepetitionOfPairsDoNotMatter) {
  const Tensor q = random({4, 3}, 1), k = random({5, 3}, 2), v = random({5, 2}, 3), want = run(q, k, v);
  const std::vector<int64_t> order{3, 0, 4, 1, 2};
  EXPECT_EQ(kit::close(run(q, kit::rows_of(k, order), kit::rows_of(v, order)), want, 16), "");
  EXPECT_EQ(kit::close(run(q, kit::concatenate({k, k}), kit::concatenate({v, v})), want, 16), "");
}

TEST(Attend, LargeScalesSelectAndSmallOnesAverage) {
  const Tensor q = random({4, 3}, 1), k = random({5, 3}, 2), v = random({5, 2}, 3);
  const Tensor selected = run(q, k, v, {.scale = 1e6}), mean = run(q, k, v, {.scale = 1e-12});
  for (int64_t n = 0; n < 4; ++n) {
    int64_t best = 0;
    const auto dot = [&](int64_t s) {
      return value_at(kit::product(q.slice(n, n + 1), k.slice(s, s + 1).reshape({3, 1})), 0);
    };
    for (int64_t s = 1; s < 5; ++s)
      if (dot(s) > dot(best)) best = s;
    EXPECT_EQ(kit::bit_difference(clone(selected.slice(n, n + 1)), clone(v.slice(best, best + 1))), "") << n;
    for (int64_t c = 0; c < 2; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < 5; ++s) sum += value_at(v, s * 2 + c) / 5;
      EXPECT_NEAR(value_at(mean, n * 2 + c), sum, 1e-11);
    }
  }
}

TEST(Attend, RowsThatSeeNothingAreZero) {
  // More queries than keys with a causal mask: the first queries stand before every key.
  const Tensor out =
      run(random({3, 2}, 1), random({1, 2}, 2), kit::tensor_f64({1, 2}, {5, 7}), {.mask = {.causal = true}});
  EXPECT_EQ(kit::values(out), (std::vector<double>{0, 0, 0, 0, 5, 7}));
}

TEST(Attend, Gradients) {
  const Sequences queries({0, 3, 4, 8}), keys({0, 2, 7, 11});
  for (const auto& [heads, kv] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {4, 2}, {4, 1}})
    for (const kernels::AttentionMask mask :
         {kernels::AttentionMask{}, {.causal = true}, {.causal = true, .window = 2}, {.window = 3}}) {
      const AttendOptions options{.heads = heads, .kv_heads = kv, .mask = mask};
      const std::string what = cat("heads ", heads, " kv ", kv, " causal ", mask.causal, " window ", mask.window);
      // Self-attention with values wider than keys, then queries and keys of different lengths.
      kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[1], in[2], queries, queries, options); },
                            {random({8, heads * 2}, 1), random({8, kv * 2}, 2), random({8, kv * 3}, 3)}, what);
      kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[1], in[2], queries, keys, options); },
                            {random({8, heads * 2}, 1), random({11, kv * 2}, 2), random({11, kv * 2}, 3)}, what);
    }
}

// oracle: attn.local_prior_mul
TEST(Attend, MultipliedWeightsAreNotNormalisedAgain) {
  const int64_t n = 4, keys = 5;
  const Tensor q = random({n, 2}, 1), k = random({keys, 2}, 2), v = random({keys, 3}, 3);
  std::vector<double> factors;
  for (int64_t i = 0; i < keys * n; ++i) factors.push_back(double((i * 7) % 5) / 2);  // some are 0, some above 1
  AttendOptions options;
  options.bias.use = LogitBias::Use::multiply;
  options.bias.pairs = tensor_of({keys * n}, factors), options.bias.pair_offsets = {0};
  options.bias.squared = true;
  const Tensor rates = kit::tensor_f64({1, 1}, {0.3}), centres = random({n, 1}, 4), table = random({6, 3}, 5);
  const Tensor weights = run(q, k, kit::identity(keys));
  const auto want = [&](int64_t i, int64_t j) {
    const double x = value_at(centres, i) - double(j);
    return value_at(weights, i * keys + j) * factors[size_t(j * n + i)] * std::exp(-0.3 * x * x);
  };
  AttendOptions at = options;
  at.bias.rates = Var(rates), at.bias.centres = Var(centres), at.values = {.table = Var(table), .first = -2};
  const Tensor out = run(q, k, v, at);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t distance = i + keys - n - j;
        sum += want(i, j) * (value_at(v, j * 3 + c) + value_at(table, std::clamp<int64_t>(distance + 2, 0, 5) * 3 + c));
      }
      EXPECT_NEAR(value_at(out, i * 3 + c), sum, 1e-14) << i << c;
    }
  kit::expect_gradients(
      [&](const Vars& in) {
        AttendOptions o = options;
        o.bias.rates = in[3], o.bias.centres = in[4], o.values = {.table = in[5], .first = -2};
        return attend(in[0], in[1], in[2], Sequences::single(n), Sequences::single(keys), o);
      },
      {q, k, v, rates, centres, table});
}

TEST(Attend, GradientsWhenRolesShareAVar) {
  const Sequences sequences({0, 3, 7});
  const AttendOptions options{.heads = 2, .kv_heads = 2, .mask = {.causal = true}};
  const Tensor a = random({7, 4}, 1), b = random({7, 4}, 2);
  kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[1], in[1], sequences, sequences, options); },
                        {a, b}, "k is v");
  kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[0], in[1], sequences, sequences, options); },
                        {a, b}, "q is k");
  kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[1], in[0], sequences, sequences, options); },
                        {a, b}, "q is v");
  kit::expect_gradients([&](const Vars& in) { return attend(in[0], in[0], in[0], sequences, sequences, options); }, {a},
                        "all are one");
  // Some roles without gradient.
  kit::expect_gradients([&](const Vars& in) { return attend(in[0], Var(b), Var(b), sequences, sequences, options); },
                        {a}, "q only");
  kit::expect_gradients([&](const Vars& in) { return attend(Var(b), in[0], in[0], sequences, sequences, options); },
                        {a}, "keys and values only");
  kit::expect_gradients([&](const Vars& in) { return attend(Var(b), Var(b), in[0], sequences, sequences, options); },
                        {a}, "values only");
}

TEST(Attend, GivesTheSameRowsFromACache) {
  const Tensor q = random({6, 4}, 1), k = random({6, 4}, 2), v = random({6, 4}, 3);
  const AttendOptions options{.heads = 2, .kv_heads = 2, .mask = {.causal = true}};
  const Tensor whole = attend(Var(q), Var(k), Var(v), Sequences({0, 4, 6}), Sequences({0, 4, 6}), options).value();
  // Rows 3 and 5 are new; the caches have room to spare, filled with numbers that must not be read.
  std::vector<KeyValues> caches{{kit::normal({9, 4}, DType::f64, 8, 1e3), kit::normal({9, 4}, DType::f64, 9, 1e3)},
                                {kit::normal({9, 4}, DType::f64, 8, 1e3), kit::normal({9, 4}, DType::f64, 9, 1e3)}};
  copy_into(caches[0].keys.pages[0].slice(0, 4), k.slice(0, 4));
  copy_into(caches[0].values.pages[0].slice(0, 4), v.slice(0, 4));
  copy_into(caches[1].keys.pages[0].slice(0, 2), k.slice(4, 6));
  copy_into(caches[1].values.pages[0].slice(0, 2), v.slice(4, 6));
  const Tensor got = attend_cached(kit::rows_of(q, {3, 5}), caches, {4, 2}, Sequences({0, 1, 2}, {3, 1}), options);
  EXPECT_EQ(kit::close(got, kit::rows_of(whole, {3, 5}), 8), "");
}

TEST(Rotate, Gradients) {
  const Tensor positions = kit::ids_of({0, 1, 5, 100});
  for (bool interleaved : {false, true})
    kit::expect_gradients([&](const Vars& in) { return rotate(in[0], positions, 4, 10000, interleaved); },
                          {random({4, 8}, 1)});
}

TEST(Attend, ErrorsNameShapesAndHeads) {
  const Var q(random({4, 6}, 1)), k(random({5, 6}, 2)), v(random({5, 6}, 3));
  const Sequences four = Sequences::single(4), five = Sequences::single(5);
  EXPECT_EQ(kit::error_of([&] { attend(q, k, v, four, four, {}); }),
            "attend: q [4,6], k [5,6], v [5,6] do not fit 1 query sequences of 4 rows and 1 key sequences of 4 rows");
  EXPECT_EQ(kit::error_of([&] { attend(q, k, v, four, five, {.heads = 3, .kv_heads = 2}); }),
            "attend: heads (3) must be a multiple of key/value heads (2)");
  EXPECT_EQ(kit::error_of([&] { attend(q, k, v, four, five, {.heads = 4, .kv_heads = 4}); }),
            "attend: widths q 6, k 6, v 6 must be multiples of the heads 4 and 4");
  EXPECT_EQ(kit::error_of([&] { attend(q, k, v, four, five, {.heads = 6, .kv_heads = 3}); }),
            "attend: queries have 1 channels a head, keys 2");
  EXPECT_EQ(kit::error_of([&] { attend_cached(q.value(), {}, {}, four, {}); }),
            "attend_cached: one cache and one number of keys a sequence: 1, got 0 and 0");
}

// The composition of explicit maps is the fused operation, and dropping weights drops terms of the sum.
TEST(AttendByMaps, IsAttendWhenNothingIsChanged) {
  const Sequences sequences({0, 4, 4, 9});
  for (const auto& [heads, kv] : {std::pair<int64_t, int64_t>{4, 4}, {4, 2}, {4, 1}})
    for (bool causal : {true, false}) {
      const AttendOptions options{.heads = heads, .kv_heads = kv, .mask = {.causal = causal}};
      const std::vector<Tensor> inputs{kit::normal({9, heads * 3}, DType::f64, 1),
                                       kit::normal({9, kv * 3}, DType::f64, 2),
                                       kit::normal({9, kv * 2}, DType::f64, 3)};
      kit::expect_same(
          [&](const std::vector<Var>& in) {
            return attend_by_maps(in[0], in[1], in[2], sequences, options, [](const Var& map, int64_t) { return map; });
          },
          [&](const std::vector<Var>& in) { return attend(in[0], in[1], in[2], sequences, sequences, options); },
          inputs, 128);
    }
}

// oracle: decon.standard
TEST(Attend, WorkedCausalExample) {
  const Sequences two = Sequences::single(2);
  const Tensor out = attend(Var(kit::tensor_f64({2, 2}, {0.5, -1, 1, 0})), Var(kit::tensor_f64({2, 2}, {1, 0, -1, 2})),
                            Var(kit::tensor_f64({2, 2}, {1, 2, 3, -1})), two, two, {.mask = {.causal = true}})
                         .value();
  EXPECT_EQ(kit::close_to_printed(out, {1, 2, 1.391141, 1.413289}, 6), "");
}

}  // namespace
}  // namespace lithe
