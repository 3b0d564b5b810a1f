// Zero-shot tasks as EleutherAI's evaluation harness describes them: choices, last words, rolling likelihoods, answers.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/eval/zero_shot_answers.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// The keys of a task's YAML that need no Python.
struct ZeroShotTask {
  std::string task, dataset_path = "json", output_type = "multiple_choice", target_delimiter = " ";
  // JSON lines, .tsv with a line of names, or .raw and .txt, of which each page (from " = Title = " on) is a document
  // with the field page; relative names are tried under LITHE_DATA, too.
  std::vector<std::string> data_files;
  std::string doc_to_text, doc_to_target;
  Node doc_to_choice;  // a template of a list, or a list of templates
  int64_t num_fewshot = 0;
  // generate_until: an answer ends before one of `until`, or with max_gen_toks tokens; each filter gives results.
  std::vector<std::string> until = {"\n\n"};
  int64_t max_gen_toks = 256;
  std::vector<AnswerFilter> filters;
  std::vector<std::string> metrics;  // exact_match, bleu, chrf
  ExactMatch exact_match;
  double version = 1;
  Node source;  // as it stands in the file
};
/// Strict: a key that is not known is refused, as one whose value needs Python.
ZeroShotTask read_zero_shot_task(const Path& file);

struct ZeroShotMetric {
  std::string name, filter = "none";
  double value = 0;
  std::optional<double> stderr_;  // of the mean over documents
};
/// The mean, with its standard error where there are two values or more.
ZeroShotMetric mean_of(const std::string& name, const std::vector<double>& values);

struct ZeroShotResult {
  int64_t documents = 0, all_documents = 0;
  std::vector<ZeroShotMetric> metrics;
};

struct ZeroShotOptions {
  int64_t limit = 0;  // documents at most; 0: all
  int64_t batch_tokens = 2048;
  bool add_bos_token = true;
};
/// multiple_choice: acc, the share of documents whose most likely choice is right, and acc_norm, by likelihood per
/// character. loglikelihood: perplexity of the targets and acc, the share that greedy decoding would give.
/// loglikelihood_rolling: word_perplexity, byte_perplexity, bits_per_byte. generate_until: what the task asks for of
/// greedily written answers, exact_match, or BLEU and chrF of all of them. Polls stop_signal(), failing when asked to.
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
