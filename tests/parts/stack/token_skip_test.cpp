#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Model token_skip_model(const std::string& stack, const std::string& more = "head: classify", bool trainable = false) {
  Model model(kit::model_config(cat("{architecture: encoder, vocab_size: 19, hidden_size: 16, num_hidden_layers: 3, ",
                                    "num_labels: 3, tie_word_embeddings: false, max_position_embeddings: 32, "
                                    "mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu, "
                                    "intermediate_size: 24}, stack: ",
                                    stack, "}"),
                                more),
              ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = trainable});
  kit::randomise(model.parameters(), 6);
  return model;
}

const kit::Batch& token_skip_batch() {
  static const kit::Batch made = kit::random_batch({6, 2, 9}, 19, 2);
  return made;
}

Rows run(const Model& model, const kit::Batch& of) { return kit::run(model, of.ids, of.sequences); }

// oracle: cond.token_skip
TEST(TokenSkip, NothingSkippedIsThePlainModel) {
  const Tensor plain = run(token_skip_model("plain"), token_skip_batch()).x.value();
  for (const char* skipped : {"copy", "drop"})
    EXPECT_EQ(kit::bit_difference(run(token_skip_model(cat("{type: token_skip, threshold: 2, skipped: ", skipped, "}")),
                                      token_skip_batch())
                                      .x.value(),
                                  plain),
              "");
}

// Rows that are skipped come out as they were; the kept ones are what the upper layers make of them alone, with their
// old positions: of a model whose tokens all stand there, the others being dropped.
// oracle: cond.token_skip
TEST(TokenSkip, DroppedTokensLeaveTheUpperLayersAShorterSequence) {
  const Model copy = token_skip_model("{type: token_skip}"),
              drop = token_skip_model("{type: token_skip, skipped: drop}");
  const Rows all = run(copy, token_skip_batch()), kept = run(drop, token_skip_batch());
  ASSERT_LT(kept.sequences.rows(), token_skip_batch().sequences.rows());
  ASSERT_GE(kept.sequences.rows(), token_skip_batch().sequences.count());
  int64_t found = 0;
  for (int64_t r = 0; r < all.x.rows() && found < kept.x.rows(); ++r) {
    bool same = true;
    for (int64_t c = 0; c < 16; ++c)
      same = same && value_at(all.x.value(), r * 16 + c) == value_at(kept.x.value(), found * 16 + c);
    found += same;
  }
  EXPECT_EQ(found, kept.x.rows());
  // Positions: rotary attention sees distances alone, so those of the kept rows must be the old ones.
  Model plain = token_skip_model("plain");
  plain.skip({1, 2}, false);
  int64_t low = 0;
  const Tensor lower = run(plain, token_skip_batch()).x.value();
  for (int64_t r = 0; r < all.x.rows(); ++r) {
    double far = 0;
    for (int64_t c = 0; c < 16; ++c)
      far = std::max(far, std::abs(value_at(all.x.value(), r * 16 + c) - value_at(lower, r * 16 + c)));
    low += far < 1e-12;
  }
  EXPECT_EQ(low, token_skip_batch().sequences.rows() - kept.sequences.rows());  // as many came out of the lower layers
}

// oracle: cond.token_skip
TEST(TokenSkip, AllSkippedKeepsTheFirstAndTheLowerRows) {
  const Model model = token_skip_model("{type: token_skip, threshold: 0}");
  Model plain = token_skip_model("plain");
  plain.skip({1, 2}, false);
  const Tensor got = run(model, token_skip_batch()).x.value(), low = run(plain, token_skip_batch()).x.value();
  const Sequences& s = token_skip_batch().sequences;
  for (int64_t b = 0; b < s.count(); ++b)
    for (int64_t r = s.offset(b) + 1; r < s.offset(b + 1); ++r)
      for (int64_t c = 0; c < 16; ++c) EXPECT_NEAR(value_at(got, r * 16 + c), value_at(low, r * 16 + c), 1e-12);
  const Model none = token_skip_model("{type: token_skip, threshold: 0, keep_first: false, skipped: drop}");
  EXPECT_EQ(run(none, token_skip_batch()).sequences.rows(), s.count());  // one of each
}

// oracle: cond.token_skip
TEST(TokenSkip, SequencesDoNotSeeEachOther) {
  const Model model = token_skip_model("{type: token_skip}");
  const Rows all = run(model, token_skip_batch());
  for (int64_t b = 0; b < 3; ++b) {
    const Tensor alone = run(model, kit::alone(token_skip_batch(), b)).x.value();
    const int64_t begin = token_skip_batch().sequences.offset(b);
    for (int64_t i = 0; i < alone.numel(); ++i)
      EXPECT_NEAR(value_at(alone, i), value_at(all.x.value(), begin * 16 + i), 1e-12);
  }
}

// oracle: cond.token_skip
TEST(TokenSkip, TheClassifierHasItsParametersAndLearns) {
  Model model = token_skip_model("{type: token_skip, after: 2}", "head: classify", true);
  EXPECT_EQ(model.parameters().count(), token_skip_model("plain").parameters().count() + 2 * 16 + 2);
  step_context() = {1, 1};
  {
    Tape tape;
    Pass pass;
    const Rows rows = model.run({token_skip_batch().ids, token_skip_batch().sequences}, pass);
    ASSERT_EQ(pass.losses().count("token_budget"), 1u);
    const Var loss =
        model.loss_of(rows, {}, {.labels = kit::labels_for(model, token_skip_batch())});
    tape.backward(Model::with_losses(loss, pass));
  }
  step_context() = {};
  EXPECT_TRUE(model.parameters().find("stack.skip.weight")->master.grad().defined());
}

TEST(TokenSkip, RefusesDecodersAndHeadsThatMissTokens) {
  EXPECT_EQ(kit::coded_error_of([] { token_skip_model("token_skip", "architecture: decoder, head: lm"); }),
            "2 model: stack token_skip needs rows that see their whole sequence, which architecture decoder does not "
            "have; use it in an encoder, or set model.stack: plain");
  const Model tags = token_skip_model("{type: token_skip, skipped: drop}", "head: tag");
  EXPECT_EQ(kit::coded_error_of([&] { run(tags, token_skip_batch()); }),
            "2 model: head tag predicts for every token, and stack token_skip dropped some of them; set model.stack "
            "skipped: copy, or choose a head that predicts for whole sequences");
  EXPECT_EQ(kit::coded_error_of([] { token_skip_model("{type: token_skip, after: 3}"); }),
            "2 token_skip: after is 3, which leaves no upper layer of 3; choose at most 2");
}

}  // namespace
}  // namespace lithe
