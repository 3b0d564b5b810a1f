#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Mixer> made(kit::Bench& bench, int64_t d, const std::string& options = "{}", bool causal = true) {
  return bench.make<Mixer>("gru", {.hidden_size = d, .max_position_embeddings = 9, .causal = causal}, options);
}

// oracle: rnn.gru
TEST(GruMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  for (const int64_t d : {5, 8, 12}) {
    kit::Bench two, one;
    EXPECT_EQ(made(two, d)->state_bytes({3, 4}, DType::bf16), 2 * d * 4);
    made(one, d, "{two_biases: false}");
    EXPECT_EQ(two.parameters().count(), 6 * d * d + 6 * d);
    EXPECT_EQ(one.parameters().count(), 6 * d * d + 3 * d);
  }
  kit::Bench wide(DType::f32, DType::f32, Device::meta);
  made(wide, 512);
  EXPECT_EQ(wide.parameters().count(), 1575936);
}

TEST(GruMixer, BothDirectionsAreTwoLayersJoined) {
  kit::Bench bench;
  const auto mixer = made(bench, 4, "{}", false);
  kit::randomise(bench.parameters(), 2);
  kit::Bench one;
  const auto onward = made(one, 4);
  const auto direction = [&](const std::string& which, const Tensor& x) {
    for (Parameter& p : one.parameters().all()) copy_into(p.master.value(), bench["part." + which + p.name.substr(4)]);
    return kit::product(onward->forward({Var(x), Sequences::single(5), nullptr}).value(),
                        bench["part.join." + which + ".weight"]);
  };
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> turned{4, 3, 2, 1, 0};
  const Tensor a = direction("onward", x), b = kit::rows_of(direction("backward", kit::rows_of(x, turned)), turned),
               y = mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  for (int64_t i = 0; i < 20; ++i) EXPECT_NEAR(value_at(y, i), value_at(a, i) + value_at(b, i), 1e-13);
}

}  // namespace
}  // namespace lithe
