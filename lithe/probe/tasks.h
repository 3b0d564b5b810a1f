// Probing tasks: what is to be predicted of the words of a treebank.
#pragma once

#include "lithe/probe/predictor.h"
#include "lithe/trees/treebank.h"

namespace lithe::probe {

/// Spans of a sentence with their labels, words from 0 [Tenney et al. 2019].
struct SpanTarget {
  Span first, second;  // second empty: there is none
  std::vector<std::string> labels;
};

/// The sentences of a file, one after another.
struct Corpus {
  std::string file;
  std::vector<TreeSentence> sentences;
  std::vector<std::vector<SpanTarget>> spans;  // of each sentence; empty: the file is no file of spans
  int64_t left_out = 0;                        // sentences that cannot be probed
  bool has_spans = false;

  /// The first word of each sentence among all.
  std::vector<int64_t> first_words() const;
  std::vector<Sentence> texts() const;  // whose trees are of this corpus
};

/// CoNLL-U (.conllu), bracketed trees (.ptb) or spans (.jsonl): objects with "text", whose words stand between spaces,
/// and "targets", each with "span1": [begin, end), perhaps "span2", and "label", a text or a list. Sentences whose
/// heads make no tree are left out. `most` 0: all.
Corpus read_corpus(const Path& file, int64_t most);

struct TaskOptions {
  std::vector<int64_t> bins;  // of lengths: the longest of each bin but the last; empty: six alike in number
  int64_t vocabulary = 1000;  // words whose identity is probed: the most frequent
  bool log_numbers = true;    // numeracy: log10(1 + |x|) with its sign, else x
  uint64_t seed = 1;          // of pairs and swaps
};

/// A task over two corpora. Labels are learnt from the training instances; others in the test count as wrong.
struct Task {
  std::string name, title;
  bool regression = false, several_labels = false;
  bool swapped = false;  // its sentences are swapped()
  std::vector<std::string> labels;
  std::vector<Instance> train, test;
  int64_t unknown = 0;  // test instances of labels that training did not have
};

/// The names of all tasks; label:COLUMN is any column of a treebank.
inline const std::vector<std::string> kTasks{"distance",     "depth",    "heads",        "cloze", "pos",   "xpos",
                                             "label:COLUMN", "deprel",   "constituents", "spans", "sense", "word",
                                             "function",     "numeracy", "length",       "order", "swap"};
/// Fails (usage) on a name that is none.
void check_task(const std::string& name);

// spec: probe.edge | analysis | labels of spans and pairs of spans | TB 6.2.5
// spec: probe.sentence_length | analysis | bins of sentence lengths from pooled rows | TB 6.2.5
// spec: probe.reorder | analysis | which of two words comes first, and whether neighbours were swapped | TB 6.2.5
// spec: probe.word | analysis | identity, sense, value and function of words | TB 6.2.5
/// Of a task with labels or numbers. Fails (usage) where the corpora do not say what the task needs.
Task make_task(const std::string& name, const Corpus& train, const Corpus& test, const TaskOptions& options);

/// Where neighbouring words of each sentence may change places: word `at` and the next, if `swap`. -1: too short. Every
/// second sentence is swapped, as a draw decides; words that are equal are not chosen.
struct Swap {
  int64_t at = -1;
  bool swap = false;
};
std::vector<Swap> draw_swaps(const Corpus& corpus, uint64_t seed);
/// The sentences with those words swapped, without their trees.
std::vector<Sentence> swapped(const Corpus& corpus, const std::vector<Swap>& swaps);

/// The bin of a length: the first whose longest it does not exceed.
int32_t length_bin(int64_t length, const std::vector<int64_t>& longest);
/// The value that a word spells: digits with commas and points, or an English number word; NaN where it is none.
double number_of(const std::string& word);

/// What trivial methods score: a name and the share of right answers (of a regression: the mean squared error).
struct TaskBaselineScore {
  std::string name;
  double value = 0;
};
std::vector<TaskBaselineScore> trivial_scores(const Task& task);

}  // namespace lithe::probe
