#include "lithe/ops/reversible.h"

#include "lithe/autograd/piece.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/norm.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr int64_t kRows = 6, kWidth = 5;

// f_i(x) = dropout(silu(rms(x) W_i)) + 0.1 x c, with c read from outside.
std::vector<ReversibleStep> layers(const std::vector<Var>& weights, const Var& c, double p = 0) {
  std::vector<ReversibleStep> out;
  for (size_t i = 0; i < weights.size(); ++i)
    out.push_back([w = weights[i], c, i, p](const Var& x) {
      const Var ones = kit::normal({kWidth}, x.dtype(), 1, 0, 1),
                normed = normalise(kernels::NormKind::rms, x, ones, {}, 1e-5);
      return std::vector<Var>{
          add(dropout(activate(kernels::Activation::silu, linear(normed, w)), p, {.seed = 7, .step = i}),
              mul(x, from_outside(c)), 1, 0.1)};
    });
  return out;
}

// The same on the tape, which keeps everything.
Streams stored(const std::vector<ReversibleStep>& steps, Streams x, std::vector<std::vector<Var>>*) {
  for (const ReversibleStep& f : steps) x = {x.read, f ? add(x.other, f(x.read)[0]) : x.other};
  return x;
}

using Chain = Streams (*)(const std::vector<ReversibleStep>&, Streams, std::vector<std::vector<Var>>*);

// Inputs: x1, x2, c, then the weights. `ends`: how the streams' ends enter the result.
kit::Outcome outcome(Chain run, const std::vector<Tensor>& inputs, double p, double other, double read) {
  return kit::differentiate(
      [&](const std::vector<Var>& in) {
        const Streams y = run(layers({in.begin() + 3, in.end()}, in[2], p), {in[0], in[1]}, nullptr);
        return add(y.other, y.read, other, read);
      },
      inputs, kit::normal({kRows, kWidth}, inputs[0].dtype(), 9));
}

std::vector<Tensor> inputs(DType dtype, int count) {
  std::vector<Tensor> out{kit::normal({kRows, kWidth}, dtype, 1), kit::normal({kRows, kWidth}, dtype, 2),
                          kit::normal({kRows, kWidth}, dtype, 3)};
  for (int i = 0; i < count; ++i) out.push_back(kit::normal({kWidth, kWidth}, dtype, 10 + uint64_t(i), 0.4));
  return out;
}

// oracle: share.reversible
TEST(Reversible, GradientsAreThoseOfKeepingEverything) {
  for (const double p : {0.0, 0.4})
    for (const int count : {1, 4, 7}) {
      const auto in = inputs(DType::f64, count);
      const kit::Outcome kept = outcome(stored, in, p, 0.5, 2), found = outcome(reversible, in, p, 0.5, 2);
      EXPECT_EQ(kit::bit_difference(found.y, kept.y), "");
      for (size_t i = 0; i < in.size(); ++i)
        EXPECT_LE(kit::largest_difference(found.gradients[i], kept.gradients[i]), 1e-12)
            << p << " " << count << " " << i;
    }
}

// What the steps read in the backward pass is what they read in the forward pass: the inverse of each step. The first
// adds nothing, so that both streams' starts are read.
// oracle: share.reversible
TEST(Reversible, BackwardFindsWhatForwardRead) {
  for (const auto& [dtype, bound] : {std::pair{DType::f32, 1e-5}, {DType::f64, 1e-12}}) {
    const auto in = inputs(dtype, 12);
    std::vector<Var> weights;
    for (size_t i = 3; i < in.size(); ++i) weights.push_back(Var::leaf(in[i]));
    std::vector<ReversibleStep> steps = layers(weights, in[2]);
    steps.insert(steps.begin(), [](const Var& x) { return std::vector<Var>{scale(x, 0)}; });
    std::vector<Tensor> read;
    for (ReversibleStep& step : steps)
      step = [step, &read](const Var& x) {
        read.push_back(clone(x.value()));
        return step(x);
      };
    Tape tape;
    const Streams y = reversible(steps, {Var::leaf(in[0]), Var::leaf(in[1])});
    tape.backward(add(y.other, y.read), kit::normal({kRows, kWidth}, dtype, 9));
    ASSERT_EQ(read.size(), 2 * steps.size());
    EXPECT_EQ(kit::bit_difference(read[0], in[1]), "");
    EXPECT_EQ(kit::bit_difference(read[1], in[0]), "");
    for (size_t i = 0; i < steps.size(); ++i)
      EXPECT_LE(kit::largest_difference(read[i], read[2 * steps.size() - 1 - i]), bound) << dtype << " " << i;
  }
}

// oracle: share.reversible
TEST(Reversible, KeepsItsEndAloneAndOneStepAtATime) {
  const auto peaks = [](int count) {
    const auto in = inputs(DType::f32, count);
    std::vector<Var> weights;
    for (size_t i = 3; i < in.size(); ++i) weights.push_back(Var(in[i]));
    const Var x1 = Var::leaf(in[0]), x2 = Var::leaf(in[1]);
    Ledger& book = ledger(Device::cpu);
    const int64_t before = book.current(MemoryClass::activations);
    Tape tape;
    Streams y = reversible(layers(weights, in[2]), {x1, x2});
    const int64_t kept = book.current(MemoryClass::activations) - before;
    const Var sum = add(y.other, y.read);
    y = {};
    book.reset_peak();
    tape.backward(sum, kit::normal({kRows, kWidth}, DType::f32, 9));
    return std::pair{kept, book.peak(MemoryClass::activations) - before};
  };
  EXPECT_EQ(peaks(4).first, 2 * 128);  // 30 numbers of 4 bytes, in blocks of 64
  EXPECT_EQ(peaks(4), peaks(40));
}

TEST(Reversible, IsTheIdentityWhenNothingIsAdded) {
  const Tensor a = kit::normal({kRows, kWidth}, DType::f32, 1), b = kit::normal({kRows, kWidth}, DType::f32, 2);
  const ReversibleStep zero = [](const Var& x) { return std::vector<Var>{scale(x, 0)}; };
  for (const ReversibleStep& f : {zero, ReversibleStep()}) {
    const Var x1 = Var::leaf(a), x2 = Var::leaf(b);
    Tape tape;
    const Streams y = reversible({f, f, f, f}, {x1, x2});
    EXPECT_EQ(kit::bit_difference(y.other.value(), a), "");
    EXPECT_EQ(kit::bit_difference(y.read.value(), b), "");
    const Tensor dy = kit::normal({kRows, kWidth}, DType::f32, 3);
    tape.backward(add(y.other, y.read, 1, 3), dy);
    EXPECT_EQ(kit::bit_difference(x1.grad(), dy), "");
    EXPECT_EQ(kit::close(x2.grad(), kit::sum(dy, kit::sum(dy, dy)), 2), "");
  }
}

TEST(Reversible, OneEndMayGoUnusedAndBothStartsMayBeOne) {
  const auto in = inputs(DType::f64, 3);
  for (const auto& [other, read] : {std::pair{1, 0}, {0, 1}}) {
    const auto f = [&, other = other](Chain run) {
      return kit::differentiate(
          [&](const std::vector<Var>& in) {
            const Streams y = run(layers({in.begin() + 3, in.end()}, in[2]), {in[0], in[0]}, nullptr);
            return other ? y.other : y.read;
          },
          in, kit::normal({kRows, kWidth}, DType::f64, 9));
    };
    const kit::Outcome kept = f(stored), found = f(reversible);
    for (const size_t i : {0, 2, 3, 4, 5}) {
      ASSERT_EQ(kept.gradients[i].defined(), found.gradients[i].defined()) << i;
      if (kept.gradients[i].defined()) {
        EXPECT_LE(kit::largest_difference(found.gradients[i], kept.gradients[i]), 1e-12) << i;
      }
    }
  }
}

// Other results of steps come out, and their gradients go back, as if the steps had been kept.
TEST(Reversible, StepsMayHaveOtherResults) {
  const auto in = inputs(DType::f64, 3);
  const auto f = [&](Chain run) {
    return kit::differentiate(
        [&](const std::vector<Var>& in) {
          std::vector<ReversibleStep> steps = layers({in.begin() + 3, in.end()}, in[2]);
          std::vector<std::vector<Var>> others(steps.size());
          for (size_t i = 0; i < steps.size(); i += 2)  // of the middle one there is none
            steps[i] = [step = steps[i], &others, i, kept = run == stored](const Var& x) {
              std::vector<Var> made = step(x);
              const Var norm = sum(mul(x, x));
              if (kept)
                others[i] = {norm};
              else
                made.push_back(norm);
              return made;
            };
          const Streams y = run(steps, {in[0], in[1]}, run == stored ? nullptr : &others);
          EXPECT_TRUE(others[1].empty());
          return add(add(sum(y.other), sum(y.read)), add(others[0][0], others[2][0], 0.5, 2));
        },
        in, kit::tensor_f64({1}, {1}));
  };
  const kit::Outcome kept = f(stored), found = f(reversible);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_LE(kit::largest_difference(found.gradients[i], kept.gradients[i]), 1e-10) << i;
}

TEST(Reversible, WithoutATapeJustRuns) {
  const auto in = inputs(DType::f32, 1);
  int calls = 0;
  const Streams y = reversible({[&](const Var& x) {
                                 ++calls;
                                 EXPECT_FALSE(training());
                                 return std::vector<Var>{x};
                               }},
                               {Var::leaf(in[0]), Var::leaf(in[1])});
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.read.needs_grad());
  EXPECT_EQ(kit::bit_difference(y.other.value(), in[1]), "");
}

TEST(Reversible, StreamsMustAgree) {
  const Var a(kit::normal({2, 3}, DType::f32, 1)), b(kit::normal({3, 2}, DType::f32, 1));
  EXPECT_NE(kit::error_of([&] {
              reversible({}, {a, b});
            }).find("both streams must have one shape and dtype, got [2,3] f32 and [3,2] f32"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
