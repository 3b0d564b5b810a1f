// Trivial methods against what can be counted by hand.
#include "lithe/eval/task_baselines.h"

#include <gtest/gtest.h>

namespace lithe {
namespace {

Example text_of(const std::string& text, int32_t label) {
  Example e;
  e.text = text;
  e.label = label;
  return e;
}

Example tagged(std::vector<std::string> words, std::vector<int32_t> tags) {
  Example e;
  e.words = std::move(words);
  e.tags = std::move(tags);
  return e;
}

std::vector<int32_t> labels_of(const TaskBaseline& b) {
  std::vector<int32_t> out;
  for (const Prediction& p : b.predictions) out.push_back(p.label);
  return out;
}

TEST(TaskBaselines, LogisticRegressionReadsWordsAndPairs) {
  std::vector<Example> train;
  for (int i = 0; i < 20; ++i) {
    train.push_back(text_of("a good film", 1));
    train.push_back(text_of("a bad film", 0));
    train.push_back(text_of("not good at all", 0));  // only the pair tells
    train.push_back(text_of("not bad at all", 1));
    train.push_back(text_of("a film", 2));
    train.push_back(text_of("a film", 2));
  }
  const auto baselines = task_baselines(
      TaskType::classification, train,
      {text_of("GOOD story", 1), text_of("bad story", 0), text_of("not good", 0), text_of("not bad", 1)}, 3);
  ASSERT_EQ(baselines.size(), 2u);
  EXPECT_EQ(baselines[0].name, "majority");
  EXPECT_EQ(labels_of(baselines[0]), (std::vector<int32_t>{0, 0, 0, 0}));  // 40 each: the first of equals
  EXPECT_EQ(baselines[1].name, "logistic regression");
  EXPECT_EQ(labels_of(baselines[1]), (std::vector<int32_t>{1, 0, 0, 1}));
  const auto again = task_baselines(TaskType::classification, train, {text_of("not good", 0)}, 3);
  EXPECT_EQ(labels_of(again[1]), (std::vector<int32_t>{0}));
  // Pictures have no words.
  EXPECT_EQ(task_baselines(TaskType::classification, {text_of("", 0), text_of("", 1)}, {text_of("", 0)}, 2).size(), 1u);
}

TEST(TaskBaselines, AWordHasItsMostFrequentTag) {
  const auto baselines = task_baselines(
      TaskType::tagging, {tagged({"the", "run", "run", "run"}, {0, 1, 2, 2}), tagged({"the", "the"}, {0, 0})},
      {tagged({"run", "the", "new"}, {1, 0, 1})}, 3);
  ASSERT_EQ(baselines.size(), 2u);
  EXPECT_EQ(baselines[0].predictions[0].tags, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(baselines[1].predictions[0].tags, (std::vector<int32_t>{2, 0, 0}));
}

TEST(TaskBaselines, RegressionHasTheMeanAndQuestionsNone) {
  Example a, b;
  a.value = 1, b.value = 4;
  const auto baselines = task_baselines(TaskType::regression, {a, b}, {a}, 0);
  ASSERT_EQ(baselines.size(), 1u);
  EXPECT_DOUBLE_EQ(baselines[0].predictions[0].value, 2.5);
  EXPECT_TRUE(task_baselines(TaskType::span, {a}, {a}, 0).empty());
  EXPECT_TRUE(task_baselines(TaskType::classification, {}, {a}, 2).empty());
}

TEST(ClassScores, AreThoseOfTheCounts) {
  const std::vector<Example> examples = {text_of("", 0), text_of("", 0), text_of("", 1), text_of("", 1),
                                         text_of("", 1)};
  std::vector<Prediction> predictions(5);
  const int32_t said[] = {0, 1, 1, 1, 0};
  for (size_t i = 0; i < 5; ++i) predictions[i].label = said[i];
  const auto counts = confusion(TaskType::classification, examples, predictions, 3);
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 1, 0, 1, 2, 0, 0, 0, 0}));
  const auto scores = class_scores(counts, 3);
  EXPECT_DOUBLE_EQ(scores[0].precision, 0.5);
  EXPECT_DOUBLE_EQ(scores[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(scores[1].f1, 2.0 / 3);
  EXPECT_EQ(scores[1].examples, 3);
  EXPECT_EQ(scores[2].examples, 0);
  EXPECT_EQ(scores[2].f1, 0);
}

}  // namespace
}  // namespace lithe
