#include "lithe/parts/common/reference_attention.h"

#include <gtest/gtest.h>

#include "tests/parts/mixer/fixed_maps_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

constexpr int64_t kVocabulary = 19;

Tensor tokens(const std::vector<Tensor>& parts) {
  std::vector<int> ids;
  for (const Tensor& part : parts)
    for (const double id : kit::values(part)) ids.push_back(int(id));
  return kit::ids_of(ids);
}

// Both mixers that stand on it.
class ReferenceAttentionTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> model = three_layers_of(with_reference(GetParam()));

  Tensor whole(const Tensor& ids) const { return kit::forward(*model, ids, Sequences::single(ids.numel())).value(); }
  // Rows of these tokens behind what the state has, one a sequence.
  Tensor step(DecodeState& state, const Tensor& ids) const {
    return kit::forward(*model, ids, model->continue_sequences(state, std::vector<int64_t>(size_t(ids.numel()), 1)),
                        &state)
        .value();
  }
};

TEST_P(ReferenceAttentionTest, DecodesAsItReads) {
  const Tensor ids = kit::random_ids(9, kVocabulary, 3), want = whole(ids);
  const auto state = model->make_state(1, 9);
  for (int64_t i = 0; i < 9; ++i)
    EXPECT_EQ(kit::close(step(*state, ids.slice(i, i + 1)), want.slice(i, i + 1), 512), "") << i;
}

// Sequences that change places, double or go back keep their own values; the reference's keys are of none of them.
TEST_P(ReferenceAttentionTest, SequencesContinueOthersAndGoBack) {
  const Tensor a = kit::random_ids(6, kVocabulary, 1), b = kit::random_ids(6, kVocabulary, 2);
  const auto state = model->make_state(2, 9);
  for (int64_t i = 0; i < 5; ++i) step(*state, tokens({a.slice(i, i + 1), b.slice(i, i + 1)}));
  state->reorder({1, 0, 1});
  const Tensor three = tokens({b.slice(5, 6), a.slice(5, 6), a.slice(5, 6)}), got = step(*state, three);
  EXPECT_EQ(kit::close(got.slice(0, 1), whole(b).slice(5, 6), 512), "");
  EXPECT_EQ(kit::close(got.slice(1, 2), whole(a).slice(5, 6), 512), "");
  EXPECT_EQ(kit::close(got.slice(2, 3), whole(tokens({b.slice(0, 5), a.slice(5, 6)})).slice(5, 6), 512), "");
  ASSERT_TRUE(state->truncates());
  for (int64_t sequence = 0; sequence < 3; ++sequence) state->truncate(sequence, 5);
  EXPECT_EQ(kit::bit_difference(step(*state, three), got), "");
}

TEST_P(ReferenceAttentionTest, ASavedStateGoesOn) {
  const Tensor ids = kit::random_ids(7, kVocabulary, 4);
  const auto state = model->make_state(1, 9), again = model->make_state(1, 9);
  for (int64_t i = 0; i < 6; ++i) step(*state, ids.slice(i, i + 1));
  again->restore(state->save());
  EXPECT_EQ(again->bytes(), state->bytes());
  EXPECT_EQ(kit::bit_difference(step(*again, ids.slice(6, 7)), step(*state, ids.slice(6, 7))), "");
}

TEST_P(ReferenceAttentionTest, RefusesMoreTokensThanTheReference) {
  kit::Bench bench;
  const auto mixer =
      bench.make<Mixer>(GetParam(), {.hidden_size = 6, .max_position_embeddings = 9}, "{num_attention_heads: 3}");
  const Tensor reference = kit::normal({4, 6}, DType::f64, 1), x = kit::normal({5, 6}, DType::f64, 2);
  Pass outer;
  outer.set_references({Var(reference)});
  const Pass pass = outer.within(0), alone;
  const auto state = mixer->make_state({.sequences = 1, .capacity = 9, .dtype = DType::f64});
  const Sequences five = Sequences::single(5);
  EXPECT_EQ(kit::error_of([&] {
              mixer->forward({Var(x), five, state.get(), pass});
            }),
            "attention: a sequence of 5 tokens is longer than the reference sequence of 4");
  EXPECT_NE(kit::error_of([&] {
              mixer->forward({Var(x), five, state.get(), alone});
            }).find("needs its rows"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Mixers, ReferenceAttentionTest, testing::Values("rnd_emb_qk", "fixed_seq_qk"));

}  // namespace
}  // namespace lithe
