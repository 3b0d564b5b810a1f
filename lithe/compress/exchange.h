// Parts exchanged in a trained model: what fits is kept, what can be fitted is, all else begins anew.
#pragma once

#include <map>

#include "lithe/model/model.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

struct Exchanged {
  ModelConfig config;
  std::map<std::string, PendingTensor> parameters;  // kept and fitted; those that begin anew have their initial values
  uint64_t seed = 1;                                // of these
  /// One line each: "layers.0.ffn.up.weight", and how what was fitted came about.
  std::vector<std::string> kept, fitted, initialised, left;  // left: of the old model, without a place in the new one
  int64_t parameters_kept = 0, parameters_fitted = 0, parameters_initialised = 0;
  /// Whether more than 1 % of the numbers keep their place, of those that do or begin anew.
  bool keeps_enough() const { return 100 * (parameters_kept + parameters_fitted) > parameters_initialised; }
};

/// The model with these overrides ("model.mixer.output.type=hadamard"), each a key of section model. Parameters of the
/// same name and shape are kept. Fitted: heads that merge others start as their mean; heads of one seed as the mean and
/// head embeddings as what is nearest to each head's own matrix; a Hadamard output as the multiples of its columns that
/// are nearest to the old matrix's (least squares over uncorrelated contexts), a dense one as what it replaces exactly.
/// With a text, tokens `ids` i32 [N], where heads or output are exchanged, they are fitted to what the old layer makes
/// of that text: seeds and embeddings to the old heads, and then the output to the old output, by least squares; before
/// a Hadamard output the values, too, where that leaves less. `seed`: of what begins anew.
/// `parameters` are read one at a time, and again when the result's are; with a text the whole model once, to see the
/// rows that its layers read, and what is fitted to them stays in memory.
Exchanged exchange_parts(const ModelConfig& config, const std::map<std::string, PendingTensor>& parameters,
                         const std::vector<std::string>& overrides, uint64_t seed = 1, const Tensor& ids = {});

/// Writes the weights of the new model, a tensor or what begins anew of a layer at a time.
void write_exchanged(const Exchanged& exchanged, const Path& file);

}  // namespace lithe
