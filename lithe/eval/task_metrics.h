// How right the answers to a task are: metrics of classification, regression, tagging and extractive questions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/data/task.h"
#include "lithe/eval/metrics.h"

namespace lithe {

// ---- the numbers. Classes are indices from 0; all shares are in [0, 1], not percent.

/// The share of equal classes. Of no examples: NaN.
double accuracy(std::span<const int32_t> truth, std::span<const int32_t> predicted);
/// F1 of class 1 of two: 2 TP / (2 TP + FP + FN). Without a true or predicted 1: 0.
double f1_binary(std::span<const int32_t> truth, std::span<const int32_t> predicted);
/// The mean F1 of the classes that occur in truth or predictions. Of no examples: NaN.
double macro_f1(std::span<const int32_t> truth, std::span<const int32_t> predicted);
/// F1 of the counts summed over classes, which is the accuracy where every example has one class.
double micro_f1(std::span<const int32_t> truth, std::span<const int32_t> predicted);
/// Matthews correlation of any number of classes. 0 when truth or predictions are constant.
double matthews(std::span<const int32_t> truth, std::span<const int32_t> predicted);

/// Pearson's correlation. NaN when either side is constant, holds what is not finite, or there are fewer than two.
double pearson(std::span<const double> truth, std::span<const double> predicted);
/// Pearson's correlation of the ranks, equal values sharing their mean rank. NaN as for pearson.
double spearman(std::span<const double> truth, std::span<const double> predicted);
/// The mean squared error. Of no examples: NaN.
double mean_squared_error(std::span<const double> truth, std::span<const double> predicted);

/// An answer as SQuAD's evaluation compares it: lower case, without ASCII punctuation and the words a, an, the, words
/// between single spaces.
std::string normalize_answer(std::string_view text);
/// 1 when the normalised texts are equal, else 0.
double exact_match(std::string_view truth, std::string_view predicted);
/// F1 of the bags of normalised words. When either has no words: exact_match.
double answer_f1(std::string_view truth, std::string_view predicted);

/// O, B-x or I-x; x may be empty.
bool is_bio_tag(std::string_view tag);
/// F1 of the spans that BIO tags mark, counted over all sentences, as seqeval's default (and conlleval): a span begins
/// at B-x, or at I-x after O, another type or the start; it ends before O, a B- or another type. A predicted span is
/// right when type, first and last word are those of a true span. Without any true or predicted span: 0.
/// `labels` names the tags, which must be BIO.
double entity_f1(const std::vector<std::span<const int32_t>>& truth,
                 const std::vector<std::span<const int32_t>>& predicted, const std::vector<std::string>& labels);

/// The least insertions, deletions and substitutions that make `predicted` of `truth`.
int64_t edit_distance(std::span<const int32_t> truth, std::span<const int32_t> predicted);

// ---- the metrics by name

struct TaskMetric {
  std::string name;
  TaskType type;
  Better better;
  std::string help;  // one line
};

/// Every metric; a name may serve several types.
const std::vector<TaskMetric>& all_task_metrics();

struct ChosenMetrics {
  std::vector<TaskMetric> metrics;
  TaskMetric best;  // decides which model is kept
};

/// The metrics of the section `task`, or those usual for its type: accuracy; pearson and spearman; accuracy;
/// exact_match and f1; label_error_rate and exact_match. `labels` are the task's (TaskData::labels). Fails on a name
/// that is unknown, stands twice, or does not fit the type or the labels (f1 of other than two classes, f1 of tags that
/// are not BIO), and on a metric_for_best_model that is not among them.
ChosenMetrics choose_metrics(const TaskConfig& config, const std::vector<std::string>& labels);
/// Fails as choose_metrics() does where no labels are known yet: on all but what the labels decide.
void check_metrics(const TaskConfig& config);

// ---- predictions

/// What a model says about one example; which field counts depends on the type of the task.
struct Prediction {
  int32_t label = -1;                     // classification
  double value = 0;                       // regression
  std::vector<int32_t> tags;              // tagging, parsing (of arcs): one a word; transcription: any number
  std::vector<int32_t> heads;             // parsing: of each word, from 1, 0: the root
  std::vector<HeadProbabilities> parser;  // parsing: the likeliest heads of each word, up to kParserHeads
  std::string text;                       // span: the answer, empty: there is none; text: the answer
};

struct Score {
  TaskMetric metric;
  double value = 0;
};

/// The score of each metric, in their order. Of several right answers the best counts; a question without answers is
/// answered right by the empty text. Fails when there are no examples, counts differ, or a class is out of range.
std::vector<Score> score_predictions(const std::vector<TaskMetric>& metrics, const std::vector<Prediction>& predictions,
                                     const std::vector<Example>& examples, const std::vector<std::string>& labels);

}  // namespace lithe
