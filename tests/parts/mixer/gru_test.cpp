#include <gtest/gtest.h>

#include "tests/parts/mixer/recurrent_mixer_kit.h"

namespace lithe {
namespace {

TEST(GruMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  for (const int64_t d : {5, 8, 12}) {
    kit::Bench two, one;
    EXPECT_EQ(recurrent_mixer("gru", two, d)->state_bytes({3, 4}, DType::bf16), 2 * d * 4);
    recurrent_mixer("gru", one, d, "{two_biases: false}");
    EXPECT_EQ(two.parameters().count(), 6 * d * d + 6 * d);
    EXPECT_EQ(one.parameters().count(), 6 * d * d + 3 * d);
  }
  kit::Bench wide(DType::f32, DType::f32, Device::meta);
  recurrent_mixer("gru", wide, 512);
  EXPECT_EQ(wide.parameters().count(), 1575936);
}

TEST(GruMixer, BothDirectionsAreTwoLayersJoined) { expect_two_layers_joined("gru"); }

}  // namespace
}  // namespace lithe
