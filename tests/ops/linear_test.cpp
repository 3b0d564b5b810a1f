#include "lithe/ops/linear.h"

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using kernels::Activation;

constexpr Activation kActivations[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                       Activation::tanh};

TEST(Linear, MultipliesRowsByTheWeight) {
  const Var x(kit::tensor_f64({1, 2}, {1, 2})), w(kit::tensor_f64({2, 3}, {1, 2, 3, 10, 20, 30})),
      bias(kit::tensor_f64({3}, {0.5, 0, -1}));
  EXPECT_EQ(kit::values(linear(x, w, bias).value()), (std::vector<double>{21.5, 42, 62}));
  const Var t(kit::tensor_f64({3, 2}, {1, 10, 2, 20, 3, 30}));
  EXPECT_EQ(kit::values(linear(x, t, bias, true).value()), (std::vector<double>{21.5, 42, 62}));
}

TEST(Linear, Gradients) {
  for (bool transposed : {false, true}) {
    const std::vector<Tensor> inputs{random({5, 3}, 1), random(transposed ? Shape{4, 3} : Shape{3, 4}, 2),
                                     random({4}, 3)};
    kit::expect_gradients([=](const Vars& in) { return linear(in[0], in[1], in[2], transposed); }, inputs);
    kit::expect_gradients([=](const Vars& in) { return linear(in[0], in[1], {}, transposed); }, inputs);
    // One input that needs no gradient at a time.
    kit::expect_gradients([&](const Vars& in) { return linear(Var(inputs[0]), in[0], in[1], transposed); },
                          {inputs[1], inputs[2]});
    kit::expect_gradients([&](const Vars& in) { return linear(in[0], Var(inputs[1]), in[1], transposed); },
                          {inputs[0], inputs[2]});
  }
  // A weight used twice, and rows that are their own weight.
  kit::expect_gradients([](const Vars& in) { return linear(linear(in[0], in[1]), in[1]); },
                        {random({5, 3}, 1), random({3, 3}, 2)});
  kit::expect_gradients([](const Vars& in) { return linear(in[0], in[0]); }, {random({3, 3}, 1)});
}

// A weight with a low-rank adapter is the matrix W + s A B, wherever products read it.
TEST(Linear, LowRankAdaptersAddTheirProduct) {
  const std::vector<Tensor> inputs{random({5, 6}, 1), random({6, 4}, 2), random({6, 2}, 3), random({2, 4}, 4),
                                   random({4}, 5)};
  const auto beside = [](const Vars& in) {
    return in[1].with_low_rank(std::make_shared<const LowRank>(LowRank{in[2], in[3], 0.7}));
  };
  const auto whole = [](const Vars& in) { return add(in[1], linear(in[2], in[3]), 1, 0.7); };
  const auto expect_alike = [&](const auto& product, const char* what) {
    kit::expect_same([&](const Vars& in) { return product(in, beside(in)); },
                     [&](const Vars& in) { return product(in, whole(in)); }, inputs, 64, what);
  };
  expect_alike([](const Vars& in, const Var& w) { return linear(in[0], w, in[4]); }, "linear");
  expect_alike([](const Vars& in, const Var& w) { return linear_each(in[0], {{in[1], {}}, {w, in[4]}})[1]; }, "each");
  expect_alike([](const Vars& in, const Var& w) { return activated_linear(Activation::gelu, in[0], {}, w, in[4]); },
               "activated");
  expect_alike([](const Vars& in, const Var& w) { return gated_linear(Activation::silu, in[0], in[0], w, in[4]); },
               "gated");
  EXPECT_NE(kit::error_of([&] {
              beside({Var(), Var(inputs[1]), Var(inputs[2]), Var(inputs[3])}).value();
            }).find("low_rank: a weight [6,4] with a low-rank adapter is read by products alone"),
            std::string::npos);
}

TEST(Activations, Gradients) {
  for (Activation kind : kActivations) {
    const std::vector<Tensor> inputs{random({4, 3}, 4), random({3}, 5), random({4, 3}, 6)};
    kit::expect_gradients([=](const Vars& in) { return activate(kind, in[0], in[1]); }, inputs,
                          cat("activation ", int(kind)));
    kit::expect_gradients([=](const Vars& in) { return activate(kind, in[0]); }, inputs,
                          cat("activation without bias ", int(kind)));
    kit::expect_gradients([=](const Vars& in) { return gated(kind, in[0], in[2]); }, inputs, cat("gated ", int(kind)));
    kit::expect_gradients([=](const Vars& in) { return gated(kind, in[0], in[0]); }, inputs,
                          cat("gated by itself ", int(kind)));
  }
}

TEST(Activations, FusedWithTheLinearMapIsTheComposition) {
  const std::vector<Tensor> inputs{random({5, 6}, 1), random({6}, 2), random({6, 3}, 3), random({3}, 4),
                                   random({5, 6}, 5)};
  for (Activation kind : kActivations) {
    const std::string what = cat("activation ", int(kind));
    kit::expect_same([=](const Vars& in) { return activated_linear(kind, in[0], in[1], in[2], in[3]); },
                     [=](const Vars& in) { return linear(activate(kind, in[0], in[1]), in[2], in[3]); },
                     {inputs[0], inputs[1], inputs[2], inputs[3]}, 16, what);
    kit::expect_same([=](const Vars& in) { return activated_linear(kind, in[0], {}, in[1]); },
                     [=](const Vars& in) { return linear(activate(kind, in[0]), in[1]); }, {inputs[0], inputs[2]}, 16,
                     what);
    kit::expect_same([=](const Vars& in) { return gated_linear(kind, in[0], in[1], in[2]); },
                     [=](const Vars& in) { return linear(gated(kind, in[0], in[1]), in[2]); },
                     {inputs[0], inputs[4], inputs[2]}, 16, what);
    kit::expect_gradients([=](const Vars& in) { return activated_linear(kind, in[0], in[1], in[2], in[3]); },
                          {inputs[0], inputs[1], inputs[2], inputs[3]}, what);
    kit::expect_gradients([=](const Vars& in) { return gated_linear(kind, in[0], in[1], in[2]); },
                          {inputs[0], inputs[4], inputs[2]}, what);
    kit::expect_gradients([=](const Vars& in) { return gated_linear(kind, in[0], in[0], in[1]); },
                          {inputs[0], inputs[2]}, what);
  }
}

TEST(Activations, FusedKeepTheirInputsOnly) {
  Ledger& book = ledger(Device::cpu);
  const Var x = Var::leaf(random({64, 32}, 1)), up = Var::leaf(random({64, 32}, 2)), w = Var::leaf(random({32, 2}, 3));
  const int64_t result = 64 * 2 * 8, hidden = 64 * 32 * 8;
  const auto kept = [&](const std::function<Var()>& f) {
    const int64_t before = book.current(MemoryClass::activations);
    const Tape tape;
    const Var y = f();
    return book.current(MemoryClass::activations) - before;
  };
  EXPECT_EQ(kept([&] { return activated_linear(Activation::gelu, x, {}, w); }), result);
  EXPECT_EQ(kept([&] { return gated_linear(Activation::silu, x, up, w); }), result);
  EXPECT_EQ(kept([&] { return linear(activate(Activation::gelu, x), w); }), result + hidden);
}

// Rows of inference do not depend, to the bit, on the rows beside them.
TEST(Linear, WithoutATapeRowsAreIndependent) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const auto& [K, M] : {std::pair<int64_t, int64_t>{7, 5}, {64, 48}, {100, 33}, {256, 300}}) {
      const Tensor x = kit::normal({70, K}, dtype, 1), w = kit::normal({K, M}, dtype, 2);
      const Tensor all = linear(Var(x), Var(w)).value();
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {69, 70}, {3, 20}, {17, 70}})
        EXPECT_EQ(
            kit::bit_difference(linear(Var(clone(x.slice(begin, end))), Var(w)).value(), clone(all.slice(begin, end))),
            "")
            << dtype << " K " << K << " M " << M << " rows " << begin << " to " << end;
    }
}

TEST(Linear, ErrorsNameBothShapes) {
  const Var x(random({2, 3}, 1)), w(random({4, 5}, 2)), bias(random({3}, 3)), up(random({2, 4}, 4));
  EXPECT_EQ(kit::error_of([&] { linear(x, w); }), "linear: x [2,3] does not fit the weight [4,5]");
  EXPECT_EQ(kit::error_of([&] { linear(x, w, {}, true); }),
            "linear: x [2,3] does not fit the weight [4,5] (transposed)");
  EXPECT_EQ(kit::error_of([&] { linear(up, w, bias); }), "linear: bias must be [5] to match the weight [4,5], got [3]");
  EXPECT_EQ(kit::error_of([&] { linear(x, bias); }), "linear: the weight must be a matrix, got [3]");
  EXPECT_EQ(kit::error_of([&] { gated(Activation::silu, x, up); }),
            "gated: gate and up must have equal shapes, got [2,3] and [2,4]");
  EXPECT_EQ(kit::error_of([&] { gated_linear(Activation::silu, x, up, w); }),
            "gated_linear: gate and up must have equal shapes, got [2,3] and [2,4]");
  const std::string activation = kit::error_of([&] { activate(Activation::relu, x, Var(random({4}, 5))); });
  EXPECT_NE(activation.find("[3]"), std::string::npos) << activation;
  EXPECT_NE(activation.find("[4]"), std::string::npos) << activation;
}

}  // namespace
}  // namespace lithe
