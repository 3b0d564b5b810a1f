#include "lithe/data/task.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/random.h"
#include "lithe/data/distinct_files.h"

namespace lithe {
namespace {

std::vector<Example> read_all(const std::vector<Path>& files, const ExampleLayout& layout, LabelNames& labels) {
  std::vector<Example> examples;
  for (const auto& file : files) read_examples(file, layout, labels, examples);
  return examples;
}

// Examples that stay together. Questions about one context are one unit: apart, the context would be known from
// training.
struct Units {
  std::vector<size_t> of;     // of each example
  std::vector<size_t> order;  // by a fixed permutation
};

Units units_of(const std::vector<Example>& examples, TaskType type, const char* purpose) {
  Units out{.of = std::vector<size_t>(examples.size())};
  size_t units = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    const bool same = type == TaskType::span && i > 0 && examples[i].pair == examples[i - 1].pair;
    out.of[i] = same ? units - 1 : units++;
  }
  out.order.resize(units);
  std::iota(out.order.begin(), out.order.end(), size_t(0));
  const RandomKey key{.purpose = purpose_of(purpose)};
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&](size_t a, size_t b) { return random_u32(key, a) < random_u32(key, b); });
  return out;
}

// Moves one of the folds of the training examples to the test examples.
void take_fold(TaskData& data, TaskType type, int64_t folds, int64_t fold) {
  const Units units = units_of(data.train, type, "task.folds");
  check_usage(int64_t(units.order.size()) >= folds, "task", "folds ", folds, " of ", units.order.size(),
              " examples would be empty; choose fewer, or give more examples");
  std::vector<int32_t> label(units.order.size());
  for (size_t i = 0; i < units.of.size(); ++i) label[units.of[i]] = data.train[i].label;
  std::vector<size_t> by_label = units.order;
  std::stable_sort(by_label.begin(), by_label.end(), [&](size_t a, size_t b) { return label[a] < label[b]; });
  std::vector<bool> taken(units.order.size());
  for (size_t k = 0; k < by_label.size(); ++k) taken[by_label[k]] = int64_t(k) % folds == fold - 1;
  std::vector<Example> train;
  for (size_t i = 0; i < units.of.size(); ++i)
    (taken[units.of[i]] ? data.test : train).push_back(std::move(data.train[i]));
  data.train = std::move(train);
}

// Moves a share of the training examples to the validation examples.
void hold_out(TaskData& data, TaskType type, double fraction) {
  const auto [unit, order] = units_of(data.train, type, "task.validation");
  std::vector<size_t> sizes(order.size());
  for (const size_t u : unit) ++sizes[u];
  std::vector<bool> held(order.size());
  const double wanted = fraction * double(unit.size());
  size_t taken = 0;
  for (const size_t u : order) {
    if (double(taken) >= wanted) break;
    held[u] = true;
    taken += sizes[u];
  }
  check_usage(taken < unit.size(), "task", "validation_fraction ", fraction, " of ", unit.size(),
              " examples leaves none for training; choose a smaller one, or give more examples");
  std::vector<Example> train;
  for (size_t i = 0; i < unit.size(); ++i)
    (held[unit[i]] ? data.validation : train).push_back(std::move(data.train[i]));
  data.train = std::move(train);
}

}  // namespace

void TaskConfig::fields(Fields& f) {
  f("type", type,
    "classification or regression: a class or a number for a text or a pair; tagging: a tag for each word; span: an "
    "answer in a text; transcription: labels of a text without their places (CTC); parsing: a dependency tree; text: a "
    "text to generate (head lm)",
    one_of({"classification", "regression", "tagging", "span", "transcription", "parsing", "text"}));
  f("train", train, "labelled files to train on: names or shell patterns, also .gz or .zst");
  f("validation", validation, "labelled files to evaluate on during training");
  f("test", test, "labelled files for the final result");
  f("format", format,
    "tsv, csv, jsonl, label_text, conllu, brackets, squad, or pictures with classes: idx (MNIST), cifar10, "
    "image_folder (picture files or a tar, each in a folder that is its label); empty: by the name of each file",
    one_of({"", "tsv", "csv", "jsonl", "label_text", "conllu", "brackets", "squad", "idx", "cifar10", "image_folder"}));
  f("header", header, "tsv, csv: the first line has the names of the columns");
  f("text", text,
    "column of the text: its name in the header, its key in JSON, or its number from 1; empty: text (conllu: form)");
  f("text_pair", text_pair, "column of the second text of a pair; empty: single texts");
  f("prompt", prompt,
    "type text, encoder_decoder: source: the encoder reads the text; target: the text begins the decoder's sequence, "
    "and the encoder reads an end token and the features; none: there is no text, and the encoder reads only the "
    "features, as in Whisper",
    one_of({"source", "target", "none"}));
  f("loss", loss,
    "type text, if the text stands before its answer in one sequence: the loss counts only the answer, or the text, "
    "too",
    one_of({"answer", "text"}));
  f("language", language,
    "type text with Whisper's tokens: language of the sounds (en, de) for the prompt tokens before an answer; empty: "
    "an English-only model, whose prompt has no language and no task token");
  f("translates", translates,
    "type text with Whisper's tokens: the answers are English translations of the speech (task token <|translate|>)");
  f("image", image,
    "tsv, csv, jsonl: column of pictures, beside the text or instead of it: a file (path relative to the table), "
    "a.tar#member, or array#number; an empty cell is no picture; see data.image");
  f("audio", audio,
    "tsv, csv, jsonl: column of sounds, beside the text or instead of it: a file (path relative to the table); an "
    "empty cell is no sound; see data.audio");
  f("transcript", transcript,
    "tsv, csv, jsonl: column of the transcript of the sound, the labels of compressor ctc_adapter; empty: none");
  f("streams", streams,
    "type text, examples with text and features: in training, each time an example is read, one of these inputs is "
    "drawn: mt (text only), st (features only), both; list a name several times for a higher probability; empty: both");
  f("eval_stream", eval_stream, "the input (see streams) in evaluation and prediction", one_of({"both", "mt", "st"}));
  f("label", label,
    "column of the label, number or tag; empty: label (conllu: upos, parsing: deprel; for whole sentences: the comment "
    "label)");
  f("labels", labels, "names of the labels in the order of their ids; empty: the labels of the training files, sorted");
  f("validation_fraction", validation_fraction,
    "instead of validation: hold out this share of the training examples, always the same ones", between(0, 0.99));
  f("folds", folds,
    "cross-validation instead of test files: divide the training examples into this many folds, one of which is the "
    "test part; 0: off. `lithe finetune --folds` trains once for each fold",
    between(0, 1000));
  f("fold", fold, "number of the fold that is the test part, from 1", between(1, 1000));
  f("metrics", metrics,
    "metrics to compute; empty: accuracy (regression: pearson and spearman, span and text: exact_match and f1, "
    "transcription: label_error_rate and exact_match, parsing: las and uas)");
  f("metric_for_best_model", metric_for_best_model, "metric that chooses the best model; empty: the first of metrics");
  f.free("sources", sources,
         "classification and regression of tsv, csv and jsonl: {encoder: column}: texts for further encoders "
         "(model.encoders with model.combine); encoders without a column read the text itself");
}

std::map<std::string, std::string> TaskConfig::further_sources() const {
  std::map<std::string, std::string> out;
  if (sources.is_null()) return out;
  check_usage(sources.is_map(), "recipe", to_string(sources.mark()),
              ": task.sources must hold columns by the names of encoders, as {trees: parse}");
  for (const auto& [name, column] : sources.entries()) {
    check_usage(!column.is_map() && !column.is_list() && !column.text().empty(), "recipe", to_string(column.mark()),
                ": task.sources.", name, " must be the name or the number of a column");
    out[name] = column.text();
  }
  check_usage(out.empty() || type == "classification" || type == "regression", "task",
              "sources are texts of classification and regression, not of ", type, "; leave them out");
  check_usage(out.empty() || format.empty() || format == "tsv" || format == "csv" || format == "jsonl", "task",
              "sources are columns of tsv, csv and jsonl, which files of format ", format, " have not");
  return out;
}

std::optional<TaskType> task_type_named(const std::string& name) {
  using enum TaskType;
  static const std::map<std::string, TaskType> types = {
      {"classification", classification}, {"regression", regression}, {"tagging", tagging}, {"span", span},
      {"transcription", transcription},   {"parsing", parsing},       {"text", text}};
  const auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

TaskType task_type(const TaskConfig& config) {
  const std::optional<TaskType> type = task_type_named(config.type);
  check_usage(type.has_value(), "task",
              "type must be one of classification, regression, tagging, span, transcription, parsing, text, got '",
              config.type, "'");
  return *type;
}

std::string task_head(TaskType type) {
  switch (type) {
    case TaskType::tagging: return "tag";
    case TaskType::span: return "span";
    case TaskType::transcription: return "ctc";
    case TaskType::parsing: return "biaffine";
    case TaskType::text: return "lm";
    default: return "classify";
  }
}

Streams streams_named(const std::string& name) {
  check_usage(name == "both" || name == "mt" || name == "st", "task", "streams are mt, st or both, not '", name, "'");
  return name == "mt" ? Streams::mt : name == "st" ? Streams::st : Streams::both;
}

AnswerLayout answer_layout(const TaskConfig& config, bool reads_source) {
  const bool in_source = reads_source && config.prompt != "target";
  check_usage(config.prompt == "source" || reads_source, "task", "prompt ", config.prompt,
              " is of an encoder_decoder, whose encoder reads the features; leave it out");
  check_usage(!in_source || config.loss == "answer", "task",
              "loss text learns the text before an answer, which the encoder reads here; set prompt: target");
  return {.reads_source = reads_source,
          .prompt_in_source = in_source,
          .ends_source = config.prompt != "none",
          .learns_prompt = config.loss == "text",
          .language = config.language,
          .translates = config.translates};
}

ExampleLayout example_layout(const TaskConfig& config) {
  std::map<std::string, std::string> features;
  for (const auto& [modality, column] : {std::pair("image", &config.image), {"audio", &config.audio}})
    if (!column->empty()) features[modality] = *column;
  return {.type = task_type(config),
          .format = config.format,
          .header = config.header,
          .text = config.text,
          .text_pair = config.text_pair,
          .label = config.label,
          .features = features,
          .transcript = config.transcript,
          .sources = config.further_sources()};
}

TaskData load_task(const TaskConfig& config, const std::vector<std::string>& known) {
  const ExampleLayout layout = example_layout(config);
  const bool labelled =
      layout.type != TaskType::regression && layout.type != TaskType::span && layout.type != TaskType::text;
  check_usage(!config.train.empty() || !config.validation.empty() || !config.test.empty(), "task",
              "no files are given; name some in task.train, task.validation or task.test");
  check_usage(config.validation.empty() || config.validation_fraction == 0, "task",
              "validation and validation_fraction are both given; keep one");
  check_usage(config.validation_fraction == 0 || !config.train.empty(), "task",
              "validation_fraction holds out training examples, but task.train names no files");
  check_usage(config.folds != 1 && config.fold <= std::max<int64_t>(config.folds, 1), "task", "fold ", config.fold,
              " of folds ", config.folds, " is none; folds are 2 or more, and fold is from 1 to folds");
  check_usage(!config.folds || config.test.empty(), "task",
              "folds take the test part from the training examples, and test names files; keep one");
  check_usage(!config.folds || !config.train.empty(), "task",
              "folds are of training examples, but task.train names no files");
  check_usage(labelled || config.labels.empty(), "task", "labels are given, but a task of type ", config.type,
              " has none; remove task.labels");
  check_usage(known.empty() || config.labels.empty() || known == config.labels, "task", "task.labels are ",
              join(config.labels), ", but the model was trained on ", join(known), "; remove task.labels");
  LabelNames labels(known.empty() ? config.labels : known);
  check_usage(!labelled || !labels.learns() || !config.train.empty(), "task",
              "without task.labels they are learnt from training files, but task.train names none; give one of both");

  DistinctFiles files("task");
  const auto train = files.expand(config.train, "train"), validation = files.expand(config.validation, "validation"),
             test = files.expand(config.test, "test");
  TaskData data;
  data.train = read_all(train, layout, labels);
  if (labels.learns()) labels.sort(data.train);
  check(!labelled || labels.names().size() >= 2, "task", "there must be two labels or more, got ", join(labels.names()),
        "; is task.label the right column?");
  data.validation = read_all(validation, layout, labels);
  data.test = read_all(test, layout, labels);
  data.labels = labels.names();
  if (config.folds) take_fold(data, layout.type, config.folds, config.fold);
  if (config.validation_fraction > 0) hold_out(data, layout.type, config.validation_fraction);
  log_info("task: ", data.train.size(), " examples to train on, ", data.validation.size(), " to validate, ",
           data.test.size(), " to test", labelled ? cat(", ", data.labels.size(), " labels") : "");
  return data;
}

}  // namespace lithe
