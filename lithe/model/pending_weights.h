// The parameters of a weights file, without the model in memory.
#pragma once

#include "lithe/model/model.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

/// The parameters of `outline`, a model that may be on the meta device, as `file` has them: each is read when it is
/// asked for, in the outline's type, or with `as_stored` in the file's. Fails as load_weights() does where names or
/// shapes differ, and on integer weights; `operation` stands in errors.
std::map<std::string, PendingTensor> weights_in(const Path& file, const Model& outline, const std::string& operation,
                                                bool as_stored = false);

}  // namespace lithe
