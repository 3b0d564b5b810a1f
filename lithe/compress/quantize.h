// A trained model with its matrices rounded to integers, and what that changed.
#pragma once

#include "lithe/data/batches.h"
#include "lithe/model/model.h"
#include "lithe/model/rounding.h"

namespace lithe {

struct QuantizeOptions {
  kernels::PackedFormat format = kernels::PackedFormat::int8;
  int64_t group_size = 32;        // int4
  std::vector<std::string> keep;  // names of parameters that stay numbers; * stands for any text
  std::string integers = {};      // a word of kWeightIntegers, in place of format
  /// How: `nearest`; `gptq`, by second order; `awq`, with steps by the rows that come in. The last two need rows.
  std::string method = "nearest";
  /// Which integers they become.
  WeightIntegers weights() const { return weight_integers(integers.empty() ? name_of(format) : integers, group_size); }
};

/// What became of one matrix.
struct QuantizedLayer {
  std::string name;
  Shape shape;
  std::string format;  // a word of kWeightIntegers, or "kept"
  int64_t bytes_before = 0, bytes_after = 0;
  double weight_error = 0;             // relative, Euclidean
  std::optional<double> output_error;  // of its products on a text, relative; none: no text, or no product
};

/// Sums of products x^T x of the rows that each product of a model has read, f64 [inputs, inputs], by the name of its
/// matrix: of up to `max_tokens` tokens of the first epoch of `text`. Polls stop_signal().
std::map<std::string, Tensor> input_moments(const Model& model, const BatchSource& text, int64_t max_tokens);

/// A model in `precision` (f32 or bf16) with the matrices of `model` as integers; writes the same to `file`. `config`
/// of the result has quantization_config set. Fails when `keep` names nothing.
/// `moments`: input_moments() of the model, for methods that look at them; what no product read is rounded to the
/// nearest.
std::unique_ptr<Model> quantize_model(const Model& model, const QuantizeOptions& options, const Path& file,
                                      std::vector<QuantizedLayer>& layers,
                                      const std::map<std::string, Tensor>& moments = {});

/// How a model's predictions differ from another's on a text.
struct PredictionChange {
  int64_t tokens = 0;
  double nll_before = 0, nll_after = 0;  // natural log, per token
  double kl = 0;                         // KL(before || after) per token, natural log
  double same_choice = 0;                // share of tokens whose most likely prediction stayed
};

/// Scores up to `max_tokens` labels of the first epoch of `text`, whose batches label every row or none of it, and
/// fills in the output errors of `layers`. Polls stop_signal().
PredictionChange compare_predictions(const Model& before, const Model& after, const BatchSource& text,
                                     int64_t max_tokens, std::vector<QuantizedLayer>& layers);

}  // namespace lithe
