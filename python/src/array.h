// Tensors as arrays of Python, which see the same memory: the buffer protocol and DLPack.
#pragma once

#include <pybind11/pybind11.h>

#include "lithe/tensor/tensor.h"

namespace lithe::python {

namespace py = pybind11;

/// A dense array that keeps its memory alive. `readonly`: the buffer protocol says so; DLPack cannot.
struct Array {
  Tensor tensor;
  bool readonly = false;
  std::shared_ptr<const void> owner = {};  // of memory that the tensor's handle alone does not keep
};

void add_array(py::module_& module);

}  // namespace lithe::python
