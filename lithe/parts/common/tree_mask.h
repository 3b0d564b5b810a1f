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
  /// Refuses (usage) what does not go together, and in causal models what needs the whole text.
  void validate(int64_t num_attention_heads, bool causal = false) const;
};

/// The words of one sequence, and the tree above them. In a causal model: what is known of it, with heads that may be
/// later words.
struct WordTree {
  std::vector<int32_t> word_of;  // of each row, -1: of no word
  DepTree heads;
  LeafPlaces leaves;
  std::vector<std::vector<std::pair<int32_t, double>>> parser;  // of each word: a head from 1, 0: the root; probability
  int64_t words() const;
};

/// M of the words, [m, m], row by row; words that no path joins are endlessly apart. `number`, optional: what is made
/// of each M.
std::vector<double> word_mask(const TreeMaskConfig& config, const WordTree& tree,
                              const std::function<double(double)>& number = {});
/// Rows `first` and on of it in a causal model, [m - first, m]: word i and those before it, by the edges of these words
/// to their heads (known_words); 0 behind it.
std::vector<double> causal_word_mask(const TreeMaskConfig& config, const WordTree& tree, int64_t first,
                                     const std::function<double(double)>& number = {});

class TreeMask {
 public:
  /// `op` is named in errors.
  TreeMask(const TreeMaskConfig& config, const Field::Args& args);

  std::vector<std::string> reads_columns() const;
  bool hard() const { return config_.apply == "hard"; }
  /// Of each key of a causal model its columns, in i32 (Field::label_rows).
  int64_t label_count() const { return int64_t(reads_columns().size()); }
  Tensor label_rows(const Pass& pass, int64_t rows) const;
  /// hard(): the tiles of pairs that meet.
  kernels::AttentionPattern pattern(const FieldInput& in) const;
  /// Not hard(): the numbers of all pairs, made once a pass for all layers.
  LogitBias bias(const FieldInput& in) const;
  /// The sequences' words and trees, from the columns of the input, or of all keys of a text that is continued.
  std::vector<WordTree> trees(const FieldInput& in) const;
  bool has(int64_t head) const;
  /// What the mask makes of a logit: factor times it, plus shift; and of its weight: so many times it.
  struct Effect {
    double factor = 1, shift = 0, weight = 1;
  };
  Effect effect(double m) const;
  /// M of a pair of rows of a sequence, whose words have `mask`; none where one of them is of no word.
  std::optional<double> of_pair(const WordTree& tree, const std::vector<double>& mask, int64_t i, int64_t j) const;

 private:
  TreeMaskConfig config_;
  Field::Args args_;
  std::string key_;  // of Pass::once

  struct Pairs {
    Tensor numbers;
    std::vector<int64_t> offsets;
  };
  std::string key_of(const FieldInput& in, const char* what) const;
  const Tensor& column(const Pass& pass, const std::string& name, int64_t rows) const;
  Pairs make_pairs(const FieldInput& in) const;
  std::vector<std::shared_ptr<const Visits>> make_visits(const FieldInput& in) const;
  std::vector<std::vector<int32_t>> near(const WordTree& tree, int64_t first) const;
  void check_whole(const FieldInput& in) const;
};

}  // namespace lithe
