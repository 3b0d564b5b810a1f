#include <gtest/gtest.h>

#include "lithe/autograd/piece.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/norm.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

using Function = std::function<Var(const std::vector<Var>&)>;

// recompute() of one result.
Var recomputed(const Function& f, const std::vector<Var>& inputs) {
  return recompute([f](const std::vector<Var>& in) { return std::vector<Var>{f(in)}; }, inputs)[0];
}

// Runs f(x) and its backward pass, recomputed or not; results and gradients in order.
struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};
Result run(const Function& f, const std::vector<Var>& inputs, const std::vector<Var>& parameters, bool again) {
  for (const Var& x : inputs)
    if (x.ref()) x.ref()->grad = Tensor();
  for (const Var& p : parameters) p.ref()->grad = Tensor();
  Tape tape;
  const Var y = again ? recomputed(f, inputs) : f(inputs);
  tape.backward(y, kit::normal(y.shape(), y.dtype(), 77));
  Result out{y.value(), {}};
  for (const Var& x : inputs) out.gradients.push_back(x.grad());
  for (const Var& p : parameters) out.gradients.push_back(p.grad());
  return out;
}

void expect_same(const Result& a, const Result& b) {
  EXPECT_EQ(kit::bit_difference(a.y, b.y), "");
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    ASSERT_EQ(a.gradients[i].defined(), b.gradients[i].defined()) << i;
    if (!a.gradients[i].defined()) continue;
    EXPECT_EQ(kit::bit_difference(a.gradients[i], b.gradients[i]), "") << i;
  }
}

TEST(Recompute, GivesTheSameBitsAsKeeping) {
  for (DType dtype : {DType::f64, DType::f32}) {
    const Var x = Var::leaf(kit::normal({33, 17}, dtype, 1)), w = Var::leaf(kit::normal({17, 17}, dtype, 2)),
              g = Var::leaf(kit::normal({17}, dtype, 3));
    const auto block = [&](const std::vector<Var>& in) {
      return add(in[0],
                 activate(kernels::Activation::gelu, linear(normalise(kernels::NormKind::rms, in[0], g, {}, 1e-5), w)));
    };
    const auto twice = [&](const std::vector<Var>& in) { return block({block(in)}); };
    expect_same(run(twice, {x}, {w, g}, false), run(twice, {x}, {w, g}, true));
  }
}

TEST(Recompute, DrawsTheSameDropout) {
  const Var x = Var::leaf(kit::normal({8, 9}, DType::f32, 1)), w = Var::leaf(kit::normal({9, 9}, DType::f32, 2));
  const auto block = [&](const std::vector<Var>& in) {
    return dropout(linear(dropout(in[0], 0.5, {.seed = 1}), w), 0.25, {.seed = 2});
  };
  const Result kept = run(block, {x}, {w}, false);
  expect_same(kept, run(block, {x}, {w}, true));
  int64_t zeros = 0;
  for (double y : kit::values(kept.y)) zeros += y == 0;
  EXPECT_GT(zeros, 5);  // dropout did act
}

TEST(Recompute, InputsWithoutGradientAndUnusedOnesAreAllowed) {
  const Var x = Var::leaf(kit::normal({2, 3}, DType::f64, 1)), unused = Var::leaf(kit::normal({2, 3}, DType::f64, 2)),
            constant(kit::normal({2, 3}, DType::f64, 3));
  const auto f = [](const std::vector<Var>& in) { return mul(in[0], in[2]); };
  expect_same(run(f, {x, unused, constant}, {}, false), run(f, {x, unused, constant}, {}, true));
}

TEST(Recompute, KeepsTheInputsOnly) {
  Ledger& book = ledger(Device::cpu);
  const Var x = Var::leaf(kit::normal({64, 16}, DType::f64, 1));
  const auto f = [](const std::vector<Var>& in) {
    Var y = in[0];
    for (int i = 0; i < 10; ++i) y = mul(y, y);
    return y;
  };
  const int64_t one = 64 * 16 * 8, before = book.current(MemoryClass::activations);
  Tape tape;
  const Var y = recomputed(f, {x});
  EXPECT_EQ(book.current(MemoryClass::activations) - before, one);  // the result
  Tape other;
  const Var z = f({x});
  EXPECT_EQ(book.current(MemoryClass::activations) - before, 11 * one);
}

TEST(Recompute, WithoutATapeJustRuns) {
  const Var x = Var::leaf(kit::normal({2, 3}, DType::f64, 1));
  int calls = 0;
  const Var y = recomputed(
      [&](const std::vector<Var>& in) {
        ++calls;
        EXPECT_FALSE(training());
        return scale(in[0], 2);
      },
      {x});
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.needs_grad());
}

TEST(Recompute, NestsAndUsesAnInputTwice) {
  const Var x = Var::leaf(kit::normal({4, 3}, DType::f64, 1)), w = Var::leaf(kit::normal({3, 3}, DType::f64, 2));
  const auto inner = [&](const std::vector<Var>& in) { return linear(mul(in[0], in[1]), w); };
  const auto outer = [&](bool again) {
    return [&, again](const std::vector<Var>& in) {
      return add(again ? recomputed(inner, {in[0], in[0]}) : inner({in[0], in[0]}), in[0]);
    };
  };
  expect_same(run(outer(false), {x}, {w}, false), run(outer(true), {x}, {w}, true));
}

// What a piece reads from outside gathers its gradient there, with the same bits whether the piece runs again or not.
TEST(Recompute, ReadsFromOutside) {
  const Var x = Var::leaf(kit::normal({4, 3}, DType::f32, 1)), y = Var::leaf(kit::normal({4, 3}, DType::f32, 2));
  const auto gradients = [&](bool again) {
    for (const Var& leaf : {x, y}) leaf.ref()->grad = Tensor();
    Tape tape;
    const Var outside = scale(y, 3);  // a result of the tape around the pieces
    const PieceFunction f = [&](const std::vector<Var>& in) {
      const Var read = from_outside(outside);
      return std::vector<Var>{mul(in[0], read), sum(mul(read, from_outside(outside)))};
    };
    std::vector<Var> made;
    if (again) {
      made = recompute(f, {x});
    } else {
      const Piece piece(Piece::Mode::gather);
      made = f({x});
    }
    tape.backward(add(sum(made[0]), made[1]));
    return std::pair{x.grad(), y.grad()};
  };
  const auto kept = gradients(false), found = gradients(true);
  EXPECT_EQ(kit::bit_difference(kept.first, found.first), "");
  EXPECT_EQ(kit::bit_difference(kept.second, found.second), "");
  EXPECT_EQ(kit::close(kept.second, add(scale(x, 3), scale(y, 18)).value(), 8), "");
}

TEST(Recompute, GivesManyResultsOfWhichSomeGoUnused) {
  const Var x = Var::leaf(kit::normal({4, 3}, DType::f64, 1));
  Tape tape;
  const std::vector<Var> made = recompute(
      [](const std::vector<Var>& in) {
        return std::vector<Var>{scale(in[0], 2), sum(mul(in[0], in[0])), scale(in[0], 100)};
      },
      {x});
  tape.backward(add(sum(made[0]), made[1]));
  EXPECT_EQ(kit::close(x.grad(), add(scale(x, 2), Var(kit::normal(x.shape(), DType::f64, 1, 0, 2))).value(), 4), "");
}

TEST(Recompute, ASecondPassMustReadWhatTheFirstDid) {
  const Var x = Var::leaf(kit::normal({2, 2}, DType::f64, 1)), y = Var::leaf(kit::normal({2, 2}, DType::f64, 2));
  int calls = 0;
  Tape tape;
  const Var made =
      recomputed([&](const std::vector<Var>& in) { return calls++ ? mul(in[0], from_outside(y)) : in[0]; }, {x});
  EXPECT_THROW(tape.backward(sum(made)), Error);
}

}  // namespace
}  // namespace lithe
