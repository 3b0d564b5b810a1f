// What producers and consumers of DLPack tensors agree on, as far as arrays on the CPU need it: the layout of
// version 0.x in memory, which all consumers take.
#pragma once

#include <cstdint>

namespace lithe::python::dlpack {

enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4 };
enum DeviceType : int32_t { kCpu = 1 };

struct Device {
  int32_t type, id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DataTensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;  // strides in elements
  uint64_t byte_offset;
};
struct ManagedTensor {
  DataTensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

}  // namespace lithe::python::dlpack
