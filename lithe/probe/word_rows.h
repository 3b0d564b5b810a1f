// What a frozen model makes of the words of sentences: the rows of every layer from one pass, kept on disk, and its
// attention between words.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/infer/load.h"
#include "lithe/trees/treebank.h"

namespace lithe::probe {

/// Words as a model reads them.
struct Sentence {
  std::vector<std::string> words;
  std::vector<bool> space_after;
  std::shared_ptr<const TreeSentence> tree = {};  // for models that read columns of a treebank; null: there is none
  bool operator==(const Sentence&) const = default;
};

/// One of a treebank, which must stay where it is.
Sentence sentence_of(const TreeSentence& sentence);

/// Numbers of words in all layers: layer 0 are the embedded rows as they enter the stack, layer l what the l-th gives;
/// the last is what the model gives, normed where its wiring ends so. f32.
class WordRows {
 public:
  int64_t layers() const { return int64_t(layers_.size()); }
  int64_t width() const { return width_; }
  int64_t words() const { return words_; }
  /// [words, width]
  std::span<const float> layer(int64_t layer) const { return layers_[size_t(layer)]; }
  const float* row(int64_t layer, int64_t word) const { return layers_[size_t(layer)].data() + word * width_; }

  /// From numbers in memory, [words, width] a layer.
  WordRows(std::vector<std::vector<float>> layers, int64_t width);
  WordRows() = default;

 private:
  friend class RowCache;
  int64_t width_ = 0, words_ = 0;
  std::vector<std::span<const float>> layers_;
  std::shared_ptr<const std::vector<std::vector<float>>> held_;
  std::shared_ptr<const std::vector<MappedFile>> mapped_;
};

/// How the rows of a word's pieces become one.
inline const std::vector<std::string> kPiecePoolings{"mean", "first", "last"};

struct RowOptions {
  std::string pieces = "mean";  // of kPiecePoolings
  int64_t max_tokens = 512;     // of a sentence, special tokens included
  Path cache;                   // directory; empty: rows are kept in memory
  uint64_t fingerprint = 0;     // of the model: its weights and how they are read
};

/// The model that probes read: its encoder where it has one.
struct Probed {
  const Model* model = nullptr;
  const Tokenizer* tokenizer = nullptr;
  int64_t layers() const;
  int64_t position_limit() const;
  bool causal() const;
};
Probed probed(const LoadedModel& loaded);

/// Which sentences can be probed: those of which every word has a token and all tokens fit into `max_tokens` and the
/// model.
std::vector<bool> fitting(const Probed& model, const std::vector<Sentence>& sentences, int64_t max_tokens);

// spec: probe.harness | analysis | predictors on frozen rows of every layer, cached; scalar mixtures | TB 6.2.5,
// Fig 6.9
/// The rows of all words of the sentences, which must fit, one after another. Texts are framed as in fine-tuning. With
/// a cache the rows are read from it, or written to it, as f32 with checksums; a damaged file is made anew. The name
/// follows from the model, the tokenizer, the words and the options. Above a compressor a word has the rows that stand
/// for its tokens, or 0 where none does. Fails (usage) where a compressor does not say which tokens its rows are of.
WordRows word_rows(const Probed& model, const std::vector<Sentence>& sentences, const RowOptions& options);

/// Attention between the words of one sentence, by layer: [heads, m, m] each, without heads where a layer has no map.
/// To a word goes what its pieces get, from a word the mean of what its pieces give [Clark et al. 2019]; what goes to
/// special tokens is left out.
struct WordMaps {
  struct Layer {
    int64_t heads = 0;
    std::vector<double> weights;
    std::span<const double> head(int64_t h, int64_t m) const {
      return std::span(weights).subspan(size_t(h * m * m), size_t(m * m));
    }
  };
  std::vector<Layer> layers;
};
WordMaps word_maps(const Probed& model, const Sentence& sentence);

}  // namespace lithe::probe
