// Translations: which models they train.
#include "tests/parts/objective_kit.h"

namespace lithe {
namespace {

TEST(Seq2Seq, NeedsAnEncoderDecoderThatPredictsWords) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(kit::refusal("seq2seq", "{architecture: encoder_decoder}", {*bytes}), "no error");
  kit::expect_refused("seq2seq", "{}", {*bytes}, "needs model.architecture encoder_decoder, not decoder");
  kit::expect_refused("seq2seq", "{architecture: encoder_decoder, head: tag}", {*bytes}, "needs model.head lm");
}

TEST(Seq2Seq, LearnsFromTranslationsAndPredictsWords) {
  const auto objective = kit::objective("seq2seq");
  EXPECT_EQ(objective->learns_from(), Lessons::translation);
  EXPECT_TRUE(objective->predicts_vocabulary());
  EXPECT_FALSE(objective->predicts_next());  // of a text, without a source
  EXPECT_EQ(objective->predicted_rows(8), 0);
}

}  // namespace
}  // namespace lithe
