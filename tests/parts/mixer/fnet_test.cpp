#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor mixed(const Tensor& x, const Sequences& sequences) {
  kit::Bench bench;
  const auto part = bench.make<Mixer>("fnet", {.hidden_size = x.cols(), .max_position_embeddings = 9, .causal = false});
  EXPECT_EQ(bench.parameters().count(), 0);
  return part->forward({Var(x), sequences, nullptr}).value();
}
Tensor mixed(const Tensor& x) { return mixed(x, Sequences::single(x.rows())); }

// oracle: mixer.fnet
TEST(FNet, WorkedExample) {
  EXPECT_EQ(kit::close(mixed(kit::tensor_f64({2, 2}, {1, 2, 3, 4})), kit::tensor_f64({2, 2}, {10, -2, -4, 0}), 16), "");
}

TEST(FNet, IsTheRealPartOfTheTransformOverBothAxes) {
  const int64_t T = 5, d = 6;
  const Tensor x = kit::normal({T, d}, DType::f64, 1), got = mixed(x);
  Tensor want = zeros({T, d}, DType::f64);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t c = 0; c < d; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < T; ++s)
        for (int64_t e = 0; e < d; ++e)
          sum += value_at(x, s * d + e) *
                 std::cos(2 * std::numbers::pi * (double(t * s) / double(T) + double(c * e) / double(d)));
      set_value(want, t * d + c, sum);
    }
  EXPECT_EQ(kit::close(got, want, 256), "");
}

TEST(FNet, SequencesDoNotMeetAndAreTransformedAtTheirOwnLength) {
  const Tensor x = kit::normal({7, 4}, DType::f64, 2), packed = mixed(x, Sequences({0, 4, 7}));
  EXPECT_EQ(kit::close(clone(packed.slice(0, 4)), mixed(clone(x.slice(0, 4))), 16), "");
  EXPECT_EQ(kit::close(clone(packed.slice(4, 7)), mixed(clone(x.slice(4, 7))), 16), "");
}

TEST(FNet, ACausalModelRefusesIt) {
  try {
    kit::Bench().make<Mixer>("fnet", {.hidden_size = 4, .causal = true});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lithe
