#include "lithe/kernels/taylor_attention/taylor_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr TaylorKind kTaylorKinds[] = {TaylorKind::full, TaylorKind::diag, TaylorKind::split};
const char* name(TaylorKind kind) {
  static const char* names[] = {"full", "diag", "split"};
  return names[int(kind)];
}

struct Size {
  int64_t heads, head_dim, value_dim;
};
constexpr Size kSizes[] = {{1, 2, 2}, {3, 5, 3}, {2, 16, 17}, {1, 70, 64}};

// Keys near a common direction that queries share: sums of every order keep away from zero.
Tensor near_ones(Shape shape, DType type, uint64_t seed) {
  const Tensor x = random_tensor(shape, type, seed, 0.4);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, at(x, i) + 1);
  return x;
}

TaylorArgs make(TaylorKind kind, const Size& s, DType type, int64_t N, std::vector<TaylorSegment> segments, bool causal,
                uint64_t seed) {
  return {.kind = kind,
          .q = near_ones({N, s.heads * s.head_dim}, type, seed),
          .k = near_ones({N, s.heads * s.head_dim}, type, seed + 1),
          .v = random_tensor({N, s.heads * s.value_dim}, type, seed + 2),
          .out = zeros({N, s.heads * s.value_dim}, type),
          .sums = zeros({N, s.heads * taylor_sums(kind)}, wide(type)),
          .segments = std::move(segments),
          .heads = s.heads,
          .head_dim = s.head_dim,
          .value_dim = s.value_dim,
          .scale = 1 / std::sqrt(double(s.head_dim)),
          .causal = causal};
}

TaylorArgs in_f64(TaylorArgs a) {
  for (Tensor* x : {&a.q, &a.k, &a.v, &a.out, &a.sums}) *x = convert(*x, DType::f64);
  for (TaylorSegment& s : a.segments)
    if (s.state) s.state = convert(s.state, DType::f64);
  return a;
}

const std::vector<TaylorSegment>& taylor_segments() {
  static const std::vector<TaylorSegment> all{{0, 5, 0, {}}, {5, 1, 0, {}}, {6, 0, 0, {}}, {6, 131, 0, {}}};
  return all;
}

// All terms are positive up to the noise of the keys, so a quotient of sums over n terms errs by about 2 (n + d)
// roundings relative to the sum of its terms' sizes, three times for split.
double quotient_error(const TaylorArgs& a) {
  return 3 * 4 * double(a.q.rows() + a.head_dim + 8) * arithmetic(a.q.dtype());
}

// oracle: decon.approx
TEST(TaylorAttention, WeightsOfTheWorkedExamples) {
  // Two values, unit vectors, so that the second row of out is the weights of the second query.
  const auto weights = [](TaylorKind kind, std::vector<double> q, std::vector<double> k) {
    TaylorArgs a = make(kind, {1, 2, 2}, DType::f64, 2, {{0, 2, 0, {}}}, true, 1);
    const double v[] = {1, 0, 0, 1};
    // split needs a first query whose weights do not vanish either.
    a.q = tensor_of({2, 2}, std::vector<double>{k[0], k[1], q[0], q[1]});
    a.k = tensor_of({2, 2}, k);
    a.v = tensor_of({2, 2}, v);
    taylor_attention(a);
    return std::pair{at(a.out, 2), at(a.out, 3)};
  };
  const auto expect = [&](TaylorKind kind, const std::vector<double>& q, const std::vector<double>& k, double first,
                          double second) {
    const auto [a, b] = weights(kind, q, k);
    EXPECT_NEAR(a, first, 5e-7) << name(kind);
    EXPECT_NEAR(b, second, 5e-7) << name(kind);
  };
  // D: cross terms vanish, so full = diag.
  expect(TaylorKind::full, {1, 0}, {1, 0, -1, 2}, 1.957107 / 2.5, .542893 / 2.5);
  expect(TaylorKind::diag, {1, 0}, {1, 0, -1, 2}, 1.957107 / 2.5, .542893 / 2.5);
  expect(TaylorKind::full, {1, 1}, {1, 1, 0, 1}, .635638, .364362);
  expect(TaylorKind::diag, {1, 1}, {1, 1, 0, 1}, .598239, .401761);
  expect(TaylorKind::split, {1, 1}, {1, 1, 0, 1}, 1.833333, 1.166667);
}

// oracle: decon.approx
TEST(TaylorAttention, SplitFailsWhereASumOfWeightsVanishes) {
  TaylorArgs a = make(TaylorKind::split, {1, 2, 2}, DType::f64, 2, {{0, 2, 0, {}}}, true, 1);
  const double q[] = {.5, -1, 1, 0}, k[] = {1, 0, -1, 2};
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      TaylorArgs b = a;
      b.q = convert(tensor_of({2, 2}, q), type);
      b.k = convert(tensor_of({2, 2}, k), type);
      b.v = convert(a.v, type);
      b.out = convert(a.out, type);
      b.sums = convert(a.sums, wide(type));
      try {
        taylor_attention(b);
        FAIL() << isa << " " << type << " divides by zero";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "taylor_attention: the weights of order 1 of row 1, head 0 sum to 0, and split divides by that; "
                     "use mode full, whose sums are at least 1/2 a token")
            << isa;
        EXPECT_EQ(error.code(), ExitCode::failed);
      }
    });
}

TEST(TaylorAttention, DiagCountsTheSumsItClamps) {
  // x = -4, z = 8/2: with q = (1,1,..) and k = -c: 1 + x + z = 1 - c sqrt(d) + c^2/2 is negative for c = 1, d = 16.
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      TaylorArgs a = make(TaylorKind::diag, {1, 16, 1}, type, 1, {{0, 1, 0, {}}}, true, 1);
      for (int64_t i = 0; i < 16; ++i) set_value(a.q, i, 1), set_value(a.k, i, -1);
      set_value(a.v, 0, 1);
      EXPECT_EQ(taylor_attention(a), 1) << isa;
      EXPECT_NEAR(at(a.sums, 0), -2.5, 1e-6) << isa;
      EXPECT_NEAR(at(a.out, 0), -2.5e6, 1e4) << isa;
    });
}

TEST(TaylorAttention, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const TaylorKind kind : kTaylorKinds)
      for (const bool causal : {true, false})
        for (const Size& size : kSizes) {
          const TaylorArgs a = make(kind, size, type, 137, taylor_segments(), causal, 3), exact = in_f64(a);
          taylor_attention(exact);
          on_every_implementation([&](const std::string& isa) {
            const std::string what =
                cat(isa, " ", type, " ", name(kind), " d_h ", size.head_dim, causal ? " causal" : "");
            TaylorArgs b = a;
            const Guarded out(a.out), sums(a.sums);
            b.out = out.tensor();
            b.sums = sums.tensor();
            taylor_attention(b);
            const double bound = quotient_error(a) * largest_of(a.v);
            expect_close(
                b.out, exact.out, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(exact.out, i)); },
                what);
            expect_close(
                b.sums, exact.sums, [&](int64_t i) { return quotient_error(a) * std::abs(at(exact.sums, i)); },
                what + " sums");
            out.expect_untouched(what);
            sums.expect_untouched(what);
          });
        }
}

// oracle: decon.approx
TEST(TaylorAttention, StatesGiveWhatTilesGive) {
  for (const DType type : kTypes)
    for (const TaylorKind kind : kTaylorKinds)
      for (const Size& size : kSizes) {
        const int64_t N = size.head_dim > 16 ? 50 : 300;  // mostly more than the rows that a state takes at once
        const TaylorArgs a = make(kind, size, type, N, {{0, N, 0, {}}}, true, 6), exact = in_f64(a);
        taylor_attention(exact);
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " ", name(kind), " d_h ", size.head_dim);
          TaylorArgs b = a;
          const Guarded state(zeros({size.heads, taylor_state(kind, size.head_dim, size.value_dim)}, wide(type)));
          int64_t begin = 0;
          for (int64_t end : std::vector<int64_t>{1, 2, 3, 40, 41, N - 1, N}) {
            b.segments = {{begin, end - begin, begin, state.tensor()}};
            taylor_attention(b);
            begin = end;
          }
          const double bound = quotient_error(a) * largest_of(a.v);
          expect_close(
              b.out, exact.out, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(exact.out, i)); }, what);
          TaylorArgs at_once = a;
          const Tensor other = zeros(state.tensor().shape(), wide(type));
          at_once.segments = {{0, N, 0, other}};
          taylor_attention(at_once);
          expect_close(other, state.tensor(), 4 * double(N) * arithmetic(type) * (largest_of(other) + 1),
                       what + " state");
          state.expect_untouched(what);
        });
      }
}

TEST(TaylorAttentionGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const TaylorKind kind : kTaylorKinds)
      for (const bool causal : {true, false})
        for (const bool accumulate : {false, true})
          for (const Size& size : kSizes) {
            TaylorArgs a = make(kind, size, type, 137, taylor_segments(), causal, 9);
            TaylorArgs exact = in_f64(a);
            taylor_attention(exact);
            // Every implementation starts from the same out and sums.
            a.out = convert(exact.out, type);
            a.sums = convert(exact.sums, wide(type));
            exact.out = convert(a.out, DType::f64);
            exact.sums = convert(a.sums, DType::f64);
            const Tensor dout = random_tensor(a.out.shape(), type, 12), old_q = random_tensor(a.q.shape(), type, 13),
                         old_k = random_tensor(a.q.shape(), type, 14), old_v = random_tensor(a.v.shape(), type, 15);
            const Tensor dq = convert(old_q, DType::f64), dk = convert(old_k, DType::f64),
                         dv = convert(old_v, DType::f64);
            taylor_attention_grad({exact, convert(dout, DType::f64), dq, dk, dv, accumulate, accumulate, accumulate});
            // Weights sum to 1 a query (3 for split) and |dout . v| is at most d_v |dout| |v|; a key gathers from all
            // rows.
            const double g = double(size.value_dim) * largest_of(dout) * largest_of(a.v),
                         of_query = 3 * 4 * g * (largest_of(a.k) + largest_of(a.q) * largest_of(a.k) * largest_of(a.k)),
                         of_key =
                             137 * 3 * 4 * g * (largest_of(a.q) + largest_of(a.q) * largest_of(a.q) * largest_of(a.k));
            // dout . out of a rounded out does not cancel dout . v of the rounded weights: an error of its own.
            const double eps =
                quotient_error(a) + (kind == TaylorKind::split || type != DType::bf16 ? 0 : epsilon_of(type));
            on_every_implementation([&](const std::string& isa) {
              const std::string what = cat(isa, " ", type, " ", name(kind), " d_h ", size.head_dim,
                                           causal ? " causal" : "", accumulate ? " added" : "");
              const Guarded q(old_q), k(old_k), v(old_v);
              taylor_attention_grad({a, dout, q.tensor(), k.tensor(), v.tensor(), accumulate, accumulate, accumulate});
              const auto compare = [&](const Guarded& got, const Tensor& want, double bound, const char* which) {
                expect_close(
                    got.tensor(), want, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(want, i)); },
                    cat(what, which));
                got.expect_untouched(what);
              };
              compare(q, dq, eps * of_query, " dq");
              compare(k, dk, eps * of_key, " dk");
              compare(v, dv, eps * 137 * 3 * largest_of(dout), " dv");
            });
          }
}

TEST(TaylorAttentionGrad, MatchesCentralDifferences) {
  for (const TaylorKind kind : kTaylorKinds)
    for (const bool causal : {true, false}) {
      const TaylorArgs a = make(kind, {2, 3, 2}, DType::f64, 9, {{0, 4, 0, {}}, {4, 5, 0, {}}}, causal, 16);
      const Tensor dout = random_tensor(a.out.shape(), DType::f64, 19);
      const auto value = [&] {
        taylor_attention(a);
        double sum = 0;
        for (int64_t i = 0; i < dout.numel(); ++i) sum += at(a.out, i) * at(dout, i);
        return sum;
      };
      value();
      const Tensor dq = empty_like(a.q), dk = empty_like(a.k), dv = empty_like(a.v);
      taylor_attention_grad({a, dout, dq, dk, dv});
      expect_gradient(dq, a.q, value, cat(name(kind), " dq"));
      expect_gradient(dk, a.k, value, cat(name(kind), " dk"));
      expect_gradient(dv, a.v, value, cat(name(kind), " dv"));
    }
}

// Four sequences that read another text each: more rows than keys, fewer, a single one, and none.
TaylorArgs of_another_text(TaylorKind kind, const Size& s, DType type, uint64_t seed) {
  TaylorArgs a = make(kind, s, type, 60, {}, false, seed);
  a.k = near_ones({90, s.heads * s.head_dim}, type, seed + 3);
  a.v = random_tensor({90, s.heads * s.value_dim}, type, seed + 4);
  a.segments = {{0, 40, 0, {}, 7, 3}, {40, 19, 0, {}, 10, 80}, {59, 1, 0, {}, 0, 7}, {60, 0, 0, {}, 90, 0}};
  return a;
}

// oracle: decon.approx
TEST(TaylorAttention, KeysOfAnotherTextAgreeWithF64AndWithTheirSums) {
  for (const DType type : kTypes)
    for (const TaylorKind kind : kTaylorKinds)
      for (const Size& size : kSizes) {
        const TaylorArgs a = of_another_text(kind, size, type, 31), exact = in_f64(a);
        taylor_attention(exact);
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " ", name(kind), " d_h ", size.head_dim);
          const double bound = 2 * quotient_error(a) * largest_of(a.v);
          const auto compare = [&](const TaylorArgs& b, const std::string& how) {
            expect_close(
                b.out, exact.out, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(exact.out, i)); },
                what + how);
          };
          TaylorArgs b = a;
          b.out = zeros(a.out.shape(), type);
          taylor_attention(b);
          compare(b, ", tiles");
          TaylorArgs sums = a, read = a;
          for (size_t i = 0; i < a.segments.size(); ++i) {
            const Tensor state = zeros({size.heads, taylor_state(kind, size.head_dim, size.value_dim)}, wide(type));
            sums.segments[i].rows = 0;
            sums.segments[i].state = read.segments[i].state = state;
            read.segments[i].past = std::exchange(read.segments[i].keys, 0);
          }
          taylor_attention(sums);
          const Tensor before = clone(read.segments[1].state);
          for (int again = 0; again < 2; ++again) {
            read.out = zeros(a.out.shape(), type);
            taylor_attention(read);
            compare(read, ", sums");
          }
          expect_same_bits(read.segments[1].state, before, what + ": reading leaves the sums");
        });
      }
}

TEST(TaylorAttentionGrad, KeysOfAnotherTextAgreeWithDifferencesAndWithF64) {
  for (const TaylorKind kind : kTaylorKinds)
    for (const Size& size : kSizes) {
      const TaylorArgs a = of_another_text(kind, size, DType::f32, 41), exact = in_f64(a);
      taylor_attention(exact);
      const Tensor dout = random_tensor(a.out.shape(), DType::f64, 44);
      const Tensor dq = empty_like(exact.q), dk = empty_like(exact.k), dv = empty_like(exact.v);
      taylor_attention_grad({exact, dout, dq, dk, dv});
      if (size.head_dim == 5) {
        const auto value = [&] {
          taylor_attention(exact);
          double sum = 0;
          for (int64_t i = 0; i < dout.numel(); ++i) sum += at(exact.out, i) * at(dout, i);
          return sum;
        };
        expect_gradient(dq, exact.q, value, cat(name(kind), " dq"));
        expect_gradient(dk, exact.k, value, cat(name(kind), " dk"));
        expect_gradient(dv, exact.v, value, cat(name(kind), " dv"));
      }
      on_every_implementation([&](const std::string& isa) {
        TaylorArgs b = a;
        b.out = convert(exact.out, DType::f32);
        b.sums = convert(exact.sums, DType::f32);
        const Tensor q = empty_like(a.q), k = empty_like(a.k), v = empty_like(a.v);
        taylor_attention_grad({b, convert(dout, DType::f32), q, k, v});
        const auto compare = [&](const Tensor& got, const Tensor& want, const char* which) {
          expect_close(got, want, 300 * quotient_error(a) * (largest_of(want) + 1),
                       cat(isa, " ", name(kind), " d_h ", size.head_dim, which));
        };
        compare(q, dq, " dq");
        compare(k, dk, " dk");
        compare(v, dv, " dv");
      });
    }
}

TEST(TaylorAttention, ResultsDoNotDependOnThreadsOrNeighbours) {
  for (const TaylorKind kind : kTaylorKinds) {
    TaylorArgs a = make(kind, {4, 16, 16}, DType::f32, 400, {{0, 100, 0, {}}, {100, 300, 0, {}}}, true, 20);
    {
      const WithThreads four(4);
      taylor_attention(a);
    }
    TaylorArgs b = a;
    b.out = empty_like(a.out);
    b.sums = empty_like(a.sums);
    const WithThreads one(1);
    b.segments = {{100, 300, 0, {}}};
    taylor_attention(b);
    b.segments = {{0, 100, 0, {}}};
    taylor_attention(b);
    expect_same_bits(b.out, a.out, name(kind));
  }
}

TEST(TaylorAttention, ErrorsSayWhatDoesNotFit) {
  const auto error = [](const TaylorArgs& args) -> std::string {
    try {
      taylor_attention(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  const TaylorArgs good = make(TaylorKind::diag, {2, 3, 2}, DType::f32, 4, {}, true, 21);
  TaylorArgs a = good;
  a.v = zeros({4, 6}, DType::f32);
  EXPECT_EQ(error(a), "taylor_attention: v must be f32[4,4] of 2 heads, got f32[4,6]");
  a = good;
  a.segments = {{2, 3, 0, {}}};
  EXPECT_EQ(error(a), "taylor_attention: a segment has rows [2,5), outside of q [4,6]");
  a.segments = {{0, 4, 1, {}}};
  EXPECT_EQ(error(a), "taylor_attention: a segment has 1 rows before it and no state of them");
  a.segments = {{0, 4, 0, zeros({2, 21}, DType::f32)}};
  EXPECT_EQ(error(a), "taylor_attention: a state must be f32[2,20] for diag, got f32[2,21]");
  a.causal = false;
  EXPECT_EQ(error(a), "taylor_attention: a state continues causal sums only");
  a.segments = {{0, 4, 0, {}, 0, 5}};
  EXPECT_EQ(error(a), "taylor_attention: a segment has keys [0,5), outside of k [4,6]");
  a.segments = {{0, 4, 0, {}, 0, 0}};
  EXPECT_EQ(error(a),
            "taylor_attention: a segment has 4 rows and 0 keys of another text; without a state it needs keys");
}

}  // namespace
}  // namespace lithe::kernels
