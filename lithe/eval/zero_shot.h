// Tasks as EleutherAI's evaluation harness describes them: choices, last words, rolling likelihoods, answers.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/eval/zero_shot_answers.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// What a document becomes: each is the name of a field, or a template; empty: none.
struct DocumentTexts {
  std::string doc_to_text, doc_to_target;
  Node doc_to_choice;  // a field, a template of a Python list, a list of texts, or a map whose values they are
  std::string gen_prefix, target_delimiter = " ", fewshot_delimiter = "\n\n";
};

/// The keys of a task's YAML that need no Python.
struct ZeroShotTask : DocumentTexts {
  std::string task, alias, description, dataset_path = "json", output_type = "generate_until";
  // JSON lines, .tsv with a line of names, or .raw and .txt, of which each page (from " = Title = " on) is a document
  // with the field page; relative names are tried under LITHE_DATA, too.
  std::vector<std::string> data_files;
  // Examples before each question: of which files, or given, drawn anew or the first ones.
  int64_t num_fewshot = 0;
  DocumentTexts example;
  std::vector<std::string> example_files;
  Node samples;
  bool first_examples = false;
  bool same_split = false;  // the question itself may be among them, and is left out
  int64_t repeats = 1;
  // generate_until: an answer ends before one of `until`, or with max_gen_toks tokens; each filter gives results.
  std::vector<std::string> until;
  int64_t max_gen_toks = 256, top_k = 0;
  bool do_sample = false;
  double temperature = 1, top_p = 1;
  std::vector<AnswerFilter> filters;
  std::vector<std::string> metrics;
  ExactMatch exact_match;
  double version = 1;
  Node source;  // as it stands in the file, with what it includes
};

/// The mean of tasks' metrics, of all or by name.
struct ZeroShotGroup {
  struct Mean {
    std::string metric;
    std::vector<std::string> filters;  // empty: those that the tasks have
    bool weight_by_size = true;
  };
  std::string name, alias;
  std::vector<std::string> tasks;  // of all groups within, too
  std::vector<Mean> means;
};
struct ZeroShotSuite {
  std::vector<ZeroShotTask> tasks;
  std::vector<ZeroShotGroup> groups;
};

struct ZeroShotReading {
  int64_t num_fewshot = -1;  // in place of the files' own, unless that is 0; -1: theirs
};
/// Strict: a key that is not known is refused, as one whose value needs Python.
ZeroShotTask read_zero_shot_task(const Path& file, const ZeroShotReading& how = {});
/// A task, or a group with the tasks that it names, whose files stand in its folder or below.
ZeroShotSuite read_zero_shot_suite(const Path& file, const ZeroShotReading& how = {});

struct ZeroShotMetric {
  std::string name, filter = "none";
  double value = 0;
  std::optional<double> stderr_;  // of the mean over documents, or of resamples (bootstrap_error.h)
};
/// The mean, with its standard error where there are two values or more.
ZeroShotMetric mean_of(const std::string& name, const std::vector<double>& values);

struct ZeroShotResult {
  int64_t documents = 0, all_documents = 0;
  std::vector<ZeroShotMetric> metrics;
};
/// The means of a group, of the results of its tasks.
std::vector<ZeroShotMetric> group_means(const ZeroShotGroup& group,
                                        const std::map<std::string, ZeroShotResult>& results);

struct ZeroShotOptions {
  int64_t limit = 0;  // documents at most; 0: all
  int64_t batch_tokens = 2048;
  bool add_bos_token = true;
};
/// The task's metrics. multiple_choice: acc, the share of documents whose most likely choice is right, acc_norm and
/// acc_bytes, by likelihood per character and byte, acc_mutual_info, by how much likelier the text makes it,
/// exact_match, the share whose right choice greedy decoding would give, f1, mcc, brier_score. loglikelihood:
/// perplexity of the targets and acc, the share that greedy decoding would give. loglikelihood_rolling:
/// word_perplexity, byte_perplexity, bits_per_byte. generate_until: exact_match, accuracy and f1 of numbers, or BLEU,
/// chrF, chrF++ and TER, of written answers. Polls stop_signal(), failing when asked to.
ZeroShotResult evaluate_zero_shot(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                  const ZeroShotOptions& options);

/// What a model says of one choice behind a text.
struct ChoiceScore {
  std::string choice;
  double log_likelihood = 0;  // of the tokens that the choice, with the delimiter before it, adds to the text
  int64_t tokens = 0, characters = 0, bytes = 0;  // these tokens; of the choice alone
  bool greedy = false;                            // greedy decoding would give it
};
/// A task of the fields query and choices of JSON lines, without a right choice.
ZeroShotTask choices_task(const Path& file);
/// The choices of each document of a multiple_choice task.
std::vector<std::vector<ChoiceScore>> score_choices(const Model& model, const Tokenizer& tokenizer,
                                                    const ZeroShotTask& task, const ZeroShotOptions& options);

}  // namespace lithe
