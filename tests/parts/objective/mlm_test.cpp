// What is hidden, how often, and that it is the same when asked again.
#include <cmath>
#include <set>

#include "tests/parts/objective_kit.h"

namespace lithe {
namespace {

// oracle: arch.encoder_only
TEST(Mlm, LabelsAreTheTokensThatStoodThere) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts());
  for (const double share : {0.15, 0.5, 0.001}) {
    const std::string mlm = cat("{type: mlm, mlm_probability: ", share, "}");
    const int64_t wanted = std::max<int64_t>(1, std::llround(share * double(plain.rows())));
    EXPECT_EQ(kit::objective(mlm)->predicted_rows(plain.rows()), wanted);
    const auto source = kit::learning(plain, mlm, tokenizer);
    EXPECT_EQ(source->largest_batch(), plain.rows());
    for (int64_t index = 0; index < 20; ++index) {
      const Batch batch = source->batch(0, index);
      EXPECT_EQ(batch.offsets, plain.offsets);
      ASSERT_EQ(int64_t(batch.predicted.size()), wanted);
      ASSERT_EQ(batch.labels.size(), batch.predicted.size());
      std::set<int64_t> rows;
      for (size_t i = 0; i < batch.predicted.size(); ++i) {
        const int64_t row = batch.predicted[i];
        EXPECT_TRUE(rows.insert(row).second) << "row " << row << " twice";
        EXPECT_EQ(batch.labels[i], plain.tokens[size_t(row)]);
        EXPECT_FALSE(kit::special(*tokenizer, plain, row));
      }
      for (int64_t row = 0; row < plain.rows(); ++row) {
        if (rows.count(row)) continue;
        EXPECT_EQ(batch.tokens[size_t(row)], plain.tokens[size_t(row)]);
      }
    }
  }
}

TEST(Mlm, EightyTenTen) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts());
  const int64_t ordinary = kit::ordinary_tokens(*tokenizer);
  for (const bool whole : {false, true}) {
    const auto source =
        kit::learning(plain, cat("{type: mlm, whole_word_mask: ", whole ? "true" : "false", "}"), tokenizer);
    int64_t all = 0, masked = 0, kept = 0, random = 0;
    for (int64_t index = 0; index < 1500; ++index) {
      const Batch batch = source->batch(index % 3, index);
      for (size_t i = 0; i < batch.predicted.size(); ++i) {
        if (batch.labels[i] < 0) continue;
        const int32_t shown = batch.tokens[size_t(batch.predicted[i])];
        ++all;
        masked += shown == *tokenizer->specials().mask;
        kept += shown == batch.labels[i];
        random += shown != *tokenizer->specials().mask && shown != batch.labels[i];
        EXPECT_TRUE(shown == *tokenizer->specials().mask || !tokenizer->is_special(shown));
      }
    }
    ASSERT_GE(all, 29000);
    const double same = 0.1 / double(ordinary);  // a random token may be the one that stood there
    kit::expect_share(masked, all, 0.8, "masked");
    kit::expect_share(kept, all, 0.1 + same, "kept");
    kit::expect_share(random, all, 0.1 - same, "random");
  }
}

TEST(Mlm, EveryOrdinaryRowIsPredictedEquallyOften) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts());
  const auto source = kit::learning(plain, "mlm", tokenizer);
  std::vector<int64_t> seen(size_t(plain.rows()));
  const int64_t batches = 4000;
  for (int64_t index = 0; index < batches; ++index)
    for (const int64_t row : source->batch(0, index).predicted) ++seen[size_t(row)];
  int64_t ordinary = 0;
  for (int64_t row = 0; row < plain.rows(); ++row) ordinary += !kit::special(*tokenizer, plain, row);
  const double p = double(kit::objective("mlm")->predicted_rows(plain.rows())) / double(ordinary);
  // Chi squared of rows drawn without replacement has about `ordinary - 1` degrees of freedom.
  double chi_squared = 0;
  for (int64_t row = 0; row < plain.rows(); ++row)
    if (!kit::special(*tokenizer, plain, row))
      chi_squared += std::pow(double(seen[size_t(row)]) - p * batches, 2) / (p * (1 - p) * batches);
  EXPECT_NEAR(chi_squared, double(ordinary - 1), 4 * std::sqrt(2.0 * double(ordinary - 1)));
}

TEST(Mlm, TokensOfAWordAreHiddenTogether) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts());
  const auto source = kit::learning(plain, "{type: mlm, whole_word_mask: true}", tokenizer);
  int64_t long_words = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const Batch batch = source->batch(0, index);
    std::set<int64_t> rows;
    for (size_t i = 0; i < batch.predicted.size(); ++i)
      if (batch.labels[i] >= 0) rows.insert(batch.predicted[i]);
    EXPECT_EQ(int64_t(batch.predicted.size()), kit::objective("mlm")->predicted_rows(plain.rows()));
    for (int64_t b = 0; b < plain.sequences(); ++b)
      for (int64_t row = plain.offsets[size_t(b)] + 1; row < plain.offsets[size_t(b + 1)]; ++row) {
        if (kit::special(*tokenizer, plain, row) || kit::special(*tokenizer, plain, row - 1)) continue;
        if (!tokenizer->continues_word(plain.tokens[size_t(row)])) continue;
        EXPECT_EQ(rows.count(row), rows.count(row - 1)) << "row " << row << " of batch " << index;
        long_words += int64_t(rows.count(row));
      }
  }
  EXPECT_GT(long_words, 200);  // some words do have several pieces
}

// Weights of earlier runs hang on them.
TEST(Mlm, TheDrawsStayWhatTheyAre) {
  const auto tokenizer = kit::pieces();
  const Batch batch = kit::learning(kit::framed(*tokenizer, kit::some_texts()), "mlm", tokenizer)->batch(3, 5);
  uint64_t sum = checksum(batch.tokens.data(), batch.tokens.size() * sizeof(int32_t));
  sum = checksum(batch.labels.data(), batch.labels.size() * sizeof(int32_t), sum);
  EXPECT_EQ(checksum(batch.predicted.data(), batch.predicted.size() * sizeof(int64_t), sum), 2436864400149637133u);
}

TEST(Mlm, NewInEveryEpochAndTheSameWhenAskedAgain) { kit::expect_new_and_repeatable("mlm"); }

TEST(Mlm, ABatchOfSpecialsHasRowsWithoutALabel) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, {"", "", "", ""});
  const Batch batch = kit::learning(plain, "mlm", tokenizer)->batch(0, 0);
  EXPECT_EQ(batch.tokens, plain.tokens);
  EXPECT_EQ(batch.predicted, std::vector<int64_t>{0});
  EXPECT_EQ(batch.labels, kit::Ids{-1});
}

TEST(Mlm, RefusesModelsAndTokenizersThatItCannotTrain) {
  const auto bytes = make_byte_tokenizer();
  const auto bits = kit::words("md5", "bits"), wordpiece = kit::pieces();
  EXPECT_EQ(kit::refusal("mlm", "{architecture: encoder, head: mlm}", {*wordpiece}), "no error");
  EXPECT_EQ(kit::refusal("mlm", "{architecture: encoder, head: lm}", {*wordpiece}), "no error");
  kit::expect_refused("mlm", "{head: mlm}", {*wordpiece}, "needs model.architecture encoder");
  kit::expect_refused("mlm", "{architecture: encoder, head: mlm}", {*bytes}, "a mask token");
  kit::expect_refused("mlm", "{architecture: encoder, head: mlm}", {*bits}, "these tokens have none");
  kit::expect_refused("mlm", "{architecture: encoder, head: classify}", {*wordpiece}, "needs model.head mlm or lm");
}

TEST(Mlm, PredictsAVocabularyButNotTheNextToken) {
  const auto mlm = kit::objective("mlm");
  EXPECT_TRUE(mlm->predicts_vocabulary());
  EXPECT_FALSE(mlm->predicts_next());
  EXPECT_EQ(mlm->learns_from(), Lessons::text);
}

}  // namespace
}  // namespace lithe
