#include "array.h"

#include "dlpack.h"

namespace lithe::python {
namespace {

// As the module struct calls it; bf16 has no name there.
const char* format_of(DType type) {
  switch (type) {
    case DType::f64: return "d";
    case DType::f32: return "f";
    case DType::i64: return "q";
    case DType::i32: return "i";
    case DType::u8: return "B";
    case DType::i8: return "b";
    case DType::bf16: break;
  }
  return nullptr;
}

// What a view points to while it lives.
struct Described {
  Py_ssize_t sizes[4], strides[4];
};

void describe(const Tensor& x, Py_ssize_t unit, int64_t* sizes, int64_t* strides) {
  Py_ssize_t stride = unit;
  for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
    sizes[axis] = x.dim(axis);
    strides[axis] = stride;
    stride *= x.dim(axis);
  }
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const Array& array = py::handle(object).cast<const Array&>();
  const char* format = format_of(array.tensor.dtype());
  if (!format) {
    PyErr_SetString(PyExc_BufferError,
                    "the buffer protocol has no bf16; use torch.from_dlpack(x), or x.to('f32') for a copy in f32");
    return -1;
  }
  if (array.readonly && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "the array is read-only");
    return -1;
  }
  auto* described = new Described;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  describe(array.tensor, size_of(array.tensor.dtype()), reinterpret_cast<int64_t*>(described->sizes),
           reinterpret_cast<int64_t*>(described->strides));
  view->buf = array.tensor.raw();
  view->len = array.tensor.bytes();
  view->itemsize = size_of(array.tensor.dtype());
  view->readonly = array.readonly;
  view->ndim = array.tensor.shape().rank();
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? described->sizes : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? described->strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = described;
  view->obj = object;
  Py_INCREF(object);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Described*>(view->internal); }

dlpack::DataType dlpack_type(DType type) {
  const auto bits = uint8_t(8 * size_of(type));
  switch (type) {
    case DType::bf16: return {dlpack::kBfloat, bits, 1};
    case DType::f64:
    case DType::f32: return {dlpack::kFloat, bits, 1};
    case DType::u8: return {dlpack::kUInt, bits, 1};
    default: return {dlpack::kInt, bits, 1};
  }
}

// What a consumer of a capsule holds, as long as it likes.
struct Exported {
  Array array;
  int64_t sizes[4], strides[4];
  dlpack::ManagedTensor managed;
};

void drop_exported(dlpack::ManagedTensor* managed) { delete static_cast<Exported*>(managed->context); }

py::capsule to_dlpack(const Array& array) {
  auto* exported = new Exported{.array = array};
  describe(array.tensor, 1, exported->sizes, exported->strides);
  exported->managed = {.tensor = {.data = array.tensor.raw(),
                                  .device = {dlpack::kCpu, 0},
                                  .ndim = array.tensor.shape().rank(),
                                  .dtype = dlpack_type(array.tensor.dtype()),
                                  .shape = exported->sizes,
                                  .strides = exported->strides,
                                  .byte_offset = 0},
                       .context = exported,
                       .deleter = drop_exported};
  // A consumer renames the capsule and calls the deleter itself, once.
  return py::reinterpret_steal<py::capsule>(PyCapsule_New(&exported->managed, "dltensor", [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    managed->deleter(managed);
  }));
}

py::capsule dlpack_method(const Array& self, const py::object& stream, const py::object& /*max_version*/,
                          const py::object& dl_device, const py::object& copy) {
  if (!stream.is_none()) throw py::buffer_error("arrays of lithe are on the CPU, which has no streams");
  if (!dl_device.is_none() && dl_device.cast<std::pair<int, int>>() != std::pair(int(dlpack::kCpu), 0))
    throw py::buffer_error("arrays of lithe are on the CPU");
  if (!copy.is_none() && copy.cast<bool>()) return to_dlpack({.tensor = clone(self.tensor)});
  return to_dlpack(self);
}

py::tuple shape_of(const Array& self) {
  py::tuple out(size_t(self.tensor.shape().rank()));
  for (int axis = 0; axis < self.tensor.shape().rank(); ++axis) out[size_t(axis)] = self.tensor.dim(axis);
  return out;
}

Array converted(const Array& self, const std::string& dtype) {
  check_usage(dtype == "f32" || dtype == "f64" || dtype == "bf16", "array", "to() takes f32, bf16 or f64, not '", dtype,
              "'");
  const DType type = dtype_named(dtype);
  return type == self.tensor.dtype() ? self : Array{.tensor = convert(self.tensor, type)};
}

py::object numpy(const py::object& self) {
  const Array& array = self.cast<const Array&>();
  const py::object source = array.tensor.dtype() == DType::bf16 ? py::cast(converted(array, "f32")) : self;
  return py::module_::import("numpy").attr("asarray")(py::memoryview(source));
}

}  // namespace

void add_array(py::module_& module) {
  py::class_<Array>(module, "Array",
                    "A dense array of numbers on the CPU. numpy.asarray(x), memoryview(x), numpy.from_dlpack(x) and\n"
                    "torch.from_dlpack(x) see the same memory, without a copy, and keep it alive. bf16, which NumPy\n"
                    "lacks, goes to torch by DLPack; numpy() and to('f32') make a copy of it.",
                    py::custom_type_setup([](PyHeapTypeObject* type) {
                      type->ht_type.tp_as_buffer = &type->as_buffer;
                      type->as_buffer.bf_getbuffer = get_buffer;
                      type->as_buffer.bf_releasebuffer = release_buffer;
                    }))
      .def_property_readonly("shape", shape_of, "Sizes of the axes.")
      .def_property_readonly(
          "dtype", [](const Array& self) { return name_of(self.tensor.dtype()); },
          "f32, bf16, f64, i64, i32, i8 or u8.")
      .def_property_readonly(
          "ndim", [](const Array& self) { return self.tensor.shape().rank(); }, "Number of axes.")
      .def_property_readonly(
          "nbytes", [](const Array& self) { return self.tensor.bytes(); }, "Bytes of the numbers.")
      .def_property_readonly(
          "readonly", [](const Array& self) { return self.readonly; }, "Whether buffers of it are read-only.")
      .def("to", converted, py::arg("dtype"), "The array in f32, bf16 or f64: itself where it is that, else a copy.")
      .def("numpy", numpy, "A NumPy array of the same memory; of bf16 a copy in f32.")
      .def(
          "__array__",
          [](const py::object& self, const py::object& dtype, const py::object& copy) {
            py::object out = numpy(self);
            if (!dtype.is_none()) out = out.attr("astype")(dtype, py::arg("copy") = false);
            return !copy.is_none() && copy.cast<bool>() ? out.attr("copy")() : out;
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def(
          "tolist",
          [](const py::object& self) {
            const Array& array = self.cast<const Array&>();
            return py::memoryview(array.tensor.dtype() == DType::bf16 ? py::cast(converted(array, "f32")) : self)
                .attr("tolist")();
          },
          "The numbers as nested lists.")
      .def("__dlpack__", dlpack_method, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const Array&) { return std::pair(int(dlpack::kCpu), 0); })
      .def("__len__",
           [](const Array& self) {
             if (!self.tensor.shape().rank()) throw py::type_error("a number has no length");
             return self.tensor.dim(0);
           })
      .def("__repr__", [](const Array& self) { return cat("lithe.Array(", self.tensor, ")"); });
}

}  // namespace lithe::python
