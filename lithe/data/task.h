// The section `task` of a recipe, and what it loads.
#pragma once

#include <optional>

#include "lithe/base/fields.h"
#include "lithe/data/examples.h"

namespace lithe {

struct TaskConfig {
  std::string type = "classification";  // classification | regression | tagging | span | transcription | parsing | text
  std::vector<std::string> train, validation;  // names or shell patterns, relative to the current directory
  std::vector<std::string> test;
  std::string format;  // empty: from the name of each file
  bool header = false;
  std::string text, text_pair, label;              // columns, see ExampleLayout
  std::string prompt = "source", loss = "answer";  // type text: AnswerLayout
  std::string language;                            // type text, Whisper's tokens: AnswerLayout; "none": has no language
  bool translates = false;                         // and the answers are translations
  std::string image;                               // the column of pictures (data.image); empty: "image" is none
  std::string audio, transcript;                   // the columns of sounds (data.audio) and of what they say
  std::vector<std::string> streams;                // type text: of a source with text and sound, what training reads
  std::string eval_stream = "both";                // and what else reads
  std::vector<std::string> labels;                 // empty: those of the training files, sorted
  double validation_fraction = 0;                  // exclusive with validation
  int64_t folds = 0, fold = 1;                     // of the training examples, one is the test part; folds 0: none
  std::vector<std::string> metrics;                // empty: those usual for the type, see eval/task_metrics.h
  std::string metric_for_best_model;               // empty: the first of the metrics
  Node sources;                                    // further encoders: name -> column of the text that it reads

  void fields(Fields& f);
  /// `sources`, read. Fails (usage) on what is none.
  std::map<std::string, std::string> further_sources() const;
};

TaskType task_type(const TaskConfig& config);
/// None: no type has this name.
std::optional<TaskType> task_type_named(const std::string& name);
/// The head that predicts labels of the type.
std::string task_head(TaskType type);
ExampleLayout example_layout(const TaskConfig& config);

// spec: app.mm_encdec | architecture | text and pictures, read by a decoder that writes | TB 6.5.5, Fig 6.20b
// spec: app.mm_decoder | architecture | a picture before the text of a decoder alone | TB 6.5.5, Fig 6.20c
/// How a model writes the answers of type text. An encoder-decoder writes `begin answer end` after a source of `text
/// end` and features; with the prompt in the target the source is `end` and features, and it writes `begin text end
/// answer end`; without a prompt the source is the features alone. A decoder alone writes `begin text end answer end`
/// behind the features. With Whisper's tokens its instructions stand behind begin, as `lithe transcribe` asks for them:
/// a language and a task, where the model has several languages, and <|notimestamps|>.
struct AnswerLayout {
  bool reads_source = false;     // an encoder-decoder
  bool prompt_in_source = true;  // of it
  bool ends_source = true;       // an end stands before the features
  bool learns_prompt = false;    // the text before an answer is predicted, too
  std::string language = {};     // of the instructions: "en"; "none": of a model of English alone
  bool translates = false;       // their task is translate
};
AnswerLayout answer_layout(const TaskConfig& config, bool reads_source);

/// Which streams of a source are read: its text (mt), its features (st), or both. Of an example that lacks the one, the
/// other.
enum class Streams { both, mt, st };
Streams streams_named(const std::string& name);

struct TaskData {
  std::vector<std::string> labels;  // classification, tagging: the name of each index
  std::vector<Example> train, validation, test;
};

/// Reads all files of `config`; at least one of train and test must be named. Without `labels` (in the recipe, or
/// `known`: those of a trained model, which the recipe's must equal) they are learnt from the training files, and a
/// label that only other files have is an error. With validation_fraction that share of the training examples, drawn
/// by a fixed permutation, becomes `validation`; questions about one context stay together. With folds the training
/// examples are cut into so many parts of equal size, classes evenly among them, of which number `fold` becomes `test`,
/// before validation_fraction takes its share of the others. Fails when a file serves
/// twice, and on what read_examples refuses.
TaskData load_task(const TaskConfig& config, const std::vector<std::string>& known = {});

}  // namespace lithe
