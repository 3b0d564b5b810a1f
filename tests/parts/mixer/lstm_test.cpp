#include <gtest/gtest.h>

#include "tests/parts/mixer/recurrent_mixer_kit.h"

namespace lithe {
namespace {

// oracle: rnn.lstm
TEST(LstmMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  for (const int64_t d : {5, 8, 12}) {
    kit::Bench two, one;
    EXPECT_EQ(recurrent_mixer("lstm", two, d)->state_bytes({3, 4}, DType::bf16), 2 * (2 * d) * 4);
    recurrent_mixer("lstm", one, d, "{two_biases: false}");
    EXPECT_EQ(two.parameters().count(), 8 * d * d + 8 * d);
    EXPECT_EQ(one.parameters().count(), 8 * d * d + 4 * d);
  }
  kit::Bench wide(DType::f32, DType::f32, Device::meta);
  recurrent_mixer("lstm", wide, 512);
  EXPECT_EQ(wide.parameters().count(), 2101248);
  kit::Bench fresh;
  recurrent_mixer("lstm", fresh, 4);  // the forget gate's bias starts as 1
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(value_at(fresh["part.rows.bias"], i), i / 4 == 1);
}

TEST(LstmMixer, BothDirectionsAreTwoLayersJoined) { expect_two_layers_joined("lstm"); }

}  // namespace
}  // namespace lithe
