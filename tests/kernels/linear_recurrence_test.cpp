#include "lithe/kernels/linear_recurrence/linear_recurrence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

enum class Decays { none, constant, scalar, channels };

struct Form {
  Decays decay = Decays::none;
  bool write = false, normalise = false, delta = false, causal = true;
};
std::ostream& operator<<(std::ostream& out, const Form& f) {
  static const char* names[] = {"no decay", "constant", "scalar", "channels"};
  return out << names[int(f.decay)] << (f.write ? " write" : "") << (f.normalise ? " normalised" : "")
             << (f.delta ? " delta" : "") << (f.causal ? "" : " both ways");
}

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const Decays decay : {Decays::none, Decays::constant, Decays::scalar, Decays::channels})
    for (const bool write : {false, true}) {
      all.push_back({decay, write});
      all.push_back({decay, write, true});
      all.push_back({decay, write, false, true});
    }
  for (const bool write : {false, true})
    for (const bool normalise : {false, true}) all.push_back({Decays::none, write, normalise, false, false});
  return all;
}

/// Keys of length about 1, so that the delta rule does not grow; positive queries and keys where sums divide.
LinearRecurrenceArgs problem(const Form& form, DType type, int64_t heads, int64_t K, int64_t V,
                             const std::vector<RecurrenceSegment>& segments, uint64_t seed) {
  int64_t N = 0;
  for (const auto& s : segments) N = std::max(N, s.row + s.rows);
  const auto mapped = [&](const Tensor& x, auto f) {
    for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, f(at(x, i)));
    return x;
  };
  const auto key = [&](double x) { return (form.normalise ? std::abs(x) + 0.1 : x) / std::sqrt(double(K)); };
  const auto gate = [](double x) { return -std::log1p(std::exp(x - 2)); };  // a around 0.9
  LinearRecurrenceArgs a;
  a.heads = heads, a.key_dim = K, a.value_dim = V, a.scale = 0.7, a.segments = segments;
  a.normalise = form.normalise, a.delta = form.delta, a.causal = form.causal;
  a.q = mapped(random_tensor({N, heads * K}, type, seed), key);
  a.k = mapped(random_tensor({N, heads * K}, type, seed + 1), key);
  a.v = random_tensor({N, heads * V}, type, seed + 2);
  a.out = zeros({N, heads * V}, type);
  if (form.decay == Decays::constant) a.log_decay = mapped(random_tensor({heads}, wide(type), seed + 3), gate);
  if (form.decay == Decays::scalar) a.log_decay = mapped(random_tensor({N, heads}, wide(type), seed + 3), gate);
  if (form.decay == Decays::channels) a.log_decay = mapped(random_tensor({N, heads * K}, wide(type), seed + 3), gate);
  if (form.write)
    a.write = mapped(random_tensor({N, heads}, wide(type), seed + 4), [](double x) { return 1 / (1 + std::exp(-x)); });
  if (form.normalise) a.divisors = zeros({N, heads}, wide(type));
  return a;
}
LinearRecurrenceArgs in_f64(LinearRecurrenceArgs a) {
  for (Tensor* x : {&a.q, &a.k, &a.v, &a.log_decay, &a.write}) *x = exact(*x);
  a.out = zeros(a.out.shape(), DType::f64);
  if (a.divisors) a.divisors = zeros(a.divisors.shape(), DType::f64);
  for (RecurrenceSegment& s : a.segments) s.state = exact(s.state);
  return a;
}

const std::vector<RecurrenceSegment>& recurrence_segments() {
  static const std::vector<RecurrenceSegment> all{{0, 5, {}}, {5, 1, {}}, {6, 0, {}}, {6, 37, {}}};
  return all;
}
const std::vector<std::pair<int64_t, int64_t>>& sizes() {
  static const std::vector<std::pair<int64_t, int64_t>> all{{1, 1}, {5, 3}, {16, 16}, {17, 70}};
  return all;
}

// Weights by pairs: the sum over j of (q_i . k_j) times the decays after j, as the definition of linear attention has
// it.
TEST(LinearRecurrence, IsASumOverPairs) {
  for (const Form& form : forms()) {
    if (form.delta) continue;
    const auto a = problem(form, DType::f64, 2, 3, 4, recurrence_segments(), 1);
    linear_recurrence(a);
    for (const RecurrenceSegment& s : a.segments)
      for (int64_t i = s.row; i < s.row + s.rows; ++i)
        for (int64_t head = 0; head < 2; ++head) {
          std::vector<double> sums(5, 0.0);
          for (int64_t j = s.row; j < (form.causal ? i + 1 : s.row + s.rows); ++j) {
            double weight = 0;
            for (int64_t c = 0; c < 3; ++c) {
              double log = 0;
              for (int64_t l = j + 1; l <= i && a.log_decay; ++l)
                log += form.decay == Decays::constant ? at(a.log_decay, head)
                       : form.decay == Decays::scalar ? at(a.log_decay, l * 2 + head)
                                                      : at(a.log_decay, (l * 2 + head) * 3 + c);
              weight += at(a.q, (i * 2 + head) * 3 + c) * at(a.k, (j * 2 + head) * 3 + c) * std::exp(log);
            }
            if (form.write) weight *= at(a.write, j * 2 + head);
            for (int64_t m = 0; m < 4; ++m) sums[size_t(m)] += weight * at(a.v, (j * 2 + head) * 4 + m);
            sums[4] += weight;
          }
          for (int64_t m = 0; m < 4; ++m) {
            const double want = form.normalise ? sums[size_t(m)] / sums[4] : 0.7 * sums[size_t(m)];
            EXPECT_NEAR(at(a.out, (i * 2 + head) * 4 + m), want, 1e-12) << form;
          }
        }
  }
}

// Each sum of a row has at most T K terms of products of three rounded numbers; the delta rule contracts.
TEST(LinearRecurrence, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const Form& form : forms())
      for (const auto& size : sizes()) {
        const int64_t K = size.first, V = size.second;
        const auto a = problem(form, type, 2, K, V, recurrence_segments(), 2);
        const auto e = in_f64(a);
        linear_recurrence(e);
        on_every_implementation([&](const std::string& isa) {
          auto mine = a;
          const Guarded out(random_tensor(a.out.shape(), type, 3));
          mine.out = out.tensor();
          if (form.normalise) mine.divisors = zeros(a.divisors.shape(), DType::f32);
          linear_recurrence(mine);
          const std::string what = cat(isa, " ", type, " ", K, "x", V, " ", form);
          const double bound = double(37 + K + 16) * kF32 * 4 * largest_of(a.v) * std::max(1.0, largest_of(e.out));
          expect_close(
              mine.out, e.out, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(e.out, i)); }, what);
          out.expect_untouched(what);
        });
      }
}

TEST(LinearRecurrence, StatesContinueToTheBit) {
  for (const DType type : kTypes)
    for (const Form& form : forms()) {
      if (!form.causal) continue;
      const int64_t N = 70, heads = 2, K = 9, V = 19;
      const Shape shape{heads, recurrence_state(K, V, form.normalise)};
      on_every_implementation([&](const std::string& isa) {
        auto whole = problem(form, type, heads, K, V, {{0, N, {}}}, 5);
        const Tensor alone = zeros(shape, wide(type)), state = zeros(shape, wide(type));
        whole.segments[0].state = alone;
        linear_recurrence(whole);
        auto pieces = whole;
        pieces.out = zeros(whole.out.shape(), type);
        int64_t begin = 0;
        for (const int64_t end : {1, 2, 40, 69, 70}) {
          pieces.segments = {{begin, end - begin, state}};
          linear_recurrence(pieces);
          begin = end;
        }
        // f64 states keep what the reference computes with; f32 states are what the vector sets compute with.
        if (type == DType::f64 || isa != "ref") {
          expect_same_bits(pieces.out, whole.out, cat(isa, " ", type, " ", form));
          expect_same_bits(state, alone, cat(isa, " ", type, " ", form, " state"));
        }
      });
    }
}

struct Gradients {
  Tensor dq, dk, dv, dlog_decay, dwrite;
};
Gradients like(const LinearRecurrenceArgs& a, uint64_t seed, DType type) {
  const auto make = [&](const Tensor& x, DType t) { return x ? random_tensor(x.shape(), t, seed++) : Tensor(); };
  return {make(a.q, type), make(a.k, type), make(a.v, type), make(a.log_decay, wide(type)), make(a.write, wide(type))};
}

TEST(LinearRecurrenceGrad, MatchesCentralDifferences) {
  for (const Form& form : forms())
    for (const bool continues : {false, true}) {
      if (continues && !form.causal) continue;
      const int64_t K = 2, V = 3;
      std::vector<RecurrenceSegment> parts{{0, 4, {}}, {4, 5, {}}};
      const Shape shape{2, recurrence_state(K, V, form.normalise)};
      if (continues) parts[1].state = random_tensor(shape, DType::f64, 20);
      for (int64_t i = 0; continues && i < shape.numel(); ++i)
        set_value(parts[1].state, i, std::abs(at(parts[1].state, i)));
      auto a = problem(form, DType::f64, 2, K, V, parts, 12);
      const Tensor dout = random_tensor(a.out.shape(), DType::f64, 14);
      const auto value = [&] {
        auto run = a;
        for (auto& s : run.segments)
          if (s.state) s.state = clone(s.state);
        linear_recurrence(run);
        double sum = 0;
        for (int64_t i = 0; i < a.out.numel(); ++i) sum += at(a.out, i) * at(dout, i);
        return sum;
      };
      value();
      const Gradients g = like(a, 15, DType::f64);
      linear_recurrence_grad({a, dout, g.dq, g.dk, g.dv, g.dlog_decay, g.dwrite});
      const std::string what =
          testing::PrintToString(continues) + testing::PrintToString(int(form.decay)) + (form.delta ? " delta" : "");
      expect_gradient(g.dq, a.q, value, what + " dq");
      expect_gradient(g.dk, a.k, value, what + " dk");
      expect_gradient(g.dv, a.v, value, what + " dv");
      if (a.log_decay) expect_gradient(g.dlog_decay, a.log_decay, value, what + " dlog_decay");
      if (a.write) expect_gradient(g.dwrite, a.write, value, what + " dwrite");
    }
}

// The bound: as many roundings as the longest sums have terms, of the largest gradient without cancellation.
TEST(LinearRecurrenceGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const Form& form : forms())
      for (const bool accumulate : {false, true})
        for (const auto& size : sizes()) {
          const int64_t K = size.first, V = size.second;
          std::vector<RecurrenceSegment> parts = recurrence_segments();
          if (form.causal && accumulate)
            parts[3].state = random_tensor({2, recurrence_state(K, V, form.normalise)}, DType::f32, 7, 0.3);
          for (int64_t i = 0; parts[3].state && form.normalise && i < parts[3].state.numel(); ++i)
            set_value(parts[3].state, i, std::abs(at(parts[3].state, i)));
          auto a = problem(form, type, 2, K, V, parts, 8);
          auto e = in_f64(a);
          {
            auto run = e;
            for (auto& s : run.segments)
              if (s.state) s.state = clone(s.state);
            linear_recurrence(run);
          }
          a.out = convert(e.out, type);  // every implementation starts from the same
          e.out = convert(a.out, DType::f64);
          if (form.normalise)
            a.divisors = convert(e.divisors, DType::f32), e.divisors = convert(a.divisors, DType::f64);
          const Tensor dout = random_tensor(a.out.shape(), type, 9);
          const Gradients old = like(a, 30, type);
          const Gradients want{exact(old.dq), exact(old.dk), exact(old.dv), exact(old.dlog_decay), exact(old.dwrite)};
          const auto grad = [&](const LinearRecurrenceArgs& args, const Tensor& dy, const Gradients& g) {
            linear_recurrence_grad({args, dy, g.dq, g.dk, g.dv, g.dlog_decay, g.dwrite, accumulate, accumulate,
                                    accumulate, accumulate, accumulate});
          };
          grad(e, exact(dout), want);
          on_every_implementation([&](const std::string& isa) {
            const std::string what =
                cat(isa, " ", type, " ", K, "x", V, " ", form, accumulate ? " added to a continued one" : "");
            const Guarded dq(old.dq), dk(old.dk), dv(old.dv);
            Gradients mine{dq.tensor(), dk.tensor(), dv.tensor(), {}, {}};
            if (old.dlog_decay) mine.dlog_decay = clone(old.dlog_decay);
            if (old.dwrite) mine.dwrite = clone(old.dwrite);
            grad(a, dout, mine);
            const auto compare = [&](const Tensor& got, const Tensor& right, const char* name) {
              if (!got) return;
              const double bound = double(37 + K + V + 32) * kF32 * 8 * (1 + largest_of(right));
              expect_close(
                  got, right, [&](int64_t i) { return bound + epsilon_of(got.dtype()) * std::abs(at(right, i)); },
                  what + name);
            };
            compare(mine.dq, want.dq, " dq");
            compare(mine.dk, want.dk, " dk");
            compare(mine.dv, want.dv, " dv");
            compare(mine.dlog_decay, want.dlog_decay, " dlog_decay");
            compare(mine.dwrite, want.dwrite, " dwrite");
            dq.expect_untouched(what);
            dk.expect_untouched(what);
            dv.expect_untouched(what);
          });
        }
}

TEST(LinearRecurrence, ResultsDoNotDependOnThreadsOrNeighbours) {
  const Form form{Decays::scalar, true};
  const auto together = problem(form, DType::f32, 8, 64, 64, {{0, 100, {}}, {100, 300, {}}}, 15);
  auto apart = together;
  apart.out = zeros(together.out.shape(), DType::f32);
  {
    const WithThreads four(4);
    linear_recurrence(together);
  }
  const WithThreads one(1);
  apart.segments = {{0, 100, {}}};
  linear_recurrence(apart);
  apart.segments = {{100, 300, {}}};
  linear_recurrence(apart);
  expect_same_bits(together.out, apart.out, "threads and neighbours");
}

// 4,000 rows without decay: the delta rule keeps its state small, and old gates' gradients keep their digits.
TEST(LinearRecurrenceGrad, LongSequencesKeepTheirDigits) {
  for (const Form& form : {Form{Decays::scalar, true, false, true}, Form{Decays::none, true, false, true},
                           Form{Decays::channels, false, false, false}}) {
    auto a = problem(form, DType::f32, 1, 8, 8, {{0, 4000, {}}}, 50);
    const auto e = in_f64(a);
    linear_recurrence(e);
    linear_recurrence(a);
    const Tensor dout = random_tensor(a.out.shape(), DType::f32, 51);
    const Gradients got = like(a, 52, DType::f32), want = like(e, 52, DType::f64);
    linear_recurrence_grad({a, dout, got.dq, got.dk, got.dv, got.dlog_decay, got.dwrite});
    linear_recurrence_grad({e, exact(dout), want.dq, want.dk, want.dv, want.dlog_decay, want.dwrite});
    const double bound = 4000 * kF32 * 4;  // relative to the largest; errors of a sum grow like its root
    expect_close(got.dk, want.dk, bound * largest_of(want.dk), "dk");
    if (got.dlog_decay) expect_close(got.dlog_decay, want.dlog_decay, bound * largest_of(want.dlog_decay), "gate");
  }
}

TEST(LinearRecurrence, ErrorsSayWhatDoesNotFit) {
  const auto error = [](auto change) -> std::string {
    auto a = problem({}, DType::f32, 2, 3, 4, {{0, 4, {}}}, 1);
    change(a);
    try {
      linear_recurrence(a);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error([](auto& a) {
              a.k = zeros({4, 4}, DType::f32);
            }),
            "linear_recurrence: k must be f32[4,6] of 2 heads, got f32[4,4]");
  EXPECT_EQ(error([](auto& a) { a.log_decay = zeros({3}, DType::f32); }),
            "linear_recurrence: log_decay must be f32[2], [4,2] or [4,6], got f32[3]");
  EXPECT_EQ(error([](auto& a) {
              a.segments = {{2, 3, {}}};
            }),
            "linear_recurrence: a segment has rows [2,5), outside of q [4,6]");
  EXPECT_EQ(error([](auto& a) {
              a.segments = {{0, 3, {}}, {2, 2, {}}};
            }),
            "linear_recurrence: two segments share row 2");
  EXPECT_EQ(error([](auto& a) {
              a.segments[0].state = zeros({2, 3}, DType::f32);
            }),
            "linear_recurrence: a state must be f32[2,12], got f32[2,3]");
  EXPECT_EQ(error([](auto& a) { a.delta = true, a.causal = false; }),
            "linear_recurrence: both directions have no decay and no delta rule");
}

}  // namespace
}  // namespace lithe::kernels
