// A trained model with its matrices rounded to integers, and what that changed.
#pragma once

#include <functional>

#include "lithe/data/batches.h"
#include "lithe/model/model.h"
#include "lithe/model/rounding.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

struct QuantizeOptions {
  kernels::PackedFormat format = kernels::PackedFormat::int8;
  int64_t group_size = 32;        // int4
  std::vector<std::string> keep;  // names of parameters that stay numbers; * stands for any text
  std::string integers = {};      // a word of kWeightIntegers, in place of format
  /// How: `nearest`; `gptq`, by second order; `awq`, with steps by the rows that come in. The last two need rows.
  std::string method = "nearest";
  std::map<std::string, std::string> formats = {};  // by parameter: other integers than the rest, or "kept"
  std::map<std::string, Tensor> steps = {};         // by parameter: given ones (round_at_steps), with method nearest
  /// Which integers they become.
  WeightIntegers weights() const { return weight_integers(integers.empty() ? name_of(format) : integers, group_size); }
  WeightIntegers weights(const std::string& parameter) const {
    const auto own = formats.find(parameter);
    return own == formats.end() ? weights() : weight_integers(own->second, group_size);
  }
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

/// Sums of products x^T x of the rows that the products with a matrix have read, f64 [inputs, inputs], by its name;
/// undefined where no product read it.
using InputMoments = std::function<Tensor(const std::string& matrix)>;

/// Those of up to `max_tokens` tokens of the first epoch of `text`; all arguments must live as long. At most `bytes` of
/// them (of one matrix at least) stand in memory, those of matrices that follow each other in the model: where others
/// are asked for, the text is run again. Polls stop_signal().
InputMoments input_moments(const Model& model, const BatchSource& text, int64_t max_tokens, int64_t bytes);
/// The bytes for a model: half of its weights, 256 MiB at least.
int64_t moments_budget(const Model& model);

/// Writes the matrices of a model to `file` as integers and all else as it is, a tensor at a time, and returns the
/// configuration of the result, which has quantization_config set. `outline` may be on the meta device: `numbers` are
/// read, each once. Fails when `keep` names nothing, and when numbers are not finite. `moments`: for methods that look
/// at them; what no product read is rounded to the nearest. Polls stop_signal().
ModelConfig write_quantized(const Model& outline, const std::map<std::string, PendingTensor>& numbers,
                            const QuantizeOptions& options, const Path& file, std::vector<QuantizedLayer>& layers,
                            const InputMoments& moments = {});

/// The same of a model in memory; returns the result, loaded.
std::unique_ptr<Model> quantize_model(const Model& model, const QuantizeOptions& options, const Path& file,
                                      std::vector<QuantizedLayer>& layers, const InputMoments& moments = {});

/// What a matrix could be stored as, and what that alone changes.
struct BitChoice {
  std::string format;  // a word of kWeightIntegers, or "kept"
  int64_t bytes = 0;
  double change = 0;  // of the predictions; 0 for "kept"
};
struct MatrixBits {
  std::string name;
  std::vector<BitChoice> choices;  // the largest first
};

/// What rounding each matrix alone to int8 and to int4 changes, by the method of `options`: the mean KL divergence of
/// the predictions from those of `model`, per row, natural log (where a prediction is one number: its mean squared
/// change over its mean square), over up to `max_tokens` tokens of the first epoch of `text`. The model is as it was
/// afterwards. Matrices that `options` keeps have one choice. Polls stop_signal(). Called before each matrix:
/// `progress(begun, all)`.
std::vector<MatrixBits> bit_sensitivity(Model& model, const QuantizeOptions& options, const InputMoments& moments,
                                        const BatchSource& text, int64_t max_tokens,
                                        const std::function<void(int64_t, int64_t)>& progress = {});

/// The format of each matrix, so that all together have at most `bytes` and the sum of their changes is small: steps to
/// more bits are taken in the order of what they save a byte, as far as they fit. Fails (ExitCode::memory) naming the
/// least where the smallest formats are too large.
std::map<std::string, std::string> choose_bits(const std::vector<MatrixBits>& matrices, int64_t bytes);

/// Formats so that the file of quantize_model() has at most `bytes`: choose_bits() for what matrices may take of it.
/// Fails (usage) where the model has no more as it is.
std::map<std::string, std::string> bits_for_size(const Model& model, const QuantizeOptions& options,
                                                 const std::vector<MatrixBits>& matrices, int64_t bytes);

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
