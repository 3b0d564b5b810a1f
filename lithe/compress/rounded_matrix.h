// One matrix of a model as integers, by the method that was asked for.
#pragma once

#include "lithe/compress/quantize.h"
#include "lithe/model/packable.h"

namespace lithe {

/// The matrices that quantize_model() rounds. Fails (usage) where `keep` names nothing.
std::map<std::string, Packable> matrices_to_round(const Model& model, const QuantizeOptions& options);

/// The matrix of a parameter, without contents.
kernels::PackedMatrix matrix_to_round(const Parameter& p, const Packable& able, const WeightIntegers& as);

/// Its integers. `moments` as in quantize_model().
kernels::QuantizedTensors round_as(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                   const std::string& method, const InputMoments& moments);

}  // namespace lithe
