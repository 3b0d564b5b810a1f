// What is shuffled and replaced, how often, and that it is the same when asked again.
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "tests/parts/objective_kit.h"

namespace lithe {
namespace {

struct Labels {
  std::array<int64_t, 3> of{};
  int64_t none = 0, all = 0;
};

Labels count_labels(const BatchSource& source, int64_t batches) {
  Labels out;
  for (int64_t index = 0; index < batches; ++index)
    for (const int32_t label : source.batch(0, index).labels) {
      ++(label < 0 ? out.none : out.of[size_t(label)]);
      out.all += label >= 0;
    }
  return out;
}

// oracle: train.shuffle_random
TEST(ShuffleRandom, LabelsComeAtTheRatesOfTheSequentialRule) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts(), false);
  const Labels labels = count_labels(*kit::learning(plain, "shuffle_random", tokenizer), 400);
  EXPECT_EQ(labels.none, 0);
  kit::expect_share(labels.of[0], labels.all, 0.81, "intact");
  kit::expect_share(labels.of[1], labels.all, 0.10, "shuffled");
  kit::expect_share(labels.of[2], labels.all, 0.09, "random");
}

TEST(ShuffleRandom, SpecialsAreNeverAlteredAndHaveNoLabel) {
  const auto bits = kit::words("md5", "bits");
  for (const auto& tokenizer : {kit::pieces(), bits}) {
    const Batch plain = kit::framed(*tokenizer, kit::some_texts());
    const std::string objective = "{type: shuffle_random, shuffle_probability: 0.5, random_probability: 0.5}";
    const auto source = kit::learning(plain, objective, tokenizer);
    for (int64_t index = 0; index < 50; ++index) {
      const Batch batch = source->batch(0, index);
      EXPECT_TRUE(batch.predicted.empty());
      ASSERT_EQ(int64_t(batch.labels.size()), plain.rows());
      for (int64_t row = 0; row < plain.rows(); ++row) {
        EXPECT_EQ(batch.labels[size_t(row)] < 0, kit::special(*tokenizer, plain, row)) << row;
        if (kit::special(*tokenizer, plain, row)) {
          EXPECT_EQ(kit::token(batch, row), kit::token(plain, row));
        } else {
          EXPECT_FALSE(kit::special(*tokenizer, batch, row)) << "a special moved to row " << row;
        }
        if (batch.labels[size_t(row)] == 0) {
          EXPECT_EQ(kit::token(batch, row), kit::token(plain, row));
        }
      }
    }
  }
}

// A place whose partner is a special stays as it is, and says so.
TEST(ShuffleRandom, TokensThatWouldBecomeSpecialsStayIntact) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, {kit::small_text(20, 3)});
  const std::string objective = "{type: shuffle_random, shuffle_probability: 1, random_probability: 1}";
  const Labels labels = count_labels(*kit::learning(plain, objective, tokenizer), 3000);
  EXPECT_EQ(labels.of[2], 0);
  // Of n rows two are specials. In one batch the partners are one permutation: each is drawn without replacement, which
  // varies less than the independent draws of the bound.
  kit::expect_share(labels.of[0], labels.all, 2.0 / double(plain.rows()), "left intact");
}

TEST(ShuffleRandom, TheFullPermutationKeepsEachSequencesTokens) {
  const auto bits = kit::words("md5", "bits");
  for (const auto& tokenizer : {kit::pieces(), bits}) {
    const Batch plain = kit::framed(*tokenizer, kit::some_texts(), false);
    const std::string objective = "{type: shuffle_random, shuffle_probability: 1}";
    const auto source = kit::learning(plain, objective, tokenizer);
    int64_t moved = 0;
    for (int64_t index = 0; index < 20; ++index) {
      const Batch batch = source->batch(0, index);
      EXPECT_EQ(batch.labels, kit::Ids(size_t(plain.rows()), 1));  // also where a token met itself
      for (int64_t b = 0; b < plain.sequences(); ++b) {
        std::multiset<kit::Ids> before, after;
        for (int64_t row = plain.offsets[size_t(b)]; row < plain.offsets[size_t(b + 1)]; ++row) {
          before.insert(kit::token(plain, row));
          after.insert(kit::token(batch, row));
          moved += kit::token(plain, row) != kit::token(batch, row);
        }
        EXPECT_EQ(before, after) << "sequence " << b;
      }
    }
    EXPECT_GT(moved, 20 * plain.rows() / 2);
  }
}

TEST(ShuffleRandom, RandomIdsAreUniformOverOrdinaryTokens) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts(), false);
  const std::string objective = "{type: shuffle_random, shuffle_probability: 0, random_probability: 1}";
  const auto source = kit::learning(plain, objective, tokenizer);
  std::map<int32_t, int64_t> seen;
  int64_t all = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const Batch batch = source->batch(0, index);
    EXPECT_EQ(batch.labels, kit::Ids(size_t(plain.rows()), 2));
    for (const int32_t id : batch.tokens) ++seen[id], ++all;
  }
  const int64_t ordinary = kit::ordinary_tokens(*tokenizer);
  EXPECT_EQ(int64_t(seen.size()), ordinary);
  double chi_squared = 0;
  for (const auto& [id, count] : seen) {
    EXPECT_FALSE(tokenizer->is_special(id));
    const double expected = double(all) / double(ordinary);
    chi_squared += std::pow(double(count) - expected, 2) / expected;
  }
  EXPECT_NEAR(chi_squared, double(ordinary - 1), 4 * std::sqrt(2.0 * double(ordinary - 1)));
}

TEST(ShuffleRandom, RandomCodesLieWhereTheirTokenizersDo) {
  const std::string objective = "{type: shuffle_random, shuffle_probability: 0, random_probability: 1}";
  for (const auto& tokenizer : {kit::words("md5", "bits"), kit::words("md5", "bucket", 11)}) {
    const Batch plain = kit::framed(*tokenizer, kit::some_texts(), false);
    const auto source = kit::learning(plain, objective, tokenizer);
    const TokenCode code = tokenizer->code();
    std::vector<int64_t> ones(size_t(code.payload == TokenCode::Payload::bits ? code.size : 0));
    std::set<int32_t> buckets;
    int64_t all = 0;
    for (int64_t index = 0; index < 100; ++index) {
      const Batch batch = source->batch(0, index);
      for (int64_t row = 0; row < plain.rows(); ++row, ++all) {
        const kit::Ids t = kit::token(batch, row);
        EXPECT_EQ(t[0], code_ordinary);
        for (size_t j = 0; j < ones.size(); ++j) ones[j] += code_bit(t.data() + 1, int64_t(j));
        if (ones.empty()) {
          EXPECT_GE(t[1], 0);
          EXPECT_LT(t[1], code.size);
          buckets.insert(t[1]);
        }
      }
    }
    // Of 128 shares one in sixteen thousand lies beyond four standard errors.
    for (size_t j = 0; j < ones.size(); ++j) kit::expect_share(ones[j], all, 0.5, cat("bit ", j));
    if (ones.empty()) {
      EXPECT_EQ(int64_t(buckets.size()), code.size);
    }
  }
}

// Characters have no range to draw from: one of the batch's stands in.
TEST(ShuffleRandom, RandomCharactersAreOnesOfTheBatch) {
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer({.type = "characters"}, {});
  const Batch plain = kit::framed(*tokenizer, {"abcd", "efgh", "i"});
  const std::string objective = "{type: shuffle_random, shuffle_probability: 0, random_probability: 1}";
  const auto source = kit::learning(plain, objective, tokenizer);
  std::map<int32_t, int64_t> seen;
  int64_t all = 0;
  for (int64_t index = 0; index < 2000; ++index) {
    const Batch batch = source->batch(0, index);
    for (int64_t row = 0; row < plain.rows(); ++row) {
      if (kit::special(*tokenizer, plain, row)) continue;
      EXPECT_EQ(batch.labels[size_t(row)], 2);
      ASSERT_EQ(kit::token(batch, row)[0], code_ordinary);
      if (row == 1) ++seen[kit::token(batch, row)[1]], ++all;
    }
  }
  ASSERT_EQ(seen.size(), 9u);
  for (const auto& [character, count] : seen) kit::expect_share(count, all, 1.0 / 9, cat("character ", character));
}

// Weights of earlier runs hang on them.
TEST(ShuffleRandom, TheDrawsStayWhatTheyAre) {
  const auto tokenizer = kit::pieces();
  const Batch batch =
      kit::learning(kit::framed(*tokenizer, kit::some_texts()), "shuffle_random", tokenizer)->batch(3, 5);
  uint64_t sum = checksum(batch.tokens.data(), batch.tokens.size() * sizeof(int32_t));
  sum = checksum(batch.labels.data(), batch.labels.size() * sizeof(int32_t), sum);
  EXPECT_EQ(checksum(batch.predicted.data(), batch.predicted.size() * sizeof(int64_t), sum), 15053571037514431716u);
}

TEST(ShuffleRandom, NewInEveryEpochAndTheSameWhenAskedAgain) { kit::expect_new_and_repeatable("shuffle_random"); }

TEST(ShuffleRandom, RefusesModelsThatItCannotTrain) {
  const auto bytes = make_byte_tokenizer();
  const auto bits = kit::words("md5", "bits");
  EXPECT_EQ(kit::refusal("shuffle_random", "{architecture: encoder, head: tag}", {*bits}), "no error");
  EXPECT_EQ(kit::refusal("shuffle_random", "{architecture: encoder, head: tag, num_labels: 3}", {*bytes}), "no error");
  kit::expect_refused("shuffle_random", "{head: tag}", {*bits}, "needs model.architecture encoder");
  kit::expect_refused("shuffle_random", "{architecture: encoder, head: mlm}", {*bits}, "needs model.head {type: tag}");
  kit::expect_refused("shuffle_random", "{architecture: encoder, head: tag, num_labels: 4}", {*bits},
                      "model.num_labels is 4");
}

// An option of another objective would change nothing.
TEST(ShuffleRandom, WholeWordsAreForMaskingOnly) {
  EXPECT_NE(kit::coded_error_of([] {
              kit::objective("{type: shuffle_random, whole_word_mask: true}");
            }).find("unknown key 'whole_word_mask'"),
            std::string::npos);
}

TEST(ShuffleRandom, TellsThreeClassesApart) {
  ModelConfig model = read_model_config(parse_yaml("{architecture: encoder, head: tag}", "model"));
  kit::objective("shuffle_random")->prepare({*make_byte_tokenizer()}, model);
  EXPECT_EQ(model.num_labels, 3);
}

}  // namespace
}  // namespace lithe
