// How the attention of trained models behaves on a text: maps, indicators and logits of every layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lithe/analyze/indicators.h"
#include "lithe/infer/load.h"

namespace lithe::analyze {

/// The logits before the softmax of one layer, all heads, pairs that may meet.
struct LogitSummary {
  static constexpr std::array<double, 7> kQuantiles{0, 0.01, 0.25, 0.5, 0.75, 0.99, 1};
  double mean = 0, deviation = 0;
  std::array<double, 7> quantiles{};  // lowest, 1 %, 25 %, middle, 75 %, 99 %, highest
  int64_t pairs = 0;                  // of tokens, all heads
  std::vector<int64_t> counts;        // in equal bins, the same for all layers and models of an inspection
};

struct LayerView {
  std::string mixer;   // "mhe_mul", "mha, hadamard output", "nonapprox"
  MixerMaps maps;      // heads 0: this mixer has none
  Indicators numbers;  // NaN where there are no maps
  bool has_logits = false;
  LogitSummary logits;

  /// One head's map as numbers [L, L]; -1: the mean over heads.
  std::vector<double> map(int64_t head) const;
};

/// What a prediction takes from each patch of a picture.
struct PictureView {
  std::string reference;
  int64_t rows = 0, columns = 0;  // of patches
  std::vector<double> weights;    // [rows * columns]
};

struct ModelView {
  std::string name;
  std::vector<std::string> tokens;
  bool cut = false;  // the text was longer
  std::vector<LayerView> layers;
  Statistics statistics;  // what parts show of themselves (Pass::add_statistic)
  std::optional<PictureView> picture;
};

struct Inspection {
  static constexpr int kBins = 64;
  std::vector<ModelView> models;
  double logit_low = 0, logit_high = 0;  // of the bins: from the least 1 % to the greatest 99 % quantile of a layer
  /// Counts the logits of all models, which must be known by now.
  void count_logits();
};

/// A text as a model reads it.
struct FramedText {
  std::vector<int32_t> ids;         // width() ints a token
  std::vector<std::string> tokens;  // as a page shows them
  bool cut = false;                 // the text was longer
};
/// The special tokens around the text are those of training (inspect_model()); the text is cut to the room that
/// `length` leaves beside them. Fails (usage) where there is none, or the text has no tokens.
FramedText framed_text(const Tokenizer& tokenizer, Architecture architecture, const std::string& text, int64_t length);

/// `text` through the model with the special tokens around it that the model was trained with, cut to `length` tokens
/// in all: the beginning of a text before a decoder's, [CLS] and [SEP] or their like around an encoder's, the end
/// behind a source, which an encoder-decoder's encoder reads. Fails when it has none, or when the model has no layer.
ModelView inspect_model(const std::string& name, const LoadedModel& loaded, const std::string& text, int64_t length);

/// Runs the model (`encodes`: its encoder) on one sequence, and adds its layers and statistics to `view`, whose tokens
/// are those of the input. `config`: of what runs.
void inspect_input(const Model& model, const ModelConfig& config, const ModelInput& input, bool encodes,
                   ModelView& view);

}  // namespace lithe::analyze
