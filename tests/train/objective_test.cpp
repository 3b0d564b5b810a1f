// What is hidden, shuffled and replaced, how often, and that it is the same when asked again.
#include "lithe/train/objective.h"

#include <cmath>
#include <set>

#include "tests/train/run_kit.h"

namespace lithe {
namespace {

using Ids = std::vector<int32_t>;

// One batch, whatever is asked for.
class Always : public BatchSource {
 public:
  explicit Always(Batch batch) : batch_(std::move(batch)) {}
  int64_t batches_per_epoch() const override { return 1 << 20; }
  int64_t largest_batch() const override { return batch_.rows(); }
  Batch batch(int64_t, int64_t) const override { return batch_; }

 private:
  Batch batch_;
};

// Lower-case word pieces with the specials of BERT, so that some words have several.
std::shared_ptr<const Tokenizer> pieces() {
  WordPieceTrainer trainer({.vocab_size = 50});
  trainer.add(kit::small_text(3000));
  return trainer.train();
}

std::shared_ptr<const Tokenizer> words(const char* hash, const char* code, int64_t buckets = 0) {
  TokenizerConfig config{.type = "words"};
  config.words.hash = hash;
  config.words.code = code;
  if (buckets) config.words.num_buckets = buckets;
  return make_tokenizer(config, {});
}

TrainConfig train_config(const std::string& objective) {
  TrainConfig config;
  config.objective = objective;
  return config;
}

std::unique_ptr<BatchSource> learning(const Batch& batch, const TrainConfig& config,
                                      std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed = 1) {
  return with_objective(std::make_unique<Always>(batch), config, std::move(tokenizer), seed);
}

// Sequences of these texts, framed by the tokenizer's specials.
Batch framed(const Tokenizer& tokenizer, const std::vector<std::string>& texts, bool frame = true) {
  Batch batch{.offsets = {0}, .token_width = tokenizer.width()};
  const Specials& s = tokenizer.specials();
  const auto special = [&](std::optional<int32_t> id) {
    if (!frame || !id) return;
    batch.tokens.push_back(*id);
    batch.tokens.resize(batch.tokens.size() + size_t(tokenizer.width()) - 1);
  };
  for (const std::string& text : texts) {
    special(s.cls ? s.cls : s.bos);
    const Ids ids = tokenizer.encode(text);
    batch.tokens.insert(batch.tokens.end(), ids.begin(), ids.end());
    special(s.sep ? s.sep : s.eos);
    batch.offsets.push_back(int64_t(batch.tokens.size()) / tokenizer.width());
  }
  return batch;
}

Ids token(const Batch& batch, int64_t row) {
  const auto width = batch.token_width;
  return {batch.tokens.begin() + row * width, batch.tokens.begin() + (row + 1) * width};
}

bool special(const Tokenizer& tokenizer, const Batch& batch, int64_t row) {
  return tokenizer.is_special(batch.tokens[size_t(row * batch.token_width)]);
}

// `seen` of `all` independent trials that succeed with probability p, within four standard errors.
void expect_share(int64_t seen, int64_t all, double p, const std::string& what) {
  EXPECT_NEAR(double(seen) / double(all), p, 4 * std::sqrt(p * (1 - p) / double(all))) << what << " of " << all;
}

const std::vector<std::string> kTexts{kit::small_text(300, 1), kit::small_text(200, 2), kit::small_text(20, 3)};

// ---- mlm

// oracle: arch.encoder_only
TEST(Mlm, LabelsAreTheTokensThatStoodThere) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts);
  TrainConfig config = train_config("mlm");
  for (const double share : {0.15, 0.5, 0.001}) {
    config.mlm_probability = share;
    const int64_t wanted = std::max<int64_t>(1, std::llround(share * double(plain.rows())));
    EXPECT_EQ(mlm_predictions(config, plain.rows()), wanted);
    const auto source = learning(plain, config, tokenizer);
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
        EXPECT_FALSE(special(*tokenizer, plain, row));
      }
      for (int64_t row = 0; row < plain.rows(); ++row) {
        if (rows.count(row)) continue;
        EXPECT_EQ(batch.tokens[size_t(row)], plain.tokens[size_t(row)]);
      }
    }
  }
}

TEST(Mlm, EightyTenTen) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts);
  int64_t ordinary = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
    ordinary += !tokenizer->is_special(id) && !tokenizer->token(id).empty();
  for (const bool whole : {false, true}) {
    TrainConfig config = train_config("mlm");
    config.whole_word_mask = whole;
    const auto source = learning(plain, config, tokenizer);
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
    expect_share(masked, all, 0.8, "masked");
    expect_share(kept, all, 0.1 + same, "kept");
    expect_share(random, all, 0.1 - same, "random");
  }
}

TEST(Mlm, EveryOrdinaryRowIsPredictedEquallyOften) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts);
  const TrainConfig config = train_config("mlm");
  const auto source = learning(plain, config, tokenizer);
  std::vector<int64_t> seen(size_t(plain.rows()));
  const int64_t batches = 4000;
  for (int64_t index = 0; index < batches; ++index)
    for (const int64_t row : source->batch(0, index).predicted) ++seen[size_t(row)];
  int64_t ordinary = 0;
  for (int64_t row = 0; row < plain.rows(); ++row) ordinary += !special(*tokenizer, plain, row);
  const double p = double(mlm_predictions(config, plain.rows())) / double(ordinary);
  // Chi squared of rows drawn without replacement has about `ordinary - 1` degrees of freedom.
  double chi_squared = 0;
  for (int64_t row = 0; row < plain.rows(); ++row)
    if (!special(*tokenizer, plain, row))
      chi_squared += std::pow(double(seen[size_t(row)]) - p * batches, 2) / (p * (1 - p) * batches);
  EXPECT_NEAR(chi_squared, double(ordinary - 1), 4 * std::sqrt(2.0 * double(ordinary - 1)));
}

TEST(Mlm, TokensOfAWordAreHiddenTogether) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts);
  TrainConfig config = train_config("mlm");
  config.whole_word_mask = true;
  const auto source = learning(plain, config, tokenizer);
  int64_t long_words = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const Batch batch = source->batch(0, index);
    std::set<int64_t> rows;
    for (size_t i = 0; i < batch.predicted.size(); ++i)
      if (batch.labels[i] >= 0) rows.insert(batch.predicted[i]);
    EXPECT_EQ(int64_t(batch.predicted.size()), mlm_predictions(config, plain.rows()));
    for (int64_t b = 0; b < plain.sequences(); ++b)
      for (int64_t row = plain.offsets[size_t(b)] + 1; row < plain.offsets[size_t(b + 1)]; ++row) {
        if (special(*tokenizer, plain, row) || special(*tokenizer, plain, row - 1)) continue;
        if (!tokenizer->continues_word(plain.tokens[size_t(row)])) continue;
        EXPECT_EQ(rows.count(row), rows.count(row - 1)) << "row " << row << " of batch " << index;
        long_words += int64_t(rows.count(row));
      }
  }
  EXPECT_GT(long_words, 200);  // some words do have several pieces
}

TEST(Mlm, NewInEveryEpochAndTheSameWhenAskedAgain) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts);
  for (const char* objective : {"mlm", "shuffle_random"}) {
    const TrainConfig config = train_config(objective);
    const auto a = learning(plain, config, tokenizer), b = learning(plain, config, tokenizer),
               other = learning(plain, config, tokenizer, 2);
    EXPECT_EQ(a->batch(3, 5), b->batch(3, 5));
    EXPECT_EQ(a->batch(3, 5), a->batch(3, 5));
    EXPECT_NE(a->batch(3, 5), a->batch(4, 5));
    EXPECT_NE(a->batch(3, 5), a->batch(3, 6));
    EXPECT_NE(a->batch(3, 5), other->batch(3, 5));
    // No epoch of one seed is an epoch of another.
    for (int64_t epoch = 0; epoch < 8; ++epoch) EXPECT_NE(a->batch(epoch, 0), other->batch(1, 0)) << epoch;
  }
}

TEST(Mlm, ABatchOfSpecialsHasRowsWithoutALabel) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, {"", "", "", ""});
  const Batch batch = learning(plain, train_config("mlm"), tokenizer)->batch(0, 0);
  EXPECT_EQ(batch.tokens, plain.tokens);
  EXPECT_EQ(batch.predicted, std::vector<int64_t>{0});
  EXPECT_EQ(batch.labels, Ids{-1});
}

// ---- shuffle_random

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
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts, false);
  const Labels labels = count_labels(*learning(plain, train_config("shuffle_random"), tokenizer), 400);
  EXPECT_EQ(labels.none, 0);
  expect_share(labels.of[0], labels.all, 0.81, "intact");
  expect_share(labels.of[1], labels.all, 0.10, "shuffled");
  expect_share(labels.of[2], labels.all, 0.09, "random");
}

TEST(ShuffleRandom, SpecialsAreNeverAlteredAndHaveNoLabel) {
  const auto bits = words("md5", "bits");
  for (const auto& tokenizer : {pieces(), bits}) {
    const Batch plain = framed(*tokenizer, kTexts);
    TrainConfig config = train_config("shuffle_random");
    config.shuffle_probability = 0.5;
    config.random_probability = 0.5;
    const auto source = learning(plain, config, tokenizer);
    for (int64_t index = 0; index < 50; ++index) {
      const Batch batch = source->batch(0, index);
      EXPECT_TRUE(batch.predicted.empty());
      ASSERT_EQ(int64_t(batch.labels.size()), plain.rows());
      for (int64_t row = 0; row < plain.rows(); ++row) {
        EXPECT_EQ(batch.labels[size_t(row)] < 0, special(*tokenizer, plain, row)) << row;
        if (special(*tokenizer, plain, row)) {
          EXPECT_EQ(token(batch, row), token(plain, row));
        } else {
          EXPECT_FALSE(special(*tokenizer, batch, row)) << "a special moved to row " << row;
        }
        if (batch.labels[size_t(row)] == 0) {
          EXPECT_EQ(token(batch, row), token(plain, row));
        }
      }
    }
  }
}

// A place whose partner is a special stays as it is, and says so.
TEST(ShuffleRandom, TokensThatWouldBecomeSpecialsStayIntact) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, {kit::small_text(20, 3)});
  TrainConfig config = train_config("shuffle_random");
  config.shuffle_probability = 1;
  config.random_probability = 1;
  const Labels labels = count_labels(*learning(plain, config, tokenizer), 3000);
  EXPECT_EQ(labels.of[2], 0);
  // Of n rows two are specials. In one batch the partners are one permutation: each is drawn without replacement, which
  // varies less than the independent draws of the bound.
  expect_share(labels.of[0], labels.all, 2.0 / double(plain.rows()), "left intact");
}

TEST(ShuffleRandom, TheFullPermutationKeepsEachSequencesTokens) {
  const auto bits = words("md5", "bits");
  for (const auto& tokenizer : {pieces(), bits}) {
    const Batch plain = framed(*tokenizer, kTexts, false);
    TrainConfig config = train_config("shuffle_random");
    config.shuffle_probability = 1;
    const auto source = learning(plain, config, tokenizer);
    int64_t moved = 0;
    for (int64_t index = 0; index < 20; ++index) {
      const Batch batch = source->batch(0, index);
      EXPECT_EQ(batch.labels, Ids(size_t(plain.rows()), 1));  // also where a token met itself
      for (int64_t b = 0; b < plain.sequences(); ++b) {
        std::multiset<Ids> before, after;
        for (int64_t row = plain.offsets[size_t(b)]; row < plain.offsets[size_t(b + 1)]; ++row) {
          before.insert(token(plain, row));
          after.insert(token(batch, row));
          moved += token(plain, row) != token(batch, row);
        }
        EXPECT_EQ(before, after) << "sequence " << b;
      }
    }
    EXPECT_GT(moved, 20 * plain.rows() / 2);
  }
}

TEST(ShuffleRandom, RandomIdsAreUniformOverOrdinaryTokens) {
  const auto tokenizer = pieces();
  const Batch plain = framed(*tokenizer, kTexts, false);
  TrainConfig config = train_config("shuffle_random");
  config.shuffle_probability = 0;
  config.random_probability = 1;
  const auto source = learning(plain, config, tokenizer);
  std::map<int32_t, int64_t> seen;
  int64_t all = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const Batch batch = source->batch(0, index);
    EXPECT_EQ(batch.labels, Ids(size_t(plain.rows()), 2));
    for (const int32_t id : batch.tokens) ++seen[id], ++all;
  }
  int64_t ordinary = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
    ordinary += !tokenizer->is_special(id) && !tokenizer->token(id).empty();
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
  TrainConfig config = train_config("shuffle_random");
  config.shuffle_probability = 0;
  config.random_probability = 1;
  for (const auto& tokenizer : {words("md5", "bits"), words("md5", "bucket", 11)}) {
    const Batch plain = framed(*tokenizer, kTexts, false);
    const auto source = learning(plain, config, tokenizer);
    const TokenCode code = tokenizer->code();
    std::vector<int64_t> ones(size_t(code.payload == TokenCode::Payload::bits ? code.size : 0));
    std::set<int32_t> buckets;
    int64_t all = 0;
    for (int64_t index = 0; index < 100; ++index) {
      const Batch batch = source->batch(0, index);
      for (int64_t row = 0; row < plain.rows(); ++row, ++all) {
        const Ids t = token(batch, row);
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
    for (size_t j = 0; j < ones.size(); ++j) expect_share(ones[j], all, 0.5, cat("bit ", j));
    if (ones.empty()) {
      EXPECT_EQ(int64_t(buckets.size()), code.size);
    }
  }
}

// Characters have no range to draw from: one of the batch's stands in.
TEST(ShuffleRandom, RandomCharactersAreOnesOfTheBatch) {
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer({.type = "characters"}, {});
  const Batch plain = framed(*tokenizer, {"abcd", "efgh", "i"});
  TrainConfig config = train_config("shuffle_random");
  config.shuffle_probability = 0;
  config.random_probability = 1;
  const auto source = learning(plain, config, tokenizer);
  std::map<int32_t, int64_t> seen;
  int64_t all = 0;
  for (int64_t index = 0; index < 2000; ++index) {
    const Batch batch = source->batch(0, index);
    for (int64_t row = 0; row < plain.rows(); ++row) {
      if (special(*tokenizer, plain, row)) continue;
      EXPECT_EQ(batch.labels[size_t(row)], 2);
      ASSERT_EQ(token(batch, row)[0], code_ordinary);
      if (row == 1) ++seen[token(batch, row)[1]], ++all;
    }
  }
  ASSERT_EQ(seen.size(), 9u);
  for (const auto& [character, count] : seen) expect_share(count, all, 1.0 / 9, cat("character ", character));
}

// ---- what an objective needs

std::string refusal(const std::string& train, const std::string& model, const Tokenizer& tokenizer) {
  TrainConfig config;
  read_fields(parse_yaml(train, "train"), "train", [&](Fields& f) { config.fields(f); });
  ModelConfig m = read_model_config(parse_yaml(model, "model"));
  return kit::coded_error_of([&] { prepare_for_objective(config, tokenizer, m); });
}

TEST(Objective, RefusesModelsAndTokenizersThatItCannotTrain) {
  const auto bytes = make_byte_tokenizer();
  const auto bits = words("md5", "bits");
  const auto wordpiece = pieces();
  const auto expect = [&](const std::string& train, const std::string& model, const Tokenizer& tokenizer,
                          const std::string& says) {
    const std::string error = refusal(train, model, tokenizer);
    EXPECT_EQ(error.substr(0, 2), says == "no error" ? "no" : "2 ") << train << " " << model << ": " << error;
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  expect("{}", "{}", *bytes, "no error");
  expect("{}", "{architecture: encoder}", *bytes, "needs architecture decoder");
  expect("{}", "{}", *bits, "these tokens have none");
  expect("{}", "{head: tag}", *bytes, "needs model.head lm");
  expect("{objective: mlm}", "{architecture: encoder, head: mlm}", *wordpiece, "no error");
  expect("{objective: mlm}", "{architecture: encoder, head: lm}", *wordpiece, "no error");
  expect("{objective: mlm}", "{head: mlm}", *wordpiece, "needs model.architecture encoder");
  expect("{objective: mlm}", "{architecture: encoder, head: mlm}", *bytes, "a mask token");
  expect("{objective: mlm}", "{architecture: encoder, head: mlm}", *bits, "these tokens have none");
  expect("{objective: mlm}", "{architecture: encoder, head: classify}", *wordpiece, "needs model.head mlm or lm");
  expect("{objective: shuffle_random}", "{architecture: encoder, head: tag}", *bits, "no error");
  expect("{objective: shuffle_random}", "{architecture: encoder, head: tag, num_labels: 3}", *bytes, "no error");
  expect("{objective: shuffle_random}", "{head: tag}", *bits, "needs model.architecture encoder");
  expect("{objective: shuffle_random}", "{architecture: encoder, head: mlm}", *bits, "needs model.head {type: tag}");
  expect("{objective: shuffle_random}", "{architecture: encoder, head: tag, num_labels: 4}", *bits,
         "model.num_labels is 4");
}

// An option of another objective would change nothing.
TEST(Objective, WholeWordsAreForMaskingOnly) {
  EXPECT_NE(refusal("{whole_word_mask: true}", "{}", *make_byte_tokenizer()).find("whole_word_mask"),
            std::string::npos);
  EXPECT_NE(refusal("{objective: shuffle_random, whole_word_mask: true}", "{architecture: encoder, head: tag}",
                    *words("md5", "bits"))
                .find("whole_word_mask"),
            std::string::npos);
}

TEST(Objective, ShuffleRandomTellsThreeClassesApart) {
  ModelConfig model = read_model_config(parse_yaml("{architecture: encoder, head: tag}", "model"));
  prepare_for_objective(train_config("shuffle_random"), *make_byte_tokenizer(), model);
  EXPECT_EQ(model.num_labels, 3);
}

}  // namespace
}  // namespace lithe
