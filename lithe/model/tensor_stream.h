// Safetensors files of tensors that are not in memory together.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lithe/base/files.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// A tensor that is made when it is asked for, each time anew with the same numbers.
struct PendingTensor {
  Shape shape;
  DType dtype = DType::f32;
  std::function<Tensor()> read;
};

/// A tensor that is in memory already.
inline PendingTensor pending(const Tensor& tensor) {
  return {tensor.shape(), tensor.dtype(), [tensor] { return tensor; }};
}

/// write_safetensors() with one tensor in memory at a time. Each is read once, in the order of names.
void stream_safetensors(const Path& path, const std::map<std::string, PendingTensor>& tensors,
                        const std::map<std::string, std::string>& metadata);

}  // namespace lithe
