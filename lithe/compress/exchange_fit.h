// Least squares of new parts to what old ones make of a text.
#pragma once

#include <map>
#include <optional>

#include "lithe/model/model.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

using Weights = std::map<std::string, Tensor>;

/// The rows of a text that the mixer of each layer reads, with the sequences that the text was cut into.
struct MixerInputs {
  Sequences sequences;
  std::vector<Tensor> rows;  // a layer each: f32 [N, D]
};
/// ids i32 [N], cut into sequences of at most max_position_embeddings tokens. The model is in memory meanwhile.
MixerInputs mixer_inputs(const ModelConfig& config, const std::map<std::string, PendingTensor>& weights,
                         const Tensor& ids);

/// What a layer's mixer makes of rows: f32 [N, D]. None where it can not stand alone: it reads the embedding, another
/// layer's map or parameters, or shares them. `context`: what its output would read, [N, heads*d_v], in place of its
/// result; none where that is not as wide as the rows.
std::optional<Tensor> mixed(const ModelConfig& config, const Weights& weights, int64_t layer, const Tensor& rows,
                            const Sequences& sequences, bool context);

/// Of each column of x [N, C].
std::vector<double> column_means(const Tensor& x);

/// The matrix [C, D] and bias [D] (none unless asked for) with the least sum of squares of x W + b - y, drawn to `near`
/// (none: 0) as by a hundredth as many tokens.
struct LinearFit {
  Tensor weight, bias;
  double left = 0;  // the sum of squares that remains, of that of y around its mean
};
LinearFit fit_linear(const Tensor& x, const Tensor& y, const Tensor& near, bool bias);
/// Of alpha x + beta, channel by channel: weight is alpha [D], bias beta [D].
LinearFit fit_channels(const Tensor& x, const Tensor& y);

/// Values of a layer's attention, so that what its output reads comes nearest to `wanted` [N, h*d]: `name` is their
/// matrix [D, kv_heads*d] among `weights`, of whose values each of the h heads takes a sum with weights that stay. The
/// least sum of squares around the means, drawn to the matrix there is as in fit_linear(). None where mixed() has none.
std::optional<Tensor> fit_values(const ModelConfig& config, Weights weights, int64_t layer, const Tensor& rows,
                                 const Sequences& sequences, const std::string& name, int64_t kv_heads,
                                 const Tensor& wanted);

/// Heads [N, h*d] as one seed [N, d] times factors: combination [h, d] and factors [h, d], so that with least squares
/// head i of channel c is factors(i, c) * sum_j combination(j, c) head j.
struct SeedFit {
  std::vector<double> combination, factors;
};
SeedFit fit_seed(const Tensor& heads, int64_t count);

}  // namespace lithe
