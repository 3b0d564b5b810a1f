// What trivial methods score on a task: a model is worth what it adds to them.
#pragma once

#include "lithe/eval/task_metrics.h"

namespace lithe {

struct TaskBaseline {
  std::string name;  // "majority", "most frequent tag of a word", "logistic regression"
  std::vector<Prediction> predictions;
};

/// Answers to `asked`, learnt from `train`, by each method that the task has:
/// - classification: the most frequent class, and logistic regression on words and pairs of neighbouring words (lower
///   case, as \w+|[^\w\s]+ cuts them; of two texts each its own, and the words of both), trained by AdaGrad with a
///   fixed order, where any example has text;
/// - regression: the mean;
/// - tagging: the most frequent tag, and that of each word (unknown words: the most frequent of all).
/// None for questions and transcriptions, or without examples to learn from. The same examples give the same bits.
std::vector<TaskBaseline> task_baselines(TaskType type, const std::vector<Example>& train,
                                         const std::vector<Example>& asked, size_t classes);

/// How often each class was taken for each: [truth * classes + predicted]. Of tagging, all words.
std::vector<int64_t> confusion(TaskType type, const std::vector<Example>& examples,
                               const std::vector<Prediction>& predictions, size_t classes);

struct ClassScore {
  double precision = 0, recall = 0, f1 = 0;  // 0 where undefined
  int64_t examples = 0;                      // of the class
};
std::vector<ClassScore> class_scores(const std::vector<int64_t>& confusion, size_t classes);

}  // namespace lithe
