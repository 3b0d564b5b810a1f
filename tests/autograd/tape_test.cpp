#include <gtest/gtest.h>

#include <cmath>

#include "lithe/autograd/var.h"
#include "lithe/kernels/kernel.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

using Numbers = std::vector<double>;

Var leaf(const Numbers& values) { return Var::leaf(kit::tensor_f64({1, int64_t(values.size())}, values)); }
Numbers grad(const Var& x) { return kit::values(x.grad()); }
Tensor row(const Numbers& values) { return kit::tensor_f64({1, int64_t(values.size())}, values); }

TEST(Tape, GradientsOfSeveralUsesAdd) {
  const Var x = leaf({1, -2, 3});
  Tape tape;
  // y = x * x + 3 x: the gradient is 2 x + 3.
  tape.backward(add(mul(x, x), scale(x, 3)), row({1, 1, 1}));
  EXPECT_EQ(grad(x), (Numbers{5, -1, 9}));
}

// add() hands the same tensor to both inputs. Whatever follows for one of them must not change the other.
TEST(Tape, SharedGradientsAreNotCorrupted) {
  for (int order = 0; order < 2; ++order) {
    const Var a = leaf({1, 2}), b = leaf({3, 4});
    Tape tape;
    const Var x = scale(a, 1), y = scale(b, 1);  // not leaves: their slots may share memory
    const Var first = order == 0 ? scale(x, 10) : Var();
    const Var total = add(x, y);
    const Var second = order == 0 ? first : scale(x, 10);
    tape.backward(add(total, second), row({1, 1}));
    EXPECT_EQ(grad(a), (Numbers{11, 11})) << order;
    EXPECT_EQ(grad(b), (Numbers{1, 1})) << order;
  }
}

TEST(Tape, GivenAndWrittenGradientsMeetInOneSlot) {
  // give() then into(), into() then give(), give() twice; through a reshape, which shares the values.
  const Var a = leaf({1, 2}), b = leaf({5, 6});
  Tape tape;
  const Var x = scale(a, 1);
  const Var y = add(add(x, x), reshape(scale(x, 4), {1, 2}));  // 2 x + 4 x
  const Var z = add(mul(x, b), add(y, y, 1, 1));               // b x + 12 x
  tape.backward(add(z, reshape(reshape(x, {2, 1}), {1, 2})), row({1, 1}));
  EXPECT_EQ(grad(a), (Numbers{5 + 13, 6 + 13}));
  EXPECT_EQ(grad(b), (Numbers{1, 2}));
}

TEST(Tape, TheCallersGradientIsNotChanged) {
  const Var a = leaf({1, 2});
  const Tensor dy = row({1, 1});
  Tape tape;
  const Var x = scale(a, 1);
  tape.backward(add(add(x, scale(x, 2)), scale(x, 3)), dy);
  EXPECT_EQ(kit::values(dy), (Numbers{1, 1}));
  EXPECT_EQ(grad(a), (Numbers{6, 6}));
}

TEST(Tape, LeavesOwnTheirGradient) {
  const Var a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor dy = row({1, 1});
  {
    Tape tape;
    tape.backward(add(a, b), dy);
  }
  set_value(a.grad(), 0, 100);
  EXPECT_EQ(grad(b), (Numbers{1, 1}));
  EXPECT_EQ(kit::values(dy), (Numbers{1, 1}));
}

TEST(Tape, LeavesGatherOverTapes) {
  const Var x = leaf({1, 2});
  for (int i = 0; i < 2; ++i) {
    Tape tape;
    tape.backward(mul(x, x), row({1, 10}));
  }
  EXPECT_EQ(grad(x), (Numbers{4, 80}));
  EXPECT_EQ(kit::values(x.value()), (Numbers{1, 2}));
}

TEST(Tape, OnlyWhatLeadsToTheResultIsDifferentiated) {
  const Var x = leaf({1, 2}), unused = leaf({1, 2});
  Tape tape;
  const Var y = scale(x, 2);
  scale(unused, 3);
  mul(y, unused);
  tape.backward(y, row({1, 1}));
  EXPECT_EQ(grad(x), (Numbers{2, 2}));
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Tape, UnusedOutputsHaveNoGradient) {
  const Var x = leaf({1, 2});
  Tape tape;
  std::vector<bool> defined;
  const auto outs = record_many("split", {x}, {row({1}), row({2})}, [&](const std::vector<Tensor>& dys, Grads& g) {
    for (const Tensor& dy : dys) defined.push_back(dy.defined());
    g.give(x, row({0, value_at(dys[1], 0)}));
  });
  tape.backward(outs[1], row({7}));
  EXPECT_EQ(defined, (std::vector<bool>{false, true}));
  EXPECT_EQ(grad(x), (Numbers{0, 7}));
}

TEST(Tape, NothingIsRecordedWithoutATapeOrALeaf) {
  const Var x = leaf({1, 2});
  EXPECT_FALSE(scale(x, 2).needs_grad());
  Tape tape;
  EXPECT_FALSE(scale(Var(row({1})), 2).needs_grad());
  EXPECT_TRUE(scale(x, 2).needs_grad());
}

TEST(Tape, NoGradSuspendsAndTheInnermostTapeCounts) {
  const Var x = leaf({1, 2});
  Tape outer;
  EXPECT_EQ(Tape::current(), &outer);
  EXPECT_TRUE(training());
  {
    const NoGrad no_grad;
    EXPECT_EQ(Tape::current(), nullptr);
    EXPECT_FALSE(training());
    EXPECT_FALSE(scale(x, 2).needs_grad());
    Tape inner;
    EXPECT_EQ(Tape::current(), &inner);
    inner.backward(scale(x, 5), row({1, 1}));
  }
  EXPECT_EQ(Tape::current(), &outer);
  EXPECT_EQ(grad(x), (Numbers{5, 5}));
  outer.backward(scale(x, 2), row({1, 1}));
  EXPECT_EQ(grad(x), (Numbers{7, 7}));
}

TEST(Tape, SaysWhatCannotBeDifferentiated) {
  const Var x = leaf({1, 2});
  Tape tape;
  EXPECT_EQ(kit::error_of([&] { tape.backward(Var(row({1}))); }),
            "backward: nothing to differentiate: no input of the result needs a gradient");
  const Var y = scale(x, 2);
  EXPECT_EQ(kit::error_of([&] { tape.backward(y); }),
            "backward: a result of shape [1,2] needs an explicit gradient; only scalars have a default");
  const Var bad = record("bad", {x}, row({1, 2}), [&](const Tensor&, Grads& g) { g.give(x, row({1, 2, 3})); });
  EXPECT_EQ(kit::error_of([&] {
              tape.backward(bad, row({1, 1}));
            }),
            "backward: a gradient of shape [1,3] for a value of shape [1,2]");
}

TEST(Tape, ScalarsStartWithOne) {
  const Var x = leaf({1, 2, 3});
  Tape tape;
  const Var total = sum(mul(x, x));
  EXPECT_EQ(value_at(total.value(), 0), 14);
  tape.backward(total);
  EXPECT_EQ(grad(x), (Numbers{2, 4, 6}));
}

TEST(Tape, GradientsOfBf16CopiesGatherInTheMastersType) {
  const Var master = Var::leaf(convert(row({1, 2}), DType::f32));
  const Var copy(convert(master.value(), DType::bf16), master.ref());
  Tape tape;
  const Var x = Var::leaf(convert(row({3, 5}), DType::bf16));
  tape.backward(mul(x, Var(copy.value())), convert(row({1, 1}), DType::bf16));
  Tape second;
  second.backward(scale(copy, 2), convert(row({1, 1}), DType::bf16));
  EXPECT_EQ(master.grad().dtype(), DType::f32);
  EXPECT_EQ(grad(master), (Numbers{2, 2}));
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
}

TEST(Tape, BackwardFreesWhatWasKeptAndBooksGradients) {
  Ledger& book = ledger(Device::cpu);
  const Var x = leaf({1, 2}), w = Var::leaf(kit::normal({2, 64}, DType::f64, 1));
  const int64_t before = book.current(MemoryClass::activations), gradients = book.current(MemoryClass::gradients);
  {
    Tape tape;
    Var y = linear(x, w);
    for (int i = 0; i < 4; ++i) y = mul(y, y);
    EXPECT_GE(book.current(MemoryClass::activations) - before, 4 * 64 * 8);
    Tensor dy = empty_like(y.value());
    for (int64_t i = 0; i < 64; ++i) set_value(dy, i, 1);
    tape.backward(y, dy);
    y = Var();
    dy = Tensor();
    EXPECT_EQ(book.current(MemoryClass::activations), before);
  }
  EXPECT_EQ(book.current(MemoryClass::gradients) - gradients, 64 + 2 * 64 * 8);  // x's 16 bytes take a block of 64
}

TEST(Tape, TraceNamesTheFirstOperationThatIsNotFinite) {
  const FiniteTrace trace;
  const Var x = leaf({1, 1e200});
  Tape tape;
  try {
    const kernels::PartScope part("layers.3.ffn");
    const Var y = scale(x, 2);
    mul(y, y);
    FAIL() << "an infinite product passed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "diverged: the first value that is not finite is in the output of mul in layers.3.ffn: element 1 of "
                 "[1,2] is inf");
    EXPECT_EQ(error.code(), ExitCode::diverged);
  }
}

TEST(Tape, TraceNamesGradientsThatAreNotFinite) {
  const FiniteTrace trace;
  const Var x = leaf({1e-300, 2});
  Tape tape;
  Var y;
  {
    const kernels::PartScope part("layers.1.mixer");
    y = scale(x, 1e20);
  }
  try {
    tape.backward(y, row({1e300, 1}));
    FAIL() << "an infinite gradient passed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "diverged: the first value that is not finite is in the gradient of scale in layers.1.mixer: element "
                 "0 of [1,2] is inf");
    EXPECT_EQ(error.code(), ExitCode::diverged);
  }
}

TEST(Tape, WithoutTraceInfinitiesPass) {
  const Var x = leaf({1e200});
  EXPECT_TRUE(std::isinf(value_at(mul(x, x).value(), 0)));
}

}  // namespace
}  // namespace lithe
