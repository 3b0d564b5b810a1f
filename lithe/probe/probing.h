// A model probed: every task, every layer, beside what says nothing of the model.
#pragma once

#include <optional>

#include "lithe/base/json.h"
#include "lithe/probe/attention_trees.h"
#include "lithe/probe/cloze.h"
#include "lithe/probe/tasks.h"

namespace lithe::probe {

struct ProbingOptions {
  std::vector<std::string> tasks;  // of kTasks
  std::string train, test, facts;
  std::vector<std::string> predictors{"linear"};
  std::vector<int64_t> layers;  // from 0, the embeddings; empty: all
  bool mixture = true, random_weights = true, control = true, description_length = false;
  int64_t seeds = 3, train_sentences = 0, test_sentences = 0, select_sentences = 500;
  PredictorConfig predictor;
  StructuralConfig structural;
  TaskOptions task;
  ClozeOptions cloze;
  std::string symmetry = "mean";  // mean, max, min; empty: max of causal models, else mean
  RowOptions rows;
  uint64_t random_seed = 1;   // of the first model with random weights
  int64_t random_models = 3;  // drawn with this seed and those after it
  int64_t drawn = 4;          // sentences whose trees are drawn
};

/// A score of several seeds; of random weights each is of a model of its own, as far as there are so many.
struct Measured {
  std::vector<double> values;
  double mean() const;
  double deviation() const;  // n - 1; 0 for one seed
};

/// Scores over depth of one kind of predictor on one model.
struct Curve {
  std::string model;                                    // trained, random weights
  std::string predictor;                                // linear, mlp, edge, structural
  std::string labels;                                   // task, control
  std::map<std::string, std::vector<Measured>> scores;  // by layer as ProbingResult::columns
  std::vector<std::vector<double>> mixtures;            // of each seed, where a mixture was learned
  int64_t parameters = 0;                               // of the predictor of one layer
  const std::vector<Measured>* of(const std::string& score) const;
};

struct TaskResult {
  std::string name, title, score;  // score: the one that charts show
  bool lower_is_better = false;
  int64_t train = 0, test = 0, labels = 0, unknown = 0;
  std::vector<std::pair<std::string, Scores>> baselines;  // without a model
  std::vector<Curve> curves;
};

struct HeadsResult {
  struct Best {
    std::string score;   // uuas, uas, or a relation
    std::string detail;  // of a relation and uas: which direction
    HeadName head;
    double chosen = 0, test = 0;  // on the sentences that chose it, and on the test
    Measured random_weights;      // the test score of the best head of each model with random weights
    double baseline = 0;          // chain; of a relation the best fixed offset
    std::string baseline_name;
    int64_t words = 0;  // of the test
  };
  int64_t chosen_on = 0;  // sentences
  HeadTable test;
  std::vector<Best> best;
  std::map<std::string, Scores> trivial;
};

struct DrawnTree {
  std::vector<std::string> words;
  std::vector<TreeEdge> gold;
  std::vector<std::pair<std::string, std::vector<TreeEdge>>> predicted;  // by what made them
};

struct ProbingResult {
  std::string model, train, test, pieces;
  std::vector<std::string> columns;  // "0", "1", ..., "mixture"
  int64_t seeds = 0, random_models = 0, width = 0, train_sentences = 0, test_sentences = 0, left_out = 0;
  std::vector<TaskResult> tasks;
  std::optional<HeadsResult> heads;
  std::optional<ClozeResult> cloze, cloze_frequent;
  std::vector<ClozeResult> cloze_random;  // of each model with random weights
  std::vector<DrawnTree> drawn;
};

/// Probes a model; rows are those of `options.rows`, whose fingerprint is of the trained weights.
ProbingResult run_probing(const LoadedModel& loaded, const std::string& name, const ProbingOptions& options);

Json probing_json(const ProbingResult& result);
std::string probing_page(const ProbingResult& result);
std::string probing_table(const ProbingResult& result);

/// The column whose mean is best, among those of single layers; -1: there is none.
int64_t best_column(const TaskResult& task, const Curve& curve, const std::vector<std::string>& columns);

}  // namespace lithe::probe
