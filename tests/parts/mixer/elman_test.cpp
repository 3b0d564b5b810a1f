#include <gtest/gtest.h>

#include "tests/parts/mixer/recurrent_mixer_kit.h"

namespace lithe {
namespace {

// oracle: rnn.elman
TEST(ElmanMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  for (const int64_t d : {5, 8, 12}) {
    kit::Bench two, one;
    EXPECT_EQ(recurrent_mixer("elman", two, d)->state_bytes({3, 4}, DType::bf16), 2 * d * 4);
    recurrent_mixer("elman", one, d, "{two_biases: false}");
    EXPECT_EQ(two.parameters().count(), 2 * d * d + 2 * d);
    EXPECT_EQ(one.parameters().count(), 2 * d * d + d);
  }
}

TEST(ElmanMixer, BothDirectionsAreTwoLayersJoined) { expect_two_layers_joined("elman"); }

}  // namespace
}  // namespace lithe
