#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/kernels/head_dot/head_dot.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

Tensor by_definition(const Tensor& s, const Tensor& v, const std::vector<CumulativeSegment>& segments, bool causal) {
  const int64_t heads = s.cols(), C = v.cols() / heads;
  const Tensor out = zeros(v.shape(), DType::f64);
  for (const CumulativeSegment& segment : segments)
    for (int64_t i = segment.row; i < segment.row + segment.rows; ++i)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t end = causal ? i + 1 : segment.row + segment.rows;
        double largest = -INFINITY, sum = 0;
        for (int64_t j = segment.row; j < end; ++j) largest = std::max(largest, at(s, j * heads + head));
        for (int64_t j = segment.row; j < end; ++j) sum += std::exp(at(s, j * heads + head) - largest);
        for (int64_t c = 0; c < C; ++c) {
          double x = 0;
          for (int64_t j = segment.row; j < end; ++j)
            x += std::exp(at(s, j * heads + head) - largest) / sum * at(v, (j * heads + head) * C + c);
          set_value(out, (i * heads + head) * C + c, x);
        }
      }
  return out;
}

const std::vector<CumulativeSegment>& cumulative_segments() {
  static const std::vector<CumulativeSegment> all{{0, 5}, {5, 1}, {6, 0}, {6, 131}};
  return all;
}

// A mean whose weights err by (n + 8 + the exponent) roundings each.
TEST(CumulativeSoftmax, EveryImplementationAgreesWithTheDefinition) {
  for (const DType type : kTypes)
    for (const bool causal : {true, false})
      for (const double size : {1.0, 1e3})
        for (const int64_t C : {1, 3, 17, 64, 70}) {
          const int64_t N = 137, heads = 3;
          const Tensor s = random_tensor({N, heads}, wide(type), 1, size), v = random_tensor({N, heads * C}, type, 2);
          const Tensor exact = by_definition(s, v, cumulative_segments(), causal);
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " C ", C, " s ", size, causal ? " causal" : "");
            const Guarded out(random_tensor({N, heads * C}, type, 3)), lse(random_tensor({N, heads}, wide(type), 4));
            cumulative_softmax({s, v, out.tensor(), lse.tensor(), cumulative_segments(), causal});
            const double bound = double(N + 8 + 104) * arithmetic(type) * largest_of(v);
            expect_close(
                out.tensor(), exact, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(exact, i)); },
                what);
            EXPECT_NEAR(at(lse.tensor(), 0), causal ? at(s, 0) : at(lse.tensor(), heads),
                        4 * arithmetic(type) * (1 + std::abs(at(s, 0))))
                << what;
            out.expect_untouched(what);
            lse.expect_untouched(what);
          });
        }
}

TEST(CumulativeSoftmax, AStateContinuesToTheBit) {
  for (const DType type : kTypes) {
    const int64_t N = 70, heads = 2, C = 19;
    const Tensor s = random_tensor({N, heads}, wide(type), 5, 3), v = random_tensor({N, heads * C}, type, 6);
    on_every_implementation([&](const std::string& isa) {
      const Tensor whole = empty_like(v), pieces = empty_like(v), alone = zeros({heads, C + 2}, wide(type)),
                   state = zeros({heads, C + 2}, wide(type));
      cumulative_softmax({s, v, whole, {}, {{0, N, alone}}});
      int64_t begin = 0;
      for (int64_t end : {1, 2, 40, 69, 70}) {
        cumulative_softmax({s, v, pieces, {}, {{begin, end - begin, state}}});
        begin = end;
      }
      // f64 states keep what the reference computes with; f32 sums are kept as they are on every vector set.
      if (type == DType::f64 || isa != "ref") {
        expect_same_bits(pieces, whole, cat(isa, " ", type));
        expect_same_bits(state, alone, cat(isa, " ", type, " state"));
      }
    });
  }
}

TEST(CumulativeSoftmaxGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const bool causal : {true, false})
      for (const bool accumulate : {false, true})
        for (const int64_t C : {1, 17, 64}) {
          const int64_t N = 137, heads = 2;
          const Tensor s = random_tensor({N, heads}, wide(type), 7), v = random_tensor({N, heads * C}, type, 8),
                       dout = random_tensor({N, heads * C}, type, 9),
                       old_ds = random_tensor({N, heads}, wide(type), 10),
                       old_dv = random_tensor({N, heads * C}, type, 11);
          // Every implementation starts from the same out and lse.
          CumulativeSoftmaxArgs exact{
              convert(s, DType::f64),        convert(v, DType::f64), empty({N, heads * C}, DType::f64),
              empty({N, heads}, DType::f64), cumulative_segments(),  causal};
          cumulative_softmax(exact);
          const Tensor out = convert(exact.out, type), lse = convert(exact.lse, wide(type));
          exact.out = convert(out, DType::f64);
          exact.lse = convert(lse, DType::f64);
          const Tensor ds64 = convert(old_ds, DType::f64), dv64 = convert(old_dv, DType::f64);
          cumulative_softmax_grad({exact, convert(dout, DType::f64), ds64, dv64, accumulate, accumulate});
          // |R| is at most the sum of |dout|, the weights are at most 1.
          double sum = 0;
          for (int64_t i = 0; i < dout.numel(); ++i) sum += std::abs(at(dout, i));
          const double sums = double(N + C + 16) * arithmetic(type) * sum;
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " C ", C, causal ? " causal" : "", accumulate ? " added" : "");
            const Guarded ds(old_ds), dv(old_dv);
            cumulative_softmax_grad({{s, v, out, lse, cumulative_segments(), causal},
                                     dout,
                                     ds.tensor(),
                                     dv.tensor(),
                                     accumulate,
                                     accumulate});
            expect_close(
                dv.tensor(), dv64, [&](int64_t i) { return sums + epsilon_of(type) * std::abs(at(dv64, i)); },
                what + " dv");
            expect_close(ds.tensor(), ds64, 2 * sums * largest_of(v), what + " ds");
            ds.expect_untouched(what);
            dv.expect_untouched(what);
          });
        }
}

TEST(CumulativeSoftmaxGrad, MatchesCentralDifferences) {
  for (const bool causal : {true, false}) {
    const int64_t N = 9, heads = 2, C = 3;
    const std::vector<CumulativeSegment> parts{{0, 4}, {4, 5}};
    const Tensor s = random_tensor({N, heads}, DType::f64, 12), v = random_tensor({N, heads * C}, DType::f64, 13),
                 dout = random_tensor({N, heads * C}, DType::f64, 14), out = empty_like(v), lse = empty_like(s);
    const auto value = [&] {
      cumulative_softmax({s, v, out, lse, parts, causal});
      double sum = 0;
      for (int64_t i = 0; i < out.numel(); ++i) sum += at(out, i) * at(dout, i);
      return sum;
    };
    value();
    const Tensor ds = empty_like(s), dv = empty_like(v);
    cumulative_softmax_grad({{s, v, out, lse, parts, causal}, dout, ds, dv});
    expect_gradient(ds, s, value, causal ? "causal ds" : "ds");
    expect_gradient(dv, v, value, causal ? "causal dv" : "dv");
  }
}

TEST(CumulativeSoftmax, ResultsDoNotDependOnThreadsOrNeighbours) {
  const int64_t N = 400, heads = 8, C = 64;
  const Tensor s = random_tensor({N, heads}, DType::f32, 15), v = random_tensor({N, heads * C}, DType::f32, 16);
  const Tensor together = empty_like(v), apart = empty_like(v);
  {
    const WithThreads four(4);
    cumulative_softmax({s, v, together, {}, {{0, 100}, {100, 300}}});
  }
  const WithThreads one(1);
  cumulative_softmax({s, v, apart, {}, {{0, 100}}});
  cumulative_softmax({s, v, apart, {}, {{100, 300}}});
  expect_same_bits(together, apart, "threads and neighbours");
}

TEST(CumulativeSoftmax, ErrorsSayWhatDoesNotFit) {
  const Tensor v = zeros({4, 6}, DType::f32), s = zeros({4, 2}, DType::f32), out = empty_like(v);
  const auto error = [](const CumulativeSoftmaxArgs& args) -> std::string {
    try {
      cumulative_softmax(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error({zeros({4, 4}, DType::f32), v, out, {}, {}}),
            "cumulative_softmax: s must be f32 [N, heads] to match v [4,6], got f32[4,4]");
  EXPECT_EQ(error({s, v, out, {}, {{2, 3}}}), "cumulative_softmax: a segment has rows [2,5), outside of v [4,6]");
  EXPECT_EQ(error({s, v, out, {}, {{0, 3}, {2, 2}}}), "cumulative_softmax: two segments share row 2");
  EXPECT_EQ(error({s, v, out, {}, {{0, 4, zeros({2, 3}, DType::f32)}}}),
            "cumulative_softmax: a state must be f32[2,5], got f32[2,3]");
  EXPECT_EQ(error({s, v, out, {}, {{0, 4, zeros({2, 5}, DType::f32)}}, false}),
            "cumulative_softmax: a state continues causal sums only");
}

TEST(HeadDot, EveryImplementationAgreesWithTheDefinition) {
  for (const DType type : kTypes)
    for (const int64_t dim : {1, 3, 17, 64, 65}) {
      const int64_t N = 5, heads = 3, C = heads * dim;
      const Tensor a = random_tensor({N, C}, type, 17), b = random_tensor({N, C}, type, 18),
                   ds = random_tensor({N, heads}, wide(type), 19), old = random_tensor({N, C}, type, 20);
      const double scale = 0.3;
      on_every_implementation([&](const std::string& isa) {
        const std::string what = cat(isa, " ", type, " d_h ", dim);
        const Guarded s(zeros({N, heads}, wide(type)));
        head_dot({a, b, s.tensor(), scale});
        for (int64_t i = 0; i < N * heads; ++i) {
          double exact = 0, size = 0;
          for (int64_t c = i * dim; c < (i + 1) * dim; ++c) {
            exact += scale * at(a, c) * at(b, c);
            size += scale * std::abs(at(a, c) * at(b, c));
          }
          EXPECT_NEAR(at(s.tensor(), i), exact, double(dim + 3) * arithmetic(type) * size) << what;
        }
        s.expect_untouched(what);
        for (const bool accumulate : {false, true}) {
          const Guarded da(old), db(old);
          head_dot_grad({a, b, ds, da.tensor(), db.tensor(), scale, accumulate, accumulate});
          for (const auto& [d, other] : {std::pair{&da, &b}, std::pair{&db, &a}}) {
            for (int64_t c = 0; c < N * C; ++c) {
              const double term = scale * at(ds, c / dim) * at(*other, c), start = accumulate ? at(old, c) : 0;
              EXPECT_NEAR(
                  at(d->tensor(), c), start + term,
                  epsilon_of(type) * std::abs(start + term) + 4 * arithmetic(type) * (std::abs(term) + std::abs(start)))
                  << what;
            }
            d->expect_untouched(what);
          }
        }
      });
    }
}

}  // namespace
}  // namespace lithe::kernels
