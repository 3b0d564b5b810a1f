// Runs every check on every registered part; a new part needs no line here.
#include <gtest/gtest.h>

#include "lithe/base/threads.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

std::string name_of(const testing::TestParamInfo<PartCase>& info) {
  std::string name = info.param.slot + "_" + info.param.name + (info.param.model.empty() ? "" : "_" + info.param.model);
  for (const char c : info.param.options == "{}" ? "" : info.param.options) {  // "{mode: diag}" as _mode_diag_
    const bool word = std::isalnum(static_cast<unsigned char>(c));
    if (word || name.back() != '_') name += word ? c : '_';
  }
  return name;
}

class OneThread : public testing::Environment {
 public:
  void SetUp() override { set_threads(1); }  // the models are tiny
};
[[maybe_unused]] const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new OneThread);

// ---- every part

class Part : public testing::TestWithParam<PartCase> {
 protected:
  PartInfo info() const { return GetParam().info(); }
};
INSTANTIATE_TEST_SUITE_P(Conformance, Part, testing::ValuesIn(all_parts()), name_of);

TEST_P(Part, GradientsAgreeWithDifferences) {
  if (info().causal) {
    EXPECT_EQ(check_gradients_alone(GetParam()), "");
  }
}

TEST_P(Part, NoParameterIsIdle) { EXPECT_EQ(check_no_idle_parameters(GetParam()), ""); }

TEST_P(Part, ASliceOfTheModelIsTheMaskedModel) { EXPECT_EQ(check_slices(GetParam()), ""); }

// oracle: share.attn_map
TEST_P(Part, ALayerAboveHasItsMap) { EXPECT_EQ(check_borrowed_map(GetParam()), ""); }

TEST_P(Part, OptionsAreStrictAndDescribed) { EXPECT_EQ(check_options(GetParam()), ""); }

// A small model that does not suit the part is refused as wrong usage when it is built (refusal() checks that); one
// suits.
TEST_P(Part, TakesASmallModelAndRefusesOthersWithAReason) {
  std::string refusals;
  size_t taken = 0;
  for (const std::string& model : small_models()) {
    const std::string why = refusal(placed(GetParam(), model));
    taken += why.empty();
    refusals += why + "\n";
  }
  if (info().causal) {
    EXPECT_GE(taken, 1u) << refusals;
  } else {
    EXPECT_EQ(taken, 0u) << GetParam() << " has no causal form, but a decoder takes it";
  }
}

class BidirectionalPart : public testing::TestWithParam<PartCase> {};
INSTANTIATE_TEST_SUITE_P(Conformance, BidirectionalPart, testing::ValuesIn(bidirectional_parts()), name_of);

TEST_P(BidirectionalPart, SeesWhatFollows) { EXPECT_EQ(check_bidirectional(GetParam()), ""); }
TEST_P(BidirectionalPart, GradientsAgreeWithDifferences) { EXPECT_EQ(check_gradients_alone(GetParam(), false), ""); }

// ---- every part that has a cross form, and every one that might

class MixingPart : public testing::TestWithParam<PartCase> {};
INSTANTIATE_TEST_SUITE_P(Conformance, MixingPart, testing::ValuesIn(mixing_parts()), name_of);

TEST_P(MixingPart, SkippingLeavesTheStateOfRunning) { EXPECT_EQ(check_skipping(GetParam()), ""); }
TEST_P(MixingPart, HasACrossFormOrSaysTheRemedy) { EXPECT_EQ(check_cross_refusal(GetParam()), ""); }

class CrossPart : public testing::TestWithParam<PartCase> {};
INSTANTIATE_TEST_SUITE_P(Conformance, CrossPart, testing::ValuesIn(cross_parts()), name_of);

// oracle: mixer.cross
TEST_P(CrossPart, GradientsAgreeWithDifferences) { EXPECT_EQ(check_cross_gradients(GetParam()), ""); }
TEST_P(CrossPart, EveryRowSeesItsWholeSourceAndNothingElse) { EXPECT_EQ(check_cross_sight(GetParam()), ""); }
TEST_P(CrossPart, TheSourcesOrderDoesNotMatter) { EXPECT_EQ(check_cross_order(GetParam()), ""); }
TEST_P(CrossPart, ReadingOneRowOrOneselfIsSimple) { EXPECT_EQ(check_cross_identities(GetParam()), ""); }
TEST_P(CrossPart, TheStateGivesTheWholesRows) { EXPECT_EQ(check_cross_state(GetParam()), ""); }

// ---- every part in every small model that it takes; those with a cross form also in encoder-decoders

class PlacedPart : public testing::TestWithParam<PartCase> {};
INSTANTIATE_TEST_SUITE_P(Conformance, PlacedPart, testing::ValuesIn(placed_parts()), name_of);
INSTANTIATE_TEST_SUITE_P(EncoderDecoder, PlacedPart, testing::ValuesIn(placed_cross_parts()), name_of);

TEST_P(PlacedPart, GradientsAgreeWithDifferences) { EXPECT_EQ(check_gradients_in_model(GetParam()), ""); }
TEST_P(PlacedPart, NothingFlowsBackInTime) { EXPECT_EQ(check_causality(GetParam()), ""); }
TEST_P(PlacedPart, SequencesDoNotMeet) { EXPECT_EQ(check_batch_independence(GetParam()), ""); }
TEST_P(PlacedPart, DecodingGivesTheWholeSequencesRows) {
  for (DType compute : {DType::f64, DType::f32, DType::bf16})
    EXPECT_EQ(check_decoding(GetParam(), compute), "") << compute;
}
TEST_P(PlacedPart, DecodingTogetherIsDecodingAlone) {
  for (DType compute : {DType::f64, DType::f32, DType::bf16})
    EXPECT_EQ(check_decoding_together(GetParam(), compute), "") << compute;
}
TEST_P(PlacedPart, PackedWeightsGiveTheSameBits) {
  for (DType compute : {DType::f32, DType::bf16}) EXPECT_EQ(check_packed(GetParam(), compute), "") << compute;
}
TEST_P(PlacedPart, AdaptersLearnOverIntegers) { EXPECT_EQ(check_adapters_over_integers(GetParam()), ""); }
TEST_P(PlacedPart, StatesCanBeReordered) { EXPECT_EQ(check_reordering(GetParam()), ""); }
TEST_P(PlacedPart, StatesCanBeTruncated) { EXPECT_EQ(check_truncation(GetParam()), ""); }
TEST_P(PlacedPart, StatesCanBeSaved) { EXPECT_EQ(check_saved_states(GetParam()), ""); }
TEST_P(PlacedPart, StatesUnderATapeHaveGradientsOrAreRefused) { EXPECT_EQ(check_states_on_tape(GetParam()), ""); }
TEST_P(PlacedPart, StateBytesAreTheFormulas) { EXPECT_EQ(check_state_bytes(GetParam()), ""); }
TEST_P(PlacedPart, MetaRunIsTheRealRun) { EXPECT_EQ(check_meta_run(GetParam()), ""); }
TEST_P(PlacedPart, FilesKeepEveryBit) { EXPECT_EQ(check_files(GetParam()), ""); }
TEST_P(PlacedPart, RunsAreReproducible) { EXPECT_EQ(check_determinism(GetParam()), ""); }
TEST_P(PlacedPart, KernelsAgreeWithTheReference) {
  for (DType compute : {DType::f32, DType::bf16}) EXPECT_EQ(check_kernels(GetParam(), compute), "") << compute;
}

}  // namespace
}  // namespace lithe::conformance
