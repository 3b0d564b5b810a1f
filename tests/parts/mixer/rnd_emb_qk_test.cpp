#include "tests/parts/mixer/fixed_maps_kit.h"

namespace lithe {
namespace {

const std::string kRndEmb = with_reference("rnd_emb_qk");

// oracle: decon.rndembqk
TEST(RndEmbQk, MapsAreTheSameForAnyText) { expect_the_same_maps_for_any_text(*three_layers_of(kRndEmb)); }

TEST(RndEmbQk, IsLinearInTheValues) { expect_linear_in_the_values("rnd_emb_qk"); }

TEST(RndEmbQk, CountsParametersAndState) { expect_state_of_one_copy_of_keys("rnd_emb_qk"); }

TEST(RndEmbQk, QueriesAndKeysLearnThroughTheReference) { expect_learning_through_the_reference("rnd_emb_qk"); }

}  // namespace
}  // namespace lithe
