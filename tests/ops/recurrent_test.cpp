#include "lithe/ops/recurrent.h"

#include <cmath>

#include "lithe/ops/linear.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using kernels::RecurrentCell;
constexpr RecurrentCell kCells[] = {RecurrentCell::linear, RecurrentCell::elman, RecurrentCell::lstm,
                                    RecurrentCell::gru};

TEST(Recurrent, Gradients) {
  const Sequences sequences({0, 4, 5, 5, 10});
  for (const RecurrentCell kind : kCells) {
    const int64_t G = kernels::gates_of(kind);
    const std::vector<Tensor> inputs{kit::normal({10, G * 3}, DType::f64, 1),
                                     kit::normal({3, G * 3}, DType::f64, 2, 0.4), kit::normal({G * 3}, DType::f64, 3)};
    kit::expect_gradients([&](const std::vector<Var>& in) { return recurrent(kind, in[0], in[1], in[2], sequences); },
                          inputs, cat("kind ", int(kind)));
    kit::expect_gradients(
        [&](const std::vector<Var>& in) { return recurrent(kind, Var(inputs[0]), in[0], {}, sequences); }, {inputs[1]},
        "rows are constant");
  }
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The textbook's equations, one sequence, number by number.
// oracle: rnn.elman, rnn.lstm, rnn.gru
TEST(Recurrent, IsTheLoopOfItsDefinition) {
  const int64_t T = 5, d = 3;
  for (const RecurrentCell kind : {RecurrentCell::elman, RecurrentCell::lstm, RecurrentCell::gru}) {
    const int64_t G = kernels::gates_of(kind);
    const Tensor x = kit::normal({T, G * d}, DType::f64, 1), w = kit::normal({d, G * d}, DType::f64, 2, 0.5),
                 b = kit::normal({G * d}, DType::f64, 3);
    const Tensor y = recurrent(kind, x, w, b, Sequences::single(T)).value();
    std::vector<double> h(size_t(d), 0.0), c(size_t(d), 0.0);
    for (int64_t t = 0; t < T; ++t) {
      const std::vector<double> old = h;
      for (int64_t j = 0; j < d; ++j) {
        const auto given = [&](int64_t part) { return value_at(x, t * G * d + part * d + j); };
        const auto product = [&](int64_t part) {
          double sum = value_at(b, part * d + j);
          for (int64_t i = 0; i < d; ++i) sum += old[size_t(i)] * value_at(w, i * G * d + part * d + j);
          return sum;
        };
        double& cell = c[size_t(j)];
        if (kind == RecurrentCell::elman) h[size_t(j)] = std::tanh(given(0) + product(0));
        if (kind == RecurrentCell::lstm) {
          cell = logistic(given(1) + product(1)) * cell +
                 logistic(given(0) + product(0)) * std::tanh(given(2) + product(2));
          h[size_t(j)] = logistic(given(3) + product(3)) * std::tanh(cell);
        }
        if (kind == RecurrentCell::gru) {
          const double r = logistic(given(0) + product(0)), z = logistic(given(1) + product(1));
          h[size_t(j)] = (1 - z) * std::tanh(given(2) + r * product(2)) + z * old[size_t(j)];
        }
        EXPECT_NEAR(value_at(y, t * d + j), h[size_t(j)], 1e-13);
      }
    }
  }
}

// oracle: rnn.lstm, rnn.gru
TEST(Recurrent, GatesKeepWhatTheyShould) {
  const int64_t d = 2;
  const Tensor none = zeros({d, 4 * d}, DType::f64), x = zeros({3, 4 * d}, DType::f64);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t j = 0; j < d; ++j) {
      set_value(x, t * 4 * d + j, -1e3);     // nothing in,
      set_value(x, t * 4 * d + d + j, 1e3);  // all kept,
      set_value(x, t * 4 * d + 3 * d + j, 1e3);
    }
  const std::vector<Tensor> cell{kit::tensor_f64({2 * d}, {0, 0, .3, -.7})};
  recurrent(RecurrentCell::lstm, x, none, {}, Sequences::single(3), cell);
  EXPECT_EQ(value_at(cell[0], 2), .3);
  EXPECT_EQ(value_at(cell[0], 3), -.7);
  const Tensor update = zeros({3, 3 * d}, DType::f64);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t j = 0; j < d; ++j) set_value(update, t * 3 * d + d + j, 1e3);
  const std::vector<Tensor> hidden{kit::tensor_f64({d}, {.4, -.2})};
  const Tensor y =
      recurrent(RecurrentCell::gru, update, zeros({d, 3 * d}, DType::f64), {}, Sequences::single(3), hidden).value();
  for (int64_t t = 0; t < 3; ++t) EXPECT_EQ(value_at(y, t * d), .4);
}

TEST(Recurrent, BatchMatesAndStatesChangeNoBit) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const RecurrentCell kind : kCells) {
      const int64_t d = 24, G = kernels::gates_of(kind);
      std::vector<int64_t> offsets{0};
      for (int64_t b = 0; b < 40; ++b) offsets.push_back(offsets.back() + 1 + b % 7);
      const Tensor x = kit::normal({offsets.back(), G * d}, type, 1), w = kit::normal({d, G * d}, type, 2, 0.2);
      const Tensor all = recurrent(kind, x, w, {}, Sequences(offsets)).value();
      for (const int64_t b : {0, 6, 39}) {
        const int64_t from = offsets[size_t(b)], to = offsets[size_t(b) + 1];
        const Tensor mine = clone(x.slice(from, to));
        EXPECT_EQ(kit::bit_difference(recurrent(kind, mine, w, {}, Sequences::single(to - from)).value(),
                                      clone(all.slice(from, to))),
                  "");
        const std::vector<Tensor> state{zeros({recurrent_state(kind, d)}, DType::f32)};
        for (int64_t t = 0; t < to - from; ++t)
          EXPECT_EQ(kit::bit_difference(
                        recurrent(kind, clone(mine.slice(t, t + 1)), w, {}, Sequences({0, 1}, {t}), state).value(),
                        clone(all.slice(from + t, from + t + 1))),
                    "");
      }
    }
}

}  // namespace
}  // namespace lithe
