// Timing variants against each other. A round measures every variant once, in an order that changes, and the baseline
// a second time as a control: the two baselines tell what a difference without a cause looks like on this machine now.
#pragma once

#include <memory>

#include "lithe/compare/variants.h"
#include "lithe/infer/translate.h"
#include "lithe/model/model.h"

namespace lithe::compare {

/// A prompt length and a batch size.
struct Cell {
  int64_t prompt = 0, batch = 0;
};

/// What a cell costs a variant, the same in every round.
struct CellCost {
  std::string refused;       // why it cannot be run; empty: it can
  int64_t state_bytes = 0;   // held behind the prompt and the decoded tokens, all sequences
  int64_t peak_bytes = 0;    // of weights, state and rows while prefilling and decoding
  double prefill_flops = 0;  // all sequences
  double decode_flops = 0;   // of one more token for each sequence
};

/// One variant in one round. NaN: not measured.
struct Timing {
  double train_step = 0;             // seconds
  std::vector<double> prefill;       // seconds by cell
  std::vector<double> decode_token;  // seconds of one step of all sequences, by cell
  std::vector<double> translation;   // seconds of all sentences, by search
};

struct Contender {
  std::string name;
  ModelConfig model;  // complete
  TrainConfig train;
  int64_t sequence_length = 0;
  Path weights;                     // empty: as initialised
  std::optional<DType> cache = {};  // of decoding (GenerateConfig::cache_type)
};

/// What is timed: steps on `batches`, and prompts from a text or sentences to translate.
struct SpeedMaterial {
  const BatchSource* batches = nullptr;
  std::optional<TokenStore> text;
  std::vector<std::string> sentences;                      // of models that translate, with all below
  FurtherTexts further;                                    // of the sentences
  std::vector<std::shared_ptr<const TreeSentence>> trees;  // the same, where the words of the sources are known
  Tokenizers tokenizers;
  TranslateConfig translate;
};

/// Seconds of one optimiser step: one to warm up, then the median of `steps`.
double time_training(const Contender& contender, const BatchSource& batches, int64_t steps);

class SpeedBench {
 public:
  /// The last contender is the control.
  SpeedBench(std::vector<Contender> contenders, const MeasureConfig& measure, SpeedMaterial material);

  /// Of a text.
  const std::vector<Cell>& cells() const { return cells_; }
  /// By contender and cell.
  const std::vector<std::vector<CellCost>>& costs() const { return costs_; }
  /// Of translations: the beams of each search, greedily first, and by contender and search the tokens of all
  /// sentences' translations.
  const std::vector<int64_t>& searches() const { return searches_; }
  const std::vector<std::vector<int64_t>>& translated() const { return translated_; }
  /// By contender. Empty when asked to stop.
  std::vector<Timing> round(int64_t number);

 private:
  std::vector<Contender> contenders_;
  MeasureConfig measure_;
  SpeedMaterial material_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<Cell> cells_;
  std::vector<std::vector<CellCost>> costs_;
  std::vector<int64_t> searches_;
  std::vector<std::vector<int64_t>> translated_;

  /// Gives the number of tokens.
  int64_t run_search(size_t contender, size_t search, double& seconds);
  void run_cell(size_t contender, size_t cell, double& prefill, double& decode_token, CellCost* cost);
};

}  // namespace lithe::compare
