#include "lithe/data/synthetic.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lithe/data/examples.h"
#include "lithe/text/tokenizer.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kit::Scratch;

int64_t asked(const SyntheticExample& e) {
  return std::count_if(e.labels.begin(), e.labels.end(), [](const std::string& label) { return !label.empty(); });
}

TEST(Synthetic, KeysAskForTheirValues) {
  const SyntheticConfig c{.task = "recall", .length = 40, .items = 7, .symbols = 5};
  for (int64_t n = 0; n < 50; ++n) {
    const SyntheticExample e = synthetic_example(c, n);
    ASSERT_EQ(e.words.size(), 40u);
    std::map<std::string, std::string> value;
    for (size_t i = 0; i < 14; i += 2) value[e.words[i]] = e.words[i + 1];
    EXPECT_EQ(value.size(), 7u) << "keys differ";
    EXPECT_EQ(asked(e), 7);
    std::set<std::string> keys;
    for (size_t i = 14; i < 40; ++i) {
      if (e.labels[i].empty()) {
        EXPECT_EQ(e.words[i], "blank");
        continue;
      }
      EXPECT_EQ(e.labels[i], value.at(e.words[i]));
      keys.insert(e.words[i]);
    }
    EXPECT_EQ(keys.size(), 7u);
  }
}

TEST(Synthetic, MarksAskForSymbolsInTheirOrder) {
  for (const char* task : {"copy", "selective_copy"}) {
    const SyntheticConfig c{.task = task, .length = 30, .items = 6, .symbols = 9};
    bool apart = false;
    for (int64_t n = 0; n < 20; ++n) {
      const SyntheticExample e = synthetic_example(c, n);
      std::vector<std::string> shown;
      for (size_t i = 0; i < 24; ++i)
        if (e.words[i] != "blank") shown.push_back(e.words[i]);
      EXPECT_EQ(shown, std::vector<std::string>(e.labels.end() - 6, e.labels.end()));
      EXPECT_EQ(asked(e), 6);
      apart = apart || e.words[0] == "blank";
    }
    EXPECT_EQ(apart, std::string(task) == "selective_copy");
  }
}

TEST(Synthetic, TheLastMarkAsksForWhatStoodBehindTheFirst) {
  const SyntheticConfig c{.task = "induction", .length = 12, .symbols = 4};
  std::set<size_t> places;
  for (int64_t n = 0; n < 100; ++n) {
    const SyntheticExample e = synthetic_example(c, n);
    const auto at = size_t(std::find(e.words.begin(), e.words.end(), "mark") - e.words.begin());
    ASSERT_LT(at, 10u);
    EXPECT_EQ(e.words.back(), "mark");
    EXPECT_EQ(e.labels.back(), e.words[at + 1]);
    EXPECT_EQ(asked(e), 1);
    places.insert(at);
  }
  EXPECT_EQ(places.size(), 10u) << "every place comes";
}

TEST(Synthetic, FilesHaveOneTokenAWordAndAreThoseOfTheirSeed) {
  const Scratch scratch;
  SyntheticConfig c{.task = "recall", .length = 24, .items = 4, .symbols = 12, .train = 30, .test = 10};
  write_synthetic(c, scratch.path() / "a");
  write_synthetic(c, scratch.path() / "b");
  c.seed = 2;
  write_synthetic(c, scratch.path() / "c");
  const std::string train = read_file(scratch.path() / "a/train.jsonl");
  EXPECT_EQ(train, read_file(scratch.path() / "b/train.jsonl"));
  EXPECT_NE(train, read_file(scratch.path() / "c/train.jsonl"));
  EXPECT_NE(train.substr(0, 100), read_file(scratch.path() / "a/test.jsonl").substr(0, 100));
  LabelNames labels;
  std::vector<Example> examples;
  read_examples(scratch.path() / "a/train.jsonl", {.type = TaskType::tagging}, labels, examples);
  ASSERT_EQ(examples.size(), 30u);
  EXPECT_EQ(std::count_if(examples[0].tags.begin(), examples[0].tags.end(), [](int32_t t) { return t >= 0; }), 4);
  labels.sort(examples);
  c.seed = 1;
  const SyntheticExample first = synthetic_example(c, 0);
  for (size_t i = 0; i < 24; ++i) {
    ASSERT_EQ(examples[0].tags[i] < 0, first.labels[i].empty());
    if (!first.labels[i].empty()) {
      EXPECT_EQ(labels.names()[size_t(examples[0].tags[i])], first.labels[i]);
    }
  }
  const auto tokenizer = load_tokenizer(scratch.path() / "a/vocab.txt");
  for (const std::string& word : synthetic_words(c)) EXPECT_EQ(tokenizer->encode(" " + word).size(), 1u) << word;
}

TEST(Synthetic, SizesThatDoNotFitAreRefused) {
  const auto refusal = [](const SyntheticConfig& c) { return kit::error_of([&] { synthetic_example(c, 0); }); };
  EXPECT_NE(refusal({.task = "recall", .length = 47, .items = 16}).find("needs length 48, got 47"), std::string::npos);
  EXPECT_NE(refusal({.task = "copy", .length = 31, .items = 16}).find("needs length 32"), std::string::npos);
  EXPECT_NE(refusal({.task = "recall", .items = 16, .keys = 15}).find("16 pairs need"), std::string::npos);
}

}  // namespace
}  // namespace lithe
