// Structural probes trained on a treebank, and what they score.
#pragma once

#include <map>

#include "lithe/base/spanning_tree.h"
#include "lithe/probe/predictor.h"
#include "lithe/trees/treebank.h"

namespace lithe::probe {

/// A treebank's trees as numbers.
struct GoldTree {
  int64_t first = 0;  // its first word among all
  DepTree tree;
  std::vector<int32_t> distances, depths;  // [m, m], [m]
  std::vector<TreeEdge> edges;
  std::vector<char> counts;  // of each word, whether its edges count without punctuation
  int64_t words() const { return tree.words(); }
};
/// Fails (usage) on a sentence without heads. Words count by their xpos; without that column by upos (not PUNCT).
std::vector<GoldTree> gold_trees(const std::vector<TreeSentence>& sentences, const std::string& file);

struct StructuralConfig {
  bool depth = false;                                  // else distance
  int64_t rank = 0;                                    // k; 0: as wide as the rows
  int64_t epochs = 10, batch = 20, least_steps = 500;  // FitConfig
  double learning_rate = 1e-3;
  uint64_t seed = 1;
};

/// A trained map A [d, k]. Each number of the rows is divided by its deviation over the training words first, which
/// changes A and not what it can say.
class StructuralProbe {
 public:
  StructuralProbe(const StructuralConfig& config, const WordRows& rows, const std::vector<GoldTree>& train,
                  const Layers& layers);
  ~StructuralProbe();
  StructuralProbe(StructuralProbe&&) noexcept;

  /// Of a sentence of m words from `first` on: squared distances [m, m], or squared lengths [m].
  std::vector<double> predict(const WordRows& rows, int64_t first, int64_t m) const;
  std::vector<double> mixture() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Scores by name. distance: uuas (all words), uuas_no_punctuation and spearman (of rows, 5 to 50 words, as Hewitt and
/// Manning). depth: root (the share of sentences), spearman.
using Scores = std::map<std::string, double>;
Scores distance_scores(const std::vector<GoldTree>& gold, const std::vector<std::vector<double>>& distances);
Scores depth_scores(const std::vector<GoldTree>& gold, const std::vector<std::vector<double>>& depths);
/// The spanning trees of distances.
std::vector<std::vector<TreeEdge>> trees_of(const std::vector<GoldTree>& gold,
                                            const std::vector<std::vector<double>>& distances);
/// Both together: the share of words whose head is right, trees from distances and directions from depths.
double head_score(const std::vector<GoldTree>& gold, const std::vector<std::vector<TreeEdge>>& trees,
                  const std::vector<std::vector<double>>& depths);
/// UUAS of trees that no model made, by name: chain, random projective, random; with and without punctuation.
std::map<std::string, Scores> trivial_trees(const std::vector<GoldTree>& gold, uint64_t seed);

}  // namespace lithe::probe
