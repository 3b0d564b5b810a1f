#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Learned {
  kit::Bench bench;
  std::unique_ptr<Position> part = bench.make<Position>("learned", {.hidden_size = 3, .max_position_embeddings = 5});
  Tensor table = bench["part.weight"];
};

TEST(LearnedPositions, AddTheRowOfEachPosition) {
  Learned learned;
  EXPECT_EQ(learned.bench.parameters().count(), 15);
  const Tensor x = kit::normal({6, 3}, DType::f64, 1);
  const Tensor got = learned.part->add_to(Var(x), Sequences({0, 4, 6}, {1, 0})).value();
  EXPECT_EQ(kit::bit_difference(got, kit::sum(x, kit::rows_of(learned.table, {1, 2, 3, 4, 0, 1}))), "");
  EXPECT_FALSE(learned.part->turns());
}

TEST(LearnedPositions, ARowsGradientIsTheSumOverItsOccurrences) {
  Learned learned;
  const Tensor dy = kit::normal({6, 3}, DType::f64, 2);
  {
    Tape tape;
    tape.backward(learned.part->add_to(Var(kit::normal({6, 3}, DType::f64, 1)), Sequences({0, 4, 6})), dy);
  }
  const Tensor got = learned.bench.parameters().find("part.weight")->master.grad();
  const std::vector<std::vector<int64_t>> occurrences{{0, 4}, {1, 5}, {2}, {3}, {}};
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t c = 0; c < 3; ++c) {
      double want = 0;
      for (int64_t n : occurrences[size_t(row)]) want += value_at(dy, n * 3 + c);
      EXPECT_EQ(value_at(got, row * 3 + c), want) << row << " " << c;
    }
}

TEST(LearnedPositions, SequencesLongerThanTheTableAreRefused) {
  const Model model(
      kit::model_config(
          "{vocab_size: 5, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 6, position: learned}"),
      {});
  const auto state = model.make_state(1, 10);
  kit::forward(model, kit::random_ids(5, 5, 1), model.continue_sequences(*state, {5}), state.get());
  try {
    kit::forward(model, kit::random_ids(2, 5, 1), model.continue_sequences(*state, {2}), state.get());
    FAIL() << "took 7 tokens";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model: a sequence of 7 tokens is longer than max_position_embeddings 6; shorten it, or train with "
                 "more positions");
  }
  EXPECT_EQ(state->length(0), 5);  // the refusal came before anything was stored
  EXPECT_EQ(kit::forward(model, kit::random_ids(1, 5, 1), model.continue_sequences(*state, {1}), state.get()).rows(),
            1);
}

}  // namespace
}  // namespace lithe
