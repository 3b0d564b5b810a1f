// Metrics by name, and the scores of a model's predictions.
#include <algorithm>
#include <functional>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/error_rate.h"
#include "lithe/eval/task_metrics.h"
#include "lithe/trees/attachment.h"

namespace lithe {
namespace {

using Predictions = std::vector<Prediction>;
using Examples = std::vector<Example>;
using Labels = std::vector<std::string>;
using Measure = std::function<double(const Predictions&, const Examples&, const Labels&)>;

Measure of_classes(double (*metric)(std::span<const int32_t>, std::span<const int32_t>)) {
  return [=](const Predictions& predictions, const Examples& examples, const Labels&) {
    std::vector<int32_t> truth, predicted;
    for (const Example& e : examples) truth.push_back(e.label);
    for (const Prediction& p : predictions) predicted.push_back(p.label);
    return metric(truth, predicted);
  };
}

Measure of_values(double (*metric)(std::span<const double>, std::span<const double>)) {
  return [=](const Predictions& predictions, const Examples& examples, const Labels&) {
    std::vector<double> truth, predicted;
    for (const Example& e : examples) truth.push_back(e.value);
    for (const Prediction& p : predictions) predicted.push_back(p.value);
    return metric(truth, predicted);
  };
}

// The mean over questions of the best over the right answers.
Measure of_answers(double (*metric)(std::string_view, std::string_view)) {
  return [=](const Predictions& predictions, const Examples& examples, const Labels&) {
    double sum = 0;
    for (size_t i = 0; i < examples.size(); ++i) {
      double best = examples[i].answers.empty() ? metric("", predictions[i].text) : 0;
      for (const Answer& answer : examples[i].answers) best = std::max(best, metric(answer.text, predictions[i].text));
      sum += best;
    }
    return sum / double(examples.size());
  };
}

// Of the one right answer to each example, all examples together.
Measure of_edits(Edits (*edits)(std::string_view, std::string_view)) {
  return [=](const Predictions& predictions, const Examples& examples, const Labels&) {
    std::vector<Edits> texts;
    for (size_t i = 0; i < examples.size(); ++i)
      texts.push_back(edits(examples[i].answers.at(0).text, predictions[i].text));
    return error_rate(texts, 0).rate;
  };
}
template <class Metric>
double of_texts(const Predictions& predictions, const Examples& examples, const Labels&) {
  std::vector<std::string> texts, references;
  for (const Prediction& p : predictions) texts.push_back(p.text);
  for (const Example& e : examples) references.push_back(e.answers.at(0).text);
  const Metric metric;
  return metric.score(sum_counts(segment_counts(metric, texts, {references})));
}

// Of the words that have a label.
struct TagPair {
  std::vector<int32_t> truth, predicted;
  void add(const Example& e, const Prediction& p) {
    for (size_t w = 0; w < e.tags.size(); ++w)
      if (e.tags[w] >= 0) truth.push_back(e.tags[w]), predicted.push_back(p.tags[w]);
  }
};

double tag_accuracy(const Predictions& predictions, const Examples& examples, const Labels&) {
  TagPair all;
  for (size_t i = 0; i < examples.size(); ++i) all.add(examples[i], predictions[i]);
  return accuracy(all.truth, all.predicted);
}

double tag_f1(const Predictions& predictions, const Examples& examples, const Labels& labels) {
  std::vector<TagPair> sentences(examples.size());
  std::vector<std::span<const int32_t>> truth, predicted;
  for (size_t i = 0; i < examples.size(); ++i) {
    sentences[i].add(examples[i], predictions[i]);
    truth.emplace_back(sentences[i].truth);
    predicted.emplace_back(sentences[i].predicted);
  }
  return entity_f1(truth, predicted, labels);
}

// Edits of all examples by their labels; of examples without labels: 0 or, where any is predicted, infinite.
double label_error_rate(const Predictions& predictions, const Examples& examples, const Labels&) {
  int64_t edits = 0, labels = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    edits += edit_distance(examples[i].tags, predictions[i].tags);
    labels += int64_t(examples[i].tags.size());
  }
  return edits ? double(edits) / double(labels) : 0;
}

double equal_transcriptions(const Predictions& predictions, const Examples& examples, const Labels&) {
  int64_t equal = 0;
  for (size_t i = 0; i < examples.size(); ++i) equal += examples[i].tags == predictions[i].tags;
  return double(equal) / double(examples.size());
}

Attachment attachment_of(const Predictions& predictions, const Examples& examples, const Labels& labels) {
  Attachment out;
  for (size_t i = 0; i < examples.size(); ++i)
    for (size_t w = 0; w < examples[i].tags.size(); ++w)
      out.add(examples[i].tree->heads.heads[w], labels[size_t(examples[i].tags[w])], predictions[i].heads[w],
              predictions[i].tags[w] < 0 ? "" : labels[size_t(predictions[i].tags[w])]);
  return out;
}
double unlabelled(const Predictions& predictions, const Examples& examples, const Labels& labels) {
  return attachment_of(predictions, examples, labels).uas();
}
double labelled(const Predictions& predictions, const Examples& examples, const Labels& labels) {
  return attachment_of(predictions, examples, labels).las();
}

struct Entry {
  TaskMetric metric;
  Measure measure;
};

const std::vector<Entry>& table() {
  using enum TaskType;
  static const std::vector<Entry> entries = {
      {{"accuracy", classification, Better::higher, "share of right classes"}, of_classes(accuracy)},
      {{"f1", classification, Better::higher, "F1 of the second of two classes"}, of_classes(f1_binary)},
      {{"macro_f1", classification, Better::higher, "mean F1 of the classes that occur"}, of_classes(macro_f1)},
      {{"micro_f1", classification, Better::higher, "F1 of all classes together: the accuracy"}, of_classes(micro_f1)},
      {{"matthews", classification, Better::higher, "Matthews correlation, -1 to 1"}, of_classes(matthews)},
      {{"pearson", regression, Better::higher, "correlation, -1 to 1"}, of_values(pearson)},
      {{"spearman", regression, Better::higher, "correlation of ranks, -1 to 1"}, of_values(spearman)},
      {{"mse", regression, Better::lower, "mean squared error"}, of_values(mean_squared_error)},
      {{"accuracy", tagging, Better::higher, "share of right tags"}, tag_accuracy},
      {{"f1", tagging, Better::higher, "F1 of the spans that BIO tags mark"}, tag_f1},
      {{"label_error_rate", transcription, Better::lower, "edits by labels, as word and character error rates"},
       label_error_rate},
      {{"exact_match", transcription, Better::higher, "share of examples with all labels right"}, equal_transcriptions},
      {{"las", parsing, Better::higher, "share of words with the right head and label"}, labelled},
      {{"uas", parsing, Better::higher, "share of words with the right head"}, unlabelled},
      {{"exact_match", span, Better::higher, "share of answers equal to a right one"}, of_answers(exact_match)},
      {{"f1", span, Better::higher, "mean F1 of the answers' words"}, of_answers(answer_f1)},
      {{"exact_match", text, Better::higher, "share of answers equal to the right one"}, of_answers(exact_match)},
      {{"f1", text, Better::higher, "mean F1 of the answers' words"}, of_answers(answer_f1)},
      {{"wer", text, Better::lower, "word edits by words of the right answers"}, of_edits(word_edits)},
      {{"cer", text, Better::lower, "character edits by characters of the right answers"}, of_edits(character_edits)},
      {{"bleu", text, Better::higher, "BLEU, 0 to 100, as sacreBLEU counts it"}, of_texts<Bleu>},
      {{"chrf", text, Better::higher, "chrF2, 0 to 100, as sacreBLEU counts it"}, of_texts<Chrf>}};
  return entries;
}

const Entry* find(const std::string& name, TaskType type) {
  for (const Entry& entry : table())
    if (entry.metric.name == name && entry.metric.type == type) return &entry;
  return nullptr;
}

std::vector<std::string> usual_metrics(TaskType type) {
  switch (type) {
    case TaskType::classification: return {"accuracy"};
    case TaskType::regression: return {"pearson", "spearman"};
    case TaskType::tagging: return {"accuracy"};
    case TaskType::span: return {"exact_match", "f1"};
    case TaskType::transcription: return {"label_error_rate", "exact_match"};
    case TaskType::parsing: return {"las", "uas"};
    case TaskType::text: return {"exact_match", "f1"};
  }
  return {};
}

void check_fits_labels(const TaskMetric& metric, const Labels& labels) {
  if (metric.name != "f1") return;
  if (metric.type == TaskType::classification)
    check_usage(labels.size() == 2, "task", "the metric f1 needs two classes, got ", labels.size(),
                "; use macro_f1 or micro_f1");
  if (metric.type == TaskType::tagging)
    for (const std::string& label : labels)
      check_usage(is_bio_tag(label), "task", "the metric f1 needs tags O, B-x and I-x, got '", label,
                  "'; use accuracy");
}

// Classes and tags in range, one tag a word.
void check_predictions(TaskType type, const Predictions& predictions, const Examples& examples, const Labels& labels) {
  check(predictions.size() == examples.size(), "task", "there must be a prediction for each of ", examples.size(),
        " examples, got ", predictions.size());
  check(!examples.empty(), "task", "there are no examples to measure");
  const auto in_range = [&](int32_t label, size_t i) {
    check(label >= 0 && size_t(label) < labels.size(), "task", "prediction ", i, " or its example has class ", label,
          ", but there are ", labels.size(), " labels");
  };
  for (size_t i = 0; i < examples.size(); ++i) {
    if (type == TaskType::classification) {
      in_range(examples[i].label, i);
      in_range(predictions[i].label, i);
    }
    if (type != TaskType::tagging && type != TaskType::transcription && type != TaskType::parsing) continue;
    check(type != TaskType::parsing || predictions[i].heads.size() == examples[i].tags.size(), "task", "prediction ", i,
          " must have ", examples[i].tags.size(), " heads, got ", predictions[i].heads.size());
    check(type == TaskType::transcription || predictions[i].tags.size() == examples[i].tags.size(), "task",
          "prediction ", i, " must have ", examples[i].tags.size(), " tags, got ", predictions[i].tags.size());
    for (const int32_t tag : examples[i].tags)
      if (tag >= 0) in_range(tag, i);
    for (const int32_t tag : predictions[i].tags)
      if (tag >= 0 || type == TaskType::transcription) in_range(tag, i);
  }
}

}  // namespace

const std::vector<TaskMetric>& all_task_metrics() {
  static const std::vector<TaskMetric> all = [] {
    std::vector<TaskMetric> metrics;
    for (const Entry& entry : table()) metrics.push_back(entry.metric);
    return metrics;
  }();
  return all;
}

namespace {

// `labels`: null where they are not known yet.
ChosenMetrics choose(const TaskConfig& config, const Labels* labels) {
  const TaskType type = task_type(config);
  const std::vector<std::string> names = config.metrics.empty() ? usual_metrics(type) : config.metrics;
  std::vector<std::string> fitting;
  for (const Entry& entry : table())
    if (entry.metric.type == type) fitting.push_back(entry.metric.name);
  ChosenMetrics chosen;
  for (const std::string& name : names) {
    const Entry* entry = find(name, type);
    check_usage(entry != nullptr, "task", "'", name, "' is no metric of a task of type ", config.type, "; there are ",
                join(fitting), did_you_mean(name, fitting));
    check_usage(std::count(names.begin(), names.end(), name) == 1, "task", "'", name,
                "' stands twice in task.metrics; remove one");
    if (labels) check_fits_labels(entry->metric, *labels);
    chosen.metrics.push_back(entry->metric);
  }
  const std::string best = config.metric_for_best_model.empty() ? names[0] : config.metric_for_best_model;
  const auto found = std::find(names.begin(), names.end(), best);
  check_usage(found != names.end(), "task", "metric_for_best_model must be one of the metrics ", join(names), ", got '",
              best, "'; add it to task.metrics");
  chosen.best = chosen.metrics[size_t(found - names.begin())];
  return chosen;
}

}  // namespace

ChosenMetrics choose_metrics(const TaskConfig& config, const Labels& labels) { return choose(config, &labels); }
void check_metrics(const TaskConfig& config) { choose(config, nullptr); }

std::vector<Score> score_predictions(const std::vector<TaskMetric>& metrics, const Predictions& predictions,
                                     const Examples& examples, const Labels& labels) {
  std::vector<Score> scores;
  for (const TaskMetric& metric : metrics) {
    const Entry* entry = find(metric.name, metric.type);
    check(entry != nullptr, "task", "'", metric.name, "' is no metric of this type of task");
    check_predictions(metric.type, predictions, examples, labels);
    scores.push_back({metric, entry->measure(predictions, examples, labels)});
  }
  return scores;
}

}  // namespace lithe
