// Numbers of pairs of words from the trees of a text [TB 6.2.2]: what a field adds to logits, multiplies with them, or
// hides by.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/trees/tree.h"

namespace lithe {

struct TreeMaskConfig {
  std::string tree = "dependency", weight = "within", apply = "hard", squash = "none", statistics = "row",
              inverse = "shifted", direction = "symmetric";
  double max_distance = -1, tau = 1, sigma = 1, self_value = 1, diagonal = 1;
  bool normalise_rows = false, collapse_pos = false;
  std::vector<int64_t> heads;
  void fields(Fields& f);
  /// Refuses (usage) what does not go together.
  void validate(int64_t num_attention_heads) const;
};

/// The words of one sequence, and the tree above them.
struct WordTree {
  std::vector<int32_t> word_of;  // of each row, -1: of no word
  DepTree heads;
  LeafPlaces leaves;
  std::vector<std::vector<std::pair<int32_t, double>>> parser;  // of each word: a head from 1, 0: the root; probability
  int64_t words() const;
};

/// M of the words, [m, m], row by row; words that no path joins are endlessly apart.
std::vector<double> word_mask(const TreeMaskConfig& config, const WordTree& tree);

class TreeMask {
 public:
  /// `op` is named in errors.
  TreeMask(const TreeMaskConfig& config, const Field::Args& args);

  std::vector<std::string> reads_columns() const;
  bool hard() const { return config_.apply == "hard"; }
  /// hard(): the tiles of pairs that meet.
  kernels::AttentionPattern pattern(const FieldInput& in) const;
  /// Not hard(): the numbers of all pairs, made once a pass for all layers.
  LogitBias bias(const FieldInput& in) const;
  /// The sequences' words and trees, from the columns of the input.
  std::vector<WordTree> trees(const FieldInput& in) const;
  bool has(int64_t head) const;
  /// What the mask makes of a logit: factor times it, plus shift.
  struct Effect {
    double factor = 1, shift = 0;
  };
  Effect effect(double m) const;
  /// M of a pair of rows of a sequence, whose words have `mask`; none where one of them is of no word.
  std::optional<double> of_pair(const WordTree& tree, const std::vector<double>& mask, int64_t i, int64_t j) const;
  const TreeMaskConfig& config() const { return config_; }

 private:
  TreeMaskConfig config_;
  Field::Args args_;
  std::string key_;  // of Pass::once

  struct Pairs {
    Tensor numbers;
    std::vector<int64_t> offsets;
  };
  Pairs make_pairs(const FieldInput& in) const;
  std::vector<std::shared_ptr<const Visits>> make_visits(const FieldInput& in) const;
  void check_whole(const FieldInput& in) const;
};

}  // namespace lithe
