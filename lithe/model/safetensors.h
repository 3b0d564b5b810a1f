// The safetensors format: an 8-byte header length, a JSON header, then the tensors' bytes.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "lithe/base/files.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// Writes tensors under their names, atomically, in the order of names. f64, f32, bf16, i64, i32, u8, i8.
/// The bytes depend on names, shapes, dtypes, values and metadata only. The metadata get one key more,
/// "lithe.checksums": a JSON object of each tensor's xxHash (XXH3, 64 bits, as 16 hexadecimal digits), which covers its
/// bytes, name, dtype and shape, and all other metadata.
void write_safetensors(const Path& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

/// A file opened for reading. Everything in the header is checked against the file's size before use: names
/// unique, offsets within the file and not overlapping, sizes matching shape and dtype. Where the file has checksums, a
/// tensor is compared with its own when it is first read. Threads may read different tensors.
class SafetensorsFile {
 public:
  struct Entry {
    DType dtype;
    Shape shape;
    uint64_t begin = 0, end = 0;  // within the data part
    bool half = false;            // stored as F16, which no tensor here is: read() converts it; dtype says f32
    int64_t size() const { return half ? 2 : size_of(dtype); }  // bytes of an element
  };
  explicit SafetensorsFile(const Path& path);
  /// From memory, for tests and fuzzing; `origin` stands in errors.
  SafetensorsFile(std::string_view bytes, const std::string& origin);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Without the checksums.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Copies tensor `name` into `to` (same shape), converting between floating types.
  void read(const std::string& name, const Tensor& to) const;
  /// The same for some rows of a matrix, from row `first` on.
  void read_rows(const std::string& name, int64_t first, const Tensor& to) const;

 private:
  MappedFile file_;
  std::string_view bytes_;
  std::string origin_;
  uint64_t data_ = 0;  // where the tensors' bytes begin
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::string> checksums_;  // by tensor; empty: another program wrote the file
  mutable std::mutex guard_;
  mutable std::set<std::string> verified_;
  void parse();
  const Entry& entry(const std::string& name) const;
  void verify(const std::string& name, const Entry& e) const;
  void copy(const Entry& e, int64_t first, const Tensor& to) const;
  void copy_piece(const Entry& e, int64_t first, const Tensor& to, int64_t at, int64_t count) const;
};

}  // namespace lithe
