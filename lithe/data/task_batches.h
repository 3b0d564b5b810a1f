// Labelled examples as batches of framed sequences.
#pragma once

#include "lithe/data/batches.h"
#include "lithe/data/features.h"
#include "lithe/data/task.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/truncation.h"

namespace lithe {

/// How examples are read, beside their text.
struct TaskReading {
  FeatureReaders features = {};
  AnswerLayout answers = {};
  Truncation truncation = {};           // of texts that are too long
  std::vector<Streams> streams = {};    // text: of which each reading in training draws one; empty: both
  Streams eval_stream = Streams::both;  // text: what else is read of a source
};

/// One sequence of an example; a long context of a question makes several.
struct TaskSequence {
  int64_t example = 0;
  std::vector<int32_t> tokens;
  int64_t rows = 0;
  int64_t first_rows = 0;        // of a pair: rows before its second text; else all
  int64_t row_of_word = 0;       // span: the row of pieces[0]
  std::vector<int32_t> word_of;  // of each row, where there are words; -1: a special token
  std::vector<int64_t> words;    // tagging, parsing: the row of each word's first token, -1 for a word that did not fit
  std::vector<Answer> pieces;    // span: the word that each row from row_of_word on is of, as it stands in the context
  std::map<std::string, std::vector<int32_t>> sources;  // tokens of Example::sources, framed
  int64_t begin_row = 0, end_row = 0;  // span: the answer's first and last row; 0 and 0: it is not in this sequence
  int64_t most_features = 0;           // rows of features beside its text, at most
  std::vector<int32_t> source;         // text: what an encoder reads before the features
  int64_t answer = 0;                  // text: the first row that predicts the answer
};

/// The batches hold equally many sequences, batch_tokens / sequence_length of them, but the last. Shuffled: in an order
/// that is a pure function of (seed, epoch); else in the order of the examples. Labels: [B] classes or values, [N] tags
/// on the first tokens of words, [2B] begins and ends, of transcriptions as many as they have (Head::count), [N] next
/// tokens of what is written (AnswerLayout).
///
/// Features stand behind the text of their example, before what a decoder alone writes, modality by modality, as tokens
/// of their kind (Batch::modalities); an example that lacks one has no rows of it. Shuffled batches are for training:
/// their readings are augmented.
class TaskBatches : public BatchSource {
 public:
  /// Tokenizes all examples. Longer ones are cut to sequence_length as `reading` says, which `cut()` counts; contexts
  /// of questions are divided instead, into parts that overlap by half. Fails on features that no reader is for.
  TaskBatches(std::vector<Example> examples, TaskType type, const Tokenizer& tokenizer, int64_t sequence_length,
              int64_t batch_tokens, uint64_t seed, bool shuffle, TaskReading reading = {});

  int64_t batches_per_epoch() const override;
  int64_t largest_batch() const override { return largest_; }
  std::map<std::string, int64_t> largest_sources() const override;
  Batch batch(int64_t epoch, int64_t index) const override { return make(epoch, index, false); }
  /// text: the same without the answers, as far as a model that writes them reads.
  Batch prompts(int64_t epoch, int64_t index) const { return make(epoch, index, true); }

  const std::vector<Example>& examples() const { return examples_; }
  TaskType type() const { return type_; }
  bool shuffled() const { return shuffle_; }
  /// In the order of the examples.
  const std::vector<TaskSequence>& sequences() const { return sequences_; }
  int64_t cut() const { return cut_; }
  /// Says so in a line of the log, if any were.
  void warn_of_cut() const;
  /// text: what ends an answer, and the most tokens that one may have.
  int32_t end() const { return end_; }
  int64_t longest_answer() const { return sequence_length_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Checksum of tokens and labels.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  TaskType type_;
  int64_t token_width_, sequence_length_, batch_size_, largest_ = 0, largest_source_ = 0, cut_ = 0;
  uint64_t seed_, fingerprint_ = 0;
  int32_t end_ = 0;                    // text: behind each answer
  std::vector<int32_t> instructions_;  // text: behind the begin of each
  bool shuffle_;
  const Tokenizer* tokenizer_;  // of the model, which outlives its batches
  std::vector<Example> examples_;
  std::vector<TaskSequence> sequences_;
  TaskReading reading_;
  struct Order {  // of the epoch that was asked for last
    std::mutex mutex;
    int64_t epoch = -1;
    std::shared_ptr<const std::vector<int64_t>> order;
  };
  std::unique_ptr<Order> order_ = std::make_unique<Order>();

  std::shared_ptr<const std::vector<int64_t>> order_of(int64_t epoch) const;
  int64_t most_features(const Example& example, int64_t index, int64_t max_tokens) const;
  void add_features(Batch& batch, int64_t example, int64_t epoch) const;
  /// The label of an example whose features are mixed; else its own.
  int32_t label_of(int64_t example, int64_t epoch) const;
  struct Mixed {        // by mix-up
    int64_t with = -1;  // an example; -1: none
    double share = 1;   // of the example itself
    bool own_label = true;
  };
  Mixed mixed(int64_t example, int64_t epoch) const;
  Batch make(int64_t epoch, int64_t index, bool prompts) const;
  void add_transcript(Batch& batch, const Example& example) const;
  /// What this reading of an example's source reads.
  Streams streams_of(const Example& example, int64_t index, int64_t epoch) const;
  void write_answer(Batch& batch, const TaskSequence& sequence, int64_t epoch, bool prompt) const;
  void add_answer(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens);
  void add_text(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens);
  void add_words(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens);
  void add_question(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens);
};

}  // namespace lithe
