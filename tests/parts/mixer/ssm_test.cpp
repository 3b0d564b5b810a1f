#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "lithe/ops/diagonal_recurrence.h"
#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using Complex = std::complex<double>;

struct Spaces {
  Spaces(int64_t d, const std::string& options, bool moved = true, bool causal = true)
      : mixer(bench.make<Mixer>("ssm", {.hidden_size = d, .max_position_embeddings = 40, .causal = causal}, options)) {
    if (moved) kit::randomise(bench.parameters(), 3);
  }
  Tensor operator()(const Tensor& x) const { return (*this)(x, Sequences::single(x.rows())); }
  Tensor operator()(const Tensor& x, const Sequences& sequences) const {
    return mixer->forward({Var(x), sequences, nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

/// The response to an impulse at the first row of one channel: W_t = B a^t b C, row by row of the page.
// oracle: ssm.recurrent, ssm.diagonal
TEST(SsmMixer, TheResponseToAnImpulseIsTheConvolutionKernel) {
  for (const std::string complex : {"true", "false"}) {
    const int64_t d = 3, n = 4, T = 6;
    Spaces mixer(d, cat("{state_size: 4, skip: none, complex: ", complex, "}"));
    const bool pairs = complex == "true";
    const Tensor B = mixer.bench["part.in.weight"], C = mixer.bench["part.out.weight"];
    const double D = std::exp(value_at(mixer.bench["part.log_step"], 0));
    for (int64_t c = 0; c < d; ++c) {
      const Tensor x = zeros({T, d}, DType::f64);
      set_value(x, c, 1);
      const Tensor y = mixer(x);
      for (int64_t t = 0; t < T; ++t)
        for (int64_t e = 0; e < d; ++e) {
          double want = 0;
          for (int64_t i = 0; i < n; ++i) {
            const Complex A(-std::exp(value_at(mixer.bench["part.log_decay"], i)),
                            pairs ? value_at(mixer.bench["part.frequency"], i) : 0);
            const Complex a = std::exp(D * A), b = (a - 1.0) / A;
            const int64_t columns = pairs ? 2 * n : n;
            const Complex in(value_at(B, c * columns + i), pairs ? value_at(B, c * columns + i + n) : 0);
            // Rows of C: of real parts, and with the other sign of imaginary ones; 2 Re (z c) of a pair.
            const Complex out(value_at(C, i * d + e), pairs ? -value_at(C, (i + n) * d + e) : 0);
            want += (in * b * std::pow(a, double(t)) * out).real();
          }
          EXPECT_NEAR(value_at(y, t * d + e), want, 1e-12 * (1 + std::abs(want)));
        }
    }
  }
}

// oracle: ssm.recurrent
TEST(SsmMixer, IsLinearAndMovesWithItsInput) {
  Spaces mixer(3, "{state_size: 4}");
  const Tensor x = kit::normal({6, 3}, DType::f64, 1), z = kit::normal({6, 3}, DType::f64, 2), both = empty_like(x),
               later = zeros({6, 3}, DType::f64);
  for (int64_t i = 0; i < 18; ++i) set_value(both, i, 2 * value_at(x, i) - value_at(z, i));
  for (int64_t i = 0; i < 12; ++i) set_value(later, i + 6, value_at(x, i));
  const Tensor fx = mixer(x), fz = mixer(z), fb = mixer(both), fl = mixer(later);
  for (int64_t i = 0; i < 18; ++i) EXPECT_NEAR(value_at(fb, i), 2 * value_at(fx, i) - value_at(fz, i), 1e-12);
  for (int64_t i = 0; i < 12; ++i) EXPECT_NEAR(value_at(fl, i + 6), value_at(fx, i), 1e-13);
}

// oracle: ssm.recurrent
TEST(SsmMixer, WithTheSkipAloneItIsPointwise) {
  Spaces mixer(3, "{state_size: 4}");
  fill_zero(mixer.bench["part.out.weight"]);
  const Tensor x = kit::normal({5, 3}, DType::f64, 1);
  EXPECT_EQ(kit::close(mixer(x), kit::product(x, mixer.bench["part.skip.weight"]), 8), "");
}

// oracle: ssm.diagonal
TEST(SsmMixer, ADenseStateMatrixWithTheSameEigenvaluesGivesTheSame) {
  // z_t = z_{t-1} A + u_t with A = U^-1 diag U; z' = z U^-1 of the diagonal chain (E34).
  const int64_t n = 3, T = 6;
  const double a[] = {0.9, 0.5, -0.3}, U[] = {1, 2, 0, 0, 1, 1, 0, 0, 1}, inverse[] = {1, -2, 2, 0, 1, -1, 0, 0, 1};
  const Tensor u = kit::normal({T, n}, DType::f64, 1);  // in the basis of the dense chain
  const Tensor diagonal = diagonal_recurrence(Var(kit::product(u, kit::tensor_f64({3, 3}, {inverse, inverse + 9}))),
                                              Var(kit::tensor_f64({3}, {a, a + 3})), {}, Sequences::single(T))
                              .value();
  const Tensor back = kit::product(diagonal, kit::tensor_f64({3, 3}, {U, U + 9}));
  std::vector<double> z(3, 0.0);
  for (int64_t t = 0; t < T; ++t) {
    std::vector<double> next(3, 0.0);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) {
        double element = 0;  // of U^-1 diag U
        for (int64_t k = 0; k < n; ++k) element += inverse[i * n + k] * a[k] * U[k * n + j];
        next[size_t(j)] += z[size_t(i)] * element;
      }
      next[size_t(j)] += value_at(u, t * n + j);
    }
    z = next;
    for (int64_t j = 0; j < n; ++j) EXPECT_NEAR(value_at(back, t * n + j), z[size_t(j)], 1e-13);
  }
}

// oracle: ssm.diagonal
TEST(SsmMixer, StartsStableWithTheRatesOfItsSource) {
  const auto at = [](Spaces& mixer, const char* name, int64_t i) { return value_at(mixer.bench[name], i); };
  Spaces real(3, "{}", false), pairs(3, "{complex: true, step_per_state: true}", false);
  EXPECT_EQ(real.bench["part.log_decay"].numel(), 64);
  EXPECT_NEAR(std::exp(at(real, "part.log_decay", 9)), 10, 1e-12);
  EXPECT_NEAR(std::exp(at(pairs, "part.log_decay", 9)), 0.5, 1e-12);
  EXPECT_NEAR(at(pairs, "part.frequency", 2), 2 * M_PI, 1e-12);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_GE(at(pairs, "part.log_step", i), std::log(0.01));
    EXPECT_LE(at(pairs, "part.log_step", i), std::log(0.1));
  }
  const Tensor x = zeros({40, 3}, DType::f64);  // bounded output
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, 1);
  for (Spaces* mixer : {&real, &pairs})
    for (double y : kit::values((*mixer)(x))) EXPECT_LT(std::abs(y), 10);
}

// oracle: ssm.conv
TEST(SsmMixer, EvaluatedAsAConvolutionItIsTheRecurrenceWithItsGradients) {
  for (const std::string complex : {"true", "false"})
    for (const std::string kind : {"zoh", "bilinear", "euler"}) {
      const std::string options = cat("state_size: 4, complex: ", complex, ", discretisation: ", kind);
      Spaces rows(3, "{" + options + "}"), taps(3, "{" + options + ", evaluation: convolution, direct_rows: 4}");
      // Steps that leave every rate stable, with euler too.
      for (Spaces* s : {&rows, &taps}) set_value(s->bench["part.log_step"], 0, std::log(0.05));
      const Sequences sequences({0, 13, 14, 33});
      const Tensor x = kit::normal({33, 3}, DType::f64, 1), dy = kit::normal({33, 3}, DType::f64, 2);
      std::vector<Tensor> gradients[2];
      for (Spaces* s : {&rows, &taps}) {
        Var in = Var::leaf(clone(x));
        for (Parameter& p : s->bench.parameters().all()) p.master.ref()->grad = Tensor();
        Tape tape;
        tape.backward(s->mixer->forward({in, sequences, nullptr}), clone(dy));
        gradients[s == &taps].push_back(in.grad());
        for (Parameter& p : s->bench.parameters().all()) gradients[s == &taps].push_back(p.master.grad());
      }
      const Tensor want = rows(x, sequences), got = taps(x, sequences);
      for (int64_t i = 0; i < want.numel(); ++i) EXPECT_NEAR(value_at(got, i), value_at(want, i), 1e-10);
      ASSERT_EQ(gradients[0].size(), gradients[1].size());
      for (size_t g = 0; g < gradients[0].size(); ++g)
        for (int64_t i = 0; i < gradients[0][g].numel(); ++i)
          EXPECT_NEAR(value_at(gradients[1][g], i), value_at(gradients[0][g], i),
                      1e-10 * (1 + std::abs(value_at(gradients[0][g], i))))
              << g;
    }
}

/// Half of the state reads onward, half from the end of each sequence.
TEST(SsmMixer, InAModelThatSeesBothWaysHalfOfTheStateReadsBack) {
  Spaces both(3, "{state_size: 2, skip: none}", true, false), onward(3, "{state_size: 2, skip: none}");
  const Sequences sequences({0, 4, 9});
  const Tensor x = kit::normal({9, 3}, DType::f64, 1), mirrored = empty_like(x);
  for (const int64_t b : {0, 1})
    for (int64_t t = sequences.offset(b); t < sequences.offset(b + 1); ++t)
      for (int64_t c = 0; c < 3; ++c)
        set_value(mirrored, (sequences.offset(b) + sequences.offset(b + 1) - 1 - t) * 3 + c, value_at(x, t * 3 + c));
  // The sum of a chain that only the first number of the state enters, and the other one on the mirrored text.
  const Tensor weight = onward.bench["part.in.weight"];
  const Tensor kept = clone(weight);
  Tensor parts[2];
  for (const int64_t half : {0, 1}) {
    copy_into(weight, kept);
    for (int64_t c = 0; c < 3; ++c) set_value(weight, c * 2 + 1 - half, 0);
    parts[half] = onward(half ? mirrored : x, sequences);
  }
  const Tensor y = both(x, sequences);
  for (const int64_t b : {0, 1})
    for (int64_t t = sequences.offset(b); t < sequences.offset(b + 1); ++t)
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t there = sequences.offset(b) + sequences.offset(b + 1) - 1 - t;
        EXPECT_NEAR(value_at(y, t * 3 + c), value_at(parts[0], t * 3 + c) + value_at(parts[1], there * 3 + c), 1e-12);
      }
  EXPECT_NE(kit::coded_error_of([] { Spaces(3, "{state_size: 3}", true, false); }).find("2 ssm: state_size 3 is odd"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] { Spaces(3, "{direct_rows: 48}"); }).find("2 ssm: direct_rows must be a power of"),
            std::string::npos);
}

TEST(SsmMixer, ParametersAndStatesAreCounted) {
  for (const int64_t d : {5, 8, 12}) {
    EXPECT_EQ(Spaces(d, "{}").bench.parameters().count(), 64 + 2 * d * 64 + d * d + 1);
    EXPECT_EQ(Spaces(d, "{}").mixer->state_bytes({3}, DType::bf16), 64 * 4);
    EXPECT_EQ(Spaces(d, "{complex: true}").mixer->state_bytes({3}, DType::f32), 2 * 64 * 4);
  }
}

}  // namespace
}  // namespace lithe
