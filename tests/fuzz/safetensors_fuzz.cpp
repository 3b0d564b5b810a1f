// Opens bytes as a safetensors file and reads every tensor of moderate size. lithe::Error is the only exception
// allowed.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lithe/base/error.h"
#include "lithe/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lithe::SafetensorsFile file(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const auto& [name, entry] : file.entries()) {
      if (entry.end - entry.begin > size) __builtin_trap();  // a tensor larger than the file
      for (const lithe::DType type : {entry.dtype, lithe::DType::f32}) {
        const lithe::Tensor to = lithe::zeros(entry.shape, type);
        file.read(name, to);
      }
    }
  } catch (const lithe::Error&) {
  }
  return 0;
}
