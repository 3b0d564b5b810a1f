#include "lithe/data/task_batches.h"

#include <algorithm>
#include <map>
#include <set>

#include "lithe/base/token_code.h"
#include "tests/data/files_for_tests.h"
#include "tests/data/store_kit.h"

namespace lithe {
namespace {

const Tokenizer& words() {
  static const auto tokenizer = make_tokenizer({.type = "words"}, {});
  return *tokenizer;
}

Ids ids(const std::string& text) { return {text.begin(), text.end()}; }

Ids framed(const std::string& text) {
  Ids out{kEnd};
  for (const char c : text) out.push_back(c);
  out.push_back(kEnd);
  return out;
}

Example sentence(const std::string& text, int32_t label) { return {.text = text, .label = label}; }

Example question(const std::string& asked, const std::string& context, const std::vector<std::string>& answers) {
  Example e{.text = asked, .pair = context, .has_pair = true};
  for (const std::string& a : answers) e.answers.push_back({a, int64_t(context.find(a))});
  return e;
}

Ids tokens_of(const Batch& batch, int64_t b) {
  return {batch.tokens.begin() + batch.offsets[size_t(b)] * batch.token_width,
          batch.tokens.begin() + batch.offsets[size_t(b + 1)] * batch.token_width};
}

TEST(TaskBatches, SentencesAreFramedAndKeepTheirOrder) {
  const TaskBatches batches({sentence("ab", 2), sentence("", 0), sentence("cde", 1)}, TaskType::classification,
                            *bytes(), 8, 16, 1, false);
  ASSERT_EQ(batches.batches_per_epoch(), 2);
  const Batch first = batches.batch(0, 0), second = batches.batch(0, 1);
  EXPECT_EQ(first.offsets, (std::vector<int64_t>{0, 4, 6}));
  EXPECT_EQ(tokens_of(first, 0), framed("ab"));
  EXPECT_EQ(tokens_of(first, 1), framed(""));
  EXPECT_EQ(first.labels, (Ids{2, 0}));
  EXPECT_EQ(second.offsets, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(second.labels, Ids{1});
  EXPECT_EQ(batches.batch(9, 0), first);  // every epoch the same
  EXPECT_EQ(batches.largest_batch(), 5 + 4);
  EXPECT_EQ(batches.cut(), 0);
  EXPECT_FALSE(batches.shuffled());
}

TEST(TaskBatches, PairsStandBesideEachOther) {
  Example pair = sentence("ab", 0);
  pair.pair = "c";
  pair.has_pair = true;
  Example empty = sentence("d", 1);
  empty.has_pair = true;  // an empty second text is one
  const TaskBatches batches({pair, empty, sentence("e", 1)}, TaskType::classification, *bytes(), 8, 64, 1, false);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(tokens_of(batch, 0), (Ids{kEnd, 'a', 'b', kEnd, 'c', kEnd}));
  EXPECT_EQ(tokens_of(batch, 1), (Ids{kEnd, 'd', kEnd, kEnd}));
  EXPECT_EQ(tokens_of(batch, 2), (Ids{kEnd, 'e', kEnd}));
}

TEST(TaskBatches, LongTextsAreCutAndCounted) {
  Example pair = sentence("abcdefgh", 0);
  pair.pair = "xy";
  pair.has_pair = true;
  for (const Tokenizer* tokenizer : {&*bytes(), &words()}) {
    const bool codes = tokenizer->width() > 1;
    Example one = sentence(codes ? "a b c d e f g h" : "abcdefgh", 0), two = one;
    two.pair = codes ? "x y" : "xy";
    two.has_pair = true;
    const TaskBatches batches({one, two, sentence("ab", 0)}, TaskType::classification, *tokenizer, 6, 60, 1, false);
    EXPECT_EQ(batches.cut(), 2);
    for (const TaskSequence& s : batches.sequences()) {
      EXPECT_LE(s.rows, 6);
      EXPECT_EQ(int64_t(s.tokens.size()), s.rows * tokenizer->width());
    }
    EXPECT_EQ(batches.batch(0, 0).token_width, tokenizer->width());
    EXPECT_EQ(batches.batch(0, 0).rows(), int64_t(batches.batch(0, 0).tokens.size()) / tokenizer->width());
  }
}

TEST(TaskBatches, ARegressionHasValues) {
  std::vector<Example> examples(3);
  for (size_t i = 0; i < 3; ++i) examples[i].text = std::string(i + 1, 'x'), examples[i].value = 0.5 * double(i) - 1;
  const Batch batch = TaskBatches(examples, TaskType::regression, *bytes(), 8, 64, 1, false).batch(0, 0);
  EXPECT_EQ(batch.values, (std::vector<float>{-1, -0.5, 0}));
  EXPECT_TRUE(batch.labels.empty());
}

// ---- the order

// oracle: data.batch_pad
TEST(TaskBatches, ShufflingGivesEveryExampleOnceAnEpoch) {
  std::vector<Example> examples;
  for (int32_t i = 0; i < 23; ++i) examples.push_back(sentence(std::string(size_t(i % 5), char('a' + i)), i));
  const TaskBatches a(examples, TaskType::classification, *bytes(), 8, 40, 3, true),
      b(examples, TaskType::classification, *bytes(), 8, 40, 3, true),
      other(examples, TaskType::classification, *bytes(), 8, 40, 4, true),
      in_order(examples, TaskType::classification, *bytes(), 8, 40, 3, false);
  EXPECT_TRUE(a.shuffled());
  ASSERT_EQ(a.batches_per_epoch(), 5);  // of five sequences each, the last of three
  std::vector<Ids> orders;
  for (const TaskBatches* batches : {&a, &other, &in_order})
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      Ids order;
      for (int64_t i = 0; i < 5; ++i) {
        const Batch batch = batches->batch(epoch, i);
        EXPECT_EQ(batch.sequences(), i < 4 ? 5 : 3);
        EXPECT_LE(batch.rows(), batches->largest_batch());
        for (int64_t s = 0; s < batch.sequences(); ++s) {
          // Rows go where their label goes.
          const int32_t label = batch.labels[size_t(s)];
          EXPECT_EQ(tokens_of(batch, s), framed(examples[size_t(label)].text));
          order.push_back(label);
        }
        if (batches == &a) {
          EXPECT_EQ(batch, b.batch(epoch, i));
        }
      }
      orders.push_back(order);
      std::sort(order.begin(), order.end());
      for (int32_t i = 0; i < 23; ++i) EXPECT_EQ(order[size_t(i)], i);
    }
  EXPECT_EQ(std::set<Ids>(orders.begin(), orders.end()).size(), 4u + 4 + 1);  // in order: always the same
}

TEST(TaskBatches, TheShuffleIsUniform) {
  std::vector<Example> examples;
  for (int32_t i = 0; i < 8; ++i) examples.push_back(sentence("x", i));
  const TaskBatches batches(examples, TaskType::classification, *bytes(), 8, 64, 3, true);
  std::vector<int> places(8);
  const int epochs = 4000;
  for (int64_t e = 0; e < epochs; ++e) {
    const Ids labels = batches.batch(e, 0).labels;
    ++places[size_t(std::find(labels.begin(), labels.end(), 0) - labels.begin())];
  }
  double chi_squared = 0;
  for (const int count : places) chi_squared += (count - epochs / 8.0) * (count - epochs / 8.0) / (epochs / 8.0);
  EXPECT_LT(chi_squared, 24.3);  // 99.9 % point of chi squared with 7 degrees of freedom
}

TEST(TaskBatches, BatchesHoldAtLeastOneSequence) {
  const TaskBatches batches({sentence("abc", 0), sentence("d", 1)}, TaskType::classification, *bytes(), 8, 3, 1, false);
  EXPECT_EQ(batches.batches_per_epoch(), 2);
  EXPECT_EQ(batches.batch(0, 0).sequences(), 1);
}

TEST(TaskBatches, FingerprintTellsDataApart) {
  const auto print = [](std::vector<Example> examples, TaskType type) {
    return TaskBatches(std::move(examples), type, *bytes(), 16, 64, 1, false).fingerprint();
  };
  const auto one = [&](const std::string& text, int32_t label) {
    return print({sentence(text, label)}, TaskType::classification);
  };
  EXPECT_EQ(one("ab", 1), one("ab", 1));
  EXPECT_NE(one("ab", 1), one("ab", 0));
  EXPECT_NE(one("ab", 1), one("ac", 1));
  Example a{.text = "x", .value = 1}, b{.text = "x", .value = 2};
  EXPECT_NE(print({a}, TaskType::regression), print({b}, TaskType::regression));
  Example t{.words = {"a", "b"}, .tags = {0, 1}}, u = t;
  u.tags = {1, 1};
  EXPECT_NE(print({t}, TaskType::tagging), print({u}, TaskType::tagging));
  EXPECT_NE(print({question("q", "a b", {"a"})}, TaskType::span), print({question("q", "a b", {"b"})}, TaskType::span));
}

// ---- transcriptions

TEST(TaskBatches, TranscriptionsHaveLabelsOfTheirOwnLengths) {
  const Example e{.text = "abcd", .tags = {2, 0}}, f{.text = "x"}, g{.text = "yz", .tags = {1, 1, 1, 1, 1}};
  const TaskBatches batches({e, f, g}, TaskType::transcription, *bytes(), 16, 64, 1, false);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(tokens_of(batch, 2), framed("yz"));
  EXPECT_EQ(batch.labels, (Ids{2, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.label_offsets, (std::vector<int64_t>{0, 2, 2, 7}));
}

// ---- words with tags

TEST(TaskBatches, TagsStandOnTheFirstTokensOfWords) {
  const Example e{.words = {"ab", "c", "de"}, .tags = {2, 0, 1}}, f{.words = {"x"}, .tags = {3}};
  const TaskBatches batches({e, f}, TaskType::tagging, *bytes(), 16, 64, 1, false);
  const Batch batch = batches.batch(0, 0);
  // All words but the first follow a space, which is a byte of its own.
  EXPECT_EQ(tokens_of(batch, 0), framed("ab c de"));
  EXPECT_EQ(tokens_of(batch, 1), framed("x"));
  EXPECT_EQ(batch.labels, (Ids{-1, 2, -1, 0, -1, 1, -1, -1, -1, -1, 3, -1}));
  EXPECT_EQ(batches.sequences()[0].words, (std::vector<int64_t>{1, 3, 5}));
}

TEST(TaskBatches, TagsOfWordsWithCodes) {
  const Example e{.words = {"one", "two", "..."}, .tags = {2, 0, 1}};
  const TaskBatches batches({e}, TaskType::tagging, words(), 16, 64, 1, false);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.rows(), 5);
  EXPECT_EQ(batch.labels, (Ids{-1, 2, 0, 1, -1}));
}

TEST(TaskBatches, WordsThatDoNotFitOrHaveNoTokensHaveNoRow) {
  const Example e{.words = {"ab", "cd", "ef"}, .tags = {2, 0, 1}};
  const TaskBatches cut({e}, TaskType::tagging, *bytes(), 7, 64, 1, false);
  EXPECT_EQ(cut.cut(), 1);
  EXPECT_EQ(tokens_of(cut.batch(0, 0), 0), framed("ab cd"));
  EXPECT_EQ(cut.sequences()[0].words, (std::vector<int64_t>{1, 3, -1}));
  // One byte less: the second word's first token is there, which is where its tag stands.
  const TaskBatches shorter({e}, TaskType::tagging, *bytes(), 5, 64, 1, false);
  EXPECT_EQ(shorter.sequences()[0].words, (std::vector<int64_t>{1, 3, -1}));

  // The last five of eight bytes: the space before the second word, which its tag stands on, is gone.
  const TaskBatches last({e}, TaskType::tagging, *bytes(), 7, 64, 1, false, {.truncation = {.keep = "last"}});
  EXPECT_EQ(tokens_of(last.batch(0, 0), 0), framed("cd ef"));
  EXPECT_EQ(last.sequences()[0].words, (std::vector<int64_t>{-1, -1, 3}));
  const TaskBatches ends({e}, TaskType::tagging, *bytes(), 7, 64, 1, false, {.truncation = {.keep = "ends"}});
  EXPECT_EQ(tokens_of(ends.batch(0, 0), 0), framed("ab ef"));
  EXPECT_EQ(ends.sequences()[0].words, (std::vector<int64_t>{1, 3, -1}));

  const Example gap{.words = {"", "cd"}, .tags = {1, 2}};
  const TaskBatches batches({gap}, TaskType::tagging, *bytes(), 16, 64, 1, false);
  EXPECT_EQ(batches.sequences()[0].words, (std::vector<int64_t>{-1, 1}));
  EXPECT_EQ(batches.batch(0, 0).labels, (Ids{-1, 2, -1, -1, -1}));
}

// ---- questions

TEST(TaskBatches, AnAnswerIsTheRowsOfItsWords) {
  const TaskBatches batches(
      {question("q?", "one two three", {"two three"}), question("q?", "one two", {}), question("why", "x  yz.", {"y"})},
      TaskType::span, *bytes(), 32, 96, 1, false);
  const Batch batch = batches.batch(0, 0);
  ASSERT_EQ(batch.sequences(), 3);
  // [end] q ? [end] o n e _ t w o _ t h r e e [end]: " two" is rows 7 to 10, its space included.
  EXPECT_EQ(tokens_of(batch, 0), [] {
    Ids want = framed("q?");
    for (const int32_t id : ids("one two three")) want.push_back(id);
    want.push_back(kEnd);
    return want;
  }());
  EXPECT_EQ(batch.labels, (Ids{7, 0, 6, 16, 0, 9}));  // begins, then ends; 0 and 0: none
  const TaskSequence& s = batches.sequences()[0];
  EXPECT_EQ(s.row_of_word, 4);
  ASSERT_EQ(s.pieces.size(), 13u);
  EXPECT_EQ(s.pieces[0].text, "one");
  EXPECT_EQ(s.pieces[3].text, "two");
  EXPECT_EQ(s.pieces[3].begin, 4);
  EXPECT_EQ(s.pieces[12].text, "three");
  EXPECT_EQ(s.pieces[12].begin, 8);
}

// Where a context is read in parts, each row of it is in one, each whole answer not longer than half a part too.
TEST(TaskBatches, LongContextsAreDividedIntoOverlappingParts) {
  std::string context;
  for (int i = 0; i < 30; ++i) context += cat(i ? " " : "", "w", 100 + i);
  for (const Tokenizer* tokenizer : {&*bytes(), &words()}) {
    const int64_t length = tokenizer->width() == 1 ? 40 : 13;
    for (int i = 0; i < 30; ++i) {
      const std::string word = cat("w", 100 + i);
      const TaskBatches batches({question("where", context, {word})}, TaskType::span, *tokenizer, length, 400, 1,
                                false);
      EXPECT_GT(batches.sequences().size(), 2u);
      EXPECT_EQ(batches.cut(), 0);
      std::set<std::string> seen;
      int found = 0;
      for (const TaskSequence& s : batches.sequences()) {
        EXPECT_EQ(s.example, 0);
        EXPECT_LE(s.rows, length);
        EXPECT_EQ(int64_t(s.tokens.size()), s.rows * tokenizer->width());
        for (const Answer& piece : s.pieces) {
          seen.insert(piece.text);
          EXPECT_EQ(context.substr(size_t(piece.begin), piece.text.size()), piece.text);
        }
        if (s.begin_row == 0) {
          EXPECT_EQ(s.end_row, 0);
          continue;
        }
        ++found;
        for (int64_t row = s.begin_row; row <= s.end_row; ++row)
          EXPECT_EQ(s.pieces[size_t(row - s.row_of_word)].text, word);
      }
      EXPECT_EQ(seen.size(), 30u);
      EXPECT_GE(found, 1) << word;
      EXPECT_LE(found, 2) << word;  // parts overlap by half
    }
  }
}

TEST(TaskBatches, AnEmptyContextHasNoAnswer) {
  const TaskBatches batches({question("q", "", {}), question("q", "  ", {})}, TaskType::span, *bytes(), 16, 64, 1,
                            false);
  ASSERT_EQ(batches.sequences().size(), 2u);
  for (const TaskSequence& s : batches.sequences()) EXPECT_TRUE(s.pieces.empty());
  EXPECT_EQ(batches.batch(0, 0).labels, (Ids{0, 0, 0, 0}));
}

TEST(TaskBatches, RefusesWhatCannotBe) {
  expect_error([] { TaskBatches({}, TaskType::classification, *bytes(), 8, 64, 1, false); }, {"no examples"},
               ExitCode::usage);
  expect_error([] { TaskBatches({question("a long question", "x", {})}, TaskType::span, *bytes(), 16, 64, 1, false); },
               {"a question of 15 tokens leaves no room", "raise data.sequence_length"}, ExitCode::usage);
  const TaskBatches batches({sentence("a", 0)}, TaskType::classification, *bytes(), 8, 64, 1, false);
  expect_error([&] { batches.batch(0, 1); }, {"batch 1 of epoch 0 does not exist; an epoch has 1"});
  expect_error([&] { batches.batch(-1, 0); }, {"batch 0 of epoch -1 does not exist"});
  Example nothing = sentence("", 0);
  nothing.place = "list.tsv:3";
  expect_error(
      [&] {
        TaskBatches({nothing}, TaskType::classification, *make_tokenizer({.type = "none", .specials = {"[PAD]"}}, {}),
                    8, 64, 1, false);
      },
      {"list.tsv:3 has neither text nor features"});
  // Shorter than the specials around every text.
  expect_error([] { TaskBatches({sentence("a", 0)}, TaskType::classification, *bytes(), 1, 64, 1, false); },
               {"max_tokens 1 is below the 2 special tokens"});
}

TEST(TaskBatches, SecondTextsAreSegmentsOfTheirOwn) {
  const Example pair{.text = "ab", .pair = "c", .has_pair = true}, single{.text = "defg"};
  const TaskBatches batches({single, pair, single, question("q", "word", {"word"})}, TaskType::classification, *bytes(),
                            16, 64, 1, false);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.offsets, (std::vector<int64_t>{0, 6, 12, 18, 26}));
  Ids want(26, 0);
  std::fill(want.begin() + 10, want.begin() + 12, 1);  // bos a b eos | c eos
  std::fill(want.begin() + 21, want.end(), 1);         // bos q eos | w o r d eos
  EXPECT_EQ(batch.columns.at("token_type_ids"), want);
  const TaskBatches without({single, single}, TaskType::classification, *bytes(), 16, 64, 1, false);
  EXPECT_TRUE(without.batch(0, 0).columns.empty());
  const TaskBatches asked({question("q", "word", {"word"})}, TaskType::span, *bytes(), 16, 64, 1, false);
  EXPECT_EQ(asked.batch(0, 0).columns.at("token_type_ids"), (Ids{0, 0, 0, 1, 1, 1, 1, 1}));
}

// "3 0.5": three rows of two numbers, 0.5 and the row; augmented, the epoch and the example instead.
class CountedRows final : public FeatureReader {
 public:
  explicit CountedRows(double mix_up = 0) : mix_up_(mix_up) {}
  int64_t width() const override { return 2; }
  int64_t most_rows(const std::string& reference) const override { return std::stoll(reference); }
  int64_t read(const std::string& reference, const FeatureDraw& draw, std::vector<float>& out) const override {
    const int64_t rows = std::stoll(reference);
    const float value = std::stof(reference.substr(reference.find(' ')));
    for (int64_t r = 0; r < rows; ++r) {
      out.push_back(draw.augment && mix_up_ == 0 ? float(draw.epoch) : value);
      out.push_back(draw.augment && mix_up_ == 0 ? float(draw.example) : float(r));
    }
    return rows;
  }
  double mix_up() const override { return mix_up_; }
  uint64_t fingerprint() const override { return 1; }

 private:
  double mix_up_;
};

TaskReading counted_rows(double mix_up = 0) { return {.features = {{"image", std::make_shared<CountedRows>(mix_up)}}}; }

Example pictured(const std::string& text, const std::string& reference, int32_t label) {
  Example e = sentence(text, label);
  if (!reference.empty()) e.features["image"] = reference;
  return e;
}

TEST(TaskBatches, FeaturesStandBehindTheirTextAndMissingOnesNowhere) {
  const TaskBatches batches({pictured("ab", "3 0.5", 1), pictured("c", "", 0), pictured("", "1 2", 1)},
                            TaskType::classification, *bytes(), 8, 64, 1, false, counted_rows());
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.offsets, (std::vector<int64_t>{0, 7, 10, 13}));
  const Batch::Guests& image = batch.modalities.at("image");
  EXPECT_EQ(image.token_width, 3);
  EXPECT_EQ(image.rows, (std::vector<int64_t>{4, 5, 6, 12}));
  EXPECT_EQ(std::vector<int32_t>(image.tokens.begin() + 3, image.tokens.begin() + 6),
            (Ids{code_ordinary, code_of_number(0.5f), code_of_number(1)}));
  EXPECT_EQ(batches.largest_batch(), 13);
  expect_error(
      [] {
        TaskBatches({pictured("a", "9 1", 0)}, TaskType::classification, *bytes(), 8, 64, 1, false, counted_rows());
      },
      {"9 rows", "sequence_length is 8"}, ExitCode::usage);
  expect_error([] { TaskBatches({pictured("a", "1 1", 0)}, TaskType::classification, *bytes(), 8, 64, 1, false); },
               {"modality image", "data.image"}, ExitCode::usage);
  const TaskBatches nan({pictured("a", "1 nan", 0)}, TaskType::classification, *bytes(), 8, 64, 1, false,
                        counted_rows());
  expect_error([&] { nan.batch(0, 0); }, {"not finite"});
}

TEST(TaskBatches, OnlyTrainingIsAugmentedByEpochAndExample) {
  std::vector<Example> examples;
  for (int i = 0; i < 6; ++i) examples.push_back(pictured("", "1 7", i % 2));
  const TaskBatches batches(examples, TaskType::classification, *bytes(), 8, 16, 3, true, counted_rows());
  std::set<float> seen;
  for (int64_t k = 0; k < 3; ++k) {
    const Batch batch = batches.batch(5, k);
    EXPECT_EQ(batch, batches.batch(5, k));
    for (size_t b = 0; b < 2; ++b) {
      EXPECT_EQ(code_number(batch.modalities.at("image").tokens[3 * b + 1]), 5);
      seen.insert(code_number(batch.modalities.at("image").tokens[3 * b + 2]));
    }
  }
  EXPECT_EQ(seen, (std::set<float>{0, 1, 2, 3, 4, 5}));
}

// The mean of a picture of zeros and one of ones is the share of the ones, and the label is drawn by it.
TEST(TaskBatches, MixUpDrawsTheLabelByTheShares) {
  std::vector<Example> examples;
  for (int i = 0; i < 500; ++i) examples.push_back(pictured("", i % 2 ? "1 1" : "1 0", i % 2));
  const TaskBatches batches(examples, TaskType::classification, *bytes(), 8, 8 * 500, 3, true, counted_rows(1));
  double shares = 0, labels = 0, between = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = batches.batch(epoch, 0);
    EXPECT_EQ(batch, batches.batch(epoch, 0));
    for (size_t b = 0; b < 500; ++b) {
      const float share = code_number(batch.modalities.at("image").tokens[3 * b + 1]);
      shares += (batch.labels[b] ? share : 1 - share);
      labels += batch.labels[b];
      between += share > 0 && share < 1;
    }
  }
  // E[s^2 + (1 - s)^2] = 2/3 for a uniform share of two of unlike classes, 1 for two of one class.
  EXPECT_NEAR(shares / 1e4, 5.0 / 6, 0.02);
  EXPECT_NEAR(labels / 1e4, 0.5, 0.03);
  EXPECT_NEAR(between / 1e4, 0.5, 0.03);
  expect_error(
      [] {
        TaskBatches({pictured("a", "1 1", 0)}, TaskType::classification, *bytes(), 8, 64, 1, true, counted_rows(1));
      },
      {"without text"}, ExitCode::usage);
}

}  // namespace
}  // namespace lithe
