// A safetensors file whose tensors come one at a time, in any order.
#pragma once

#include <map>
#include <set>
#include <string>

#include "lithe/base/files.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// Writes what write_safetensors() does. Shapes and types are known when it begins, numbers come by put(): each tensor
/// is written to its place and its checksum to the header, so that none has to stay in memory.
class SafetensorsWriter {
 public:
  struct Entry {
    Shape shape;
    DType dtype = DType::f32;
  };
  SafetensorsWriter(const Path& path, const std::map<std::string, Entry>& tensors,
                    const std::map<std::string, std::string>& metadata);

  /// The size of such a file.
  static int64_t file_bytes(const std::map<std::string, Entry>& tensors,
                            const std::map<std::string, std::string>& metadata);

  /// Each once, of the shape and type that were announced.
  void put(const std::string& name, const Tensor& tensor);
  /// Gives the file its name. Fails where a tensor is missing; without commit() nothing is there.
  void commit();

 private:
  struct Place {
    Entry entry;
    uint64_t data = 0, checksum = 0;  // where both are in the file
  };
  Path path_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Place> places_;
  std::set<std::string> written_;
  Temporary temporary_;

  void write(uint64_t at, const void* bytes, size_t count) const;
};

}  // namespace lithe
