// Where tensors of a model come from, under the names that its makers gave them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "lithe/base/files.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

class TensorSource {
 public:
  struct Entry {
    Shape shape;
    DType dtype = DType::f32;  // that read() gives
    std::string type;          // that is stored: "F16", "Q8_0"
    std::string file;
  };
  virtual ~TensorSource() = default;
  const std::map<std::string, Entry>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.count(name) > 0; }
  std::set<std::string> names() const;
  /// Fails when there is none, naming the tensor.
  const Entry& entry(const std::string& name) const;
  /// The numbers: f32 and bf16 as stored, f16 and blocks of integers as f32.
  virtual Tensor read(const std::string& name) const = 0;
  /// What errors call it.
  virtual std::string place() const = 0;

 protected:
  std::map<std::string, Entry> entries_;
};

/// model.safetensors of a directory, or the shards that model.safetensors.index.json lists. The files are mapped. Fails
/// on a shard that is missing or cut, on an index that points to what is not there, outside of the directory, or that
/// leaves a tensor of a shard out.
std::unique_ptr<TensorSource> open_safetensors(const Path& directory);

}  // namespace lithe
