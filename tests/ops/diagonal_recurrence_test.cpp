#include "lithe/ops/diagonal_recurrence.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(DiagonalRecurrence, Gradients) {
  const Sequences sequences({0, 4, 5, 9});
  for (const bool complex : {false, true})
    for (const Shape& shape : {Shape{6}, Shape{9, 6}})
      kit::expect_gradients(
          [&](const std::vector<Var>& in) { return diagonal_recurrence(in[0], in[1], in[2], sequences, complex); },
          {kit::normal({9, 6}, DType::f64, 1), kit::normal(shape, DType::f64, 2, 0.4),
           kit::normal({6}, DType::f64, 3)});
}

}  // namespace
}  // namespace lithe
