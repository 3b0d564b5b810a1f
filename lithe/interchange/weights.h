// Parameters from the tensors of another format, and back.
#pragma once

#include "lithe/interchange/family.h"
#include "lithe/interchange/tensor_source.h"
#include "lithe/model/model.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

/// `text` has the form of `pattern`, in which * stands for any text.
bool matches(const std::string& text, const std::string& pattern);

/// Every parameter of mapping.model in f32, or bf16 where it is stored so; `source` and `mapping` must live as long as
/// they are read. Fails before anything is read when a tensor is missing, has another shape or no floating type, or has
/// no place in the mapping.
std::map<std::string, PendingTensor> parameters_of(const TensorSource& source, const Mapping& mapping);

/// The tensors that the mapping's format has for these parameters; both arguments must live as long as they are read,
/// and reading fails when two parameters that have one tensor there differ.
std::map<std::string, PendingTensor> write_parameters(const std::map<std::string, PendingTensor>& parameters,
                                                      const Mapping& mapping);

/// Shapes by name of a model that is not made.
std::map<std::string, Shape> parameter_shapes(const ModelConfig& config);

}  // namespace lithe
