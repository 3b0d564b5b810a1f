#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/parts/mixer/fixed_maps_kit.h"

namespace lithe {
namespace {

const std::string kFixedSeq = with_reference("fixed_seq_qk");

// oracle: decon.fixedseqqk
TEST(FixedSeqQk, MapsAreTheSameForAnyText) { expect_the_same_maps_for_any_text(*three_layers_of(kFixedSeq)); }

TEST(FixedSeqQk, IsLinearInTheValues) { expect_linear_in_the_values("fixed_seq_qk"); }

TEST(FixedSeqQk, CountsParametersAndState) { expect_state_of_one_copy_of_keys("fixed_seq_qk"); }

TEST(FixedSeqQk, QueriesAndKeysLearnThroughTheReference) { expect_learning_through_the_reference("fixed_seq_qk"); }

// The strongest oracle: the fixed sequence itself as the text is the standard model.
TEST(FixedSeqQk, TheFixedSequenceAsTextIsAttention) {
  for (const char* architecture : {"decoder", "encoder"}) {
    const std::vector<int> ids{3, 1, 18, 0, 7, 7, 2, 11, 4};
    const auto fixed = three_layers_of(
                   "{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [3, 1, 18, 0, 7, 7, 2, 11, 4]}", false,
                   architecture),
               standard = three_layers_of("{type: attention, num_attention_heads: 3}", false, architecture);
    kit::copy_values(fixed->parameters(), standard->parameters());
    const Sequences sequences = Sequences::single(9);
    EXPECT_EQ(kit::close(kit::forward(*fixed, kit::ids_of(ids), sequences).value(),
                         kit::forward(*standard, kit::ids_of(ids), sequences).value(), 256),
              "");
    EXPECT_GT(kit::largest_difference(kit::forward(*fixed, kit::ids_of({1, 2, 3}), Sequences::single(3)).value(),
                                      kit::forward(*standard, kit::ids_of({1, 2, 3}), Sequences::single(3)).value()),
              1e-3);
  }
}

// An encoder's reference is whole whatever the batch; a text reads the maps among its first rows.
TEST(FixedSeqQk, AnEncodersMapsAreThoseOfTheLengthForAnyText) {
  const auto m = three_layers_of(kFixedSeq, false, "encoder");
  const auto a = kit::maps(*m, kit::random_ids(7, 19, 3)), b = kit::maps(*m, kit::random_ids(7, 19, 4));
  for (size_t layer = 0; layer < 3; ++layer) EXPECT_EQ(kit::bit_difference(a[layer].weights, b[layer].weights), "");
  EXPECT_THROW(kit::forward(*m, kit::random_ids(10, 19, 3), Sequences::single(10)), Error);
}

// Rows of the table that only the fixed sequence names have a gradient.
TEST(FixedSeqQk, TheTableLearnsFromTheFixedSequence) {
  const auto m =
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [5, 6, 5, 6, 5, 6, 5, 6, 5]}", true);
  Tape tape;
  tape.backward(sum(kit::forward(*m, kit::ids_of({1, 2, 3}), Sequences::single(3))));
  const Tensor g = m->parameters().find("embedding.weight")->master.grad();
  const auto size = [&](int64_t id) {
    double total = 0;
    for (int64_t c = 0; c < g.cols(); ++c) total += std::abs(value_at(g, id * g.cols() + c));
    return total;
  };
  EXPECT_GT(size(5), 0);
  EXPECT_GT(size(1), 0);
  EXPECT_EQ(size(9), 0);
}

TEST(FixedSeqQk, RefusesATextBeyondTheFixedSequenceAndWrongIds) {
  const auto m =
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9]}");
  EXPECT_THROW(kit::forward(*m, kit::random_ids(10, 19, 1), Sequences::single(10)), Error);
  EXPECT_THROW(
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [1, 2, 3, 4, 5, 6, 7, 8, 19]}"),
      Error);
}

}  // namespace
}  // namespace lithe
