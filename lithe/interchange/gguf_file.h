// GGUF files, version 3 (and 2, which differs in nothing that is read here): metadata, then tensors, aligned.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/kernels/gemm/integer_blocks.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {

/// A value of the metadata. Integers of every width are int64_t; u64 beyond that is refused.
struct GgufValue {
  std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>
      value;
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
};

/// How numbers of a tensor are stored. Blocks of integers have their scales within.
enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  bf16 = 30
};
const char* name_of(GgmlType type);
/// The same as weights that products read as they are; f32 where there are none.
kernels::PackedFormat packed_format(GgmlType type);
/// Numbers of a block, and its bytes.
int64_t block_numbers(GgmlType type);
int64_t block_bytes(GgmlType type);

/// `count` numbers, a multiple of the block, from their blocks; f32.
void read_blocks(GgmlType type, const void* from, int64_t count, float* to);
/// The other way, rounding as ggml's reference does: f32, bf16, q8_0, q4_0.
void write_blocks(GgmlType type, const float* from, int64_t count, void* to);

/// A file opened for reading. All of the header is checked against the file's size before use.
class GgufFile {
 public:
  struct Entry {
    Shape shape;  // rows first, as tensors here; the file has the columns first
    GgmlType type;
    uint64_t begin = 0;  // in the file
  };
  explicit GgufFile(const Path& path);
  /// From memory, for tests and fuzzing; `origin` stands in errors.
  GgufFile(std::string_view bytes, const std::string& origin);

  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::string& origin() const { return origin_; }
  /// bf16 as stored, all else as f32.
  Tensor read(const std::string& name) const;
  /// As stored, in the file.
  std::string_view stored(const std::string& name) const;

 private:
  MappedFile file_;
  std::string_view bytes_;
  std::string origin_;
  std::map<std::string, GgufValue> metadata_;
  std::map<std::string, Entry> entries_;
  void parse();
};

/// Writes a version 3 file, atomically, with one tensor in memory at a time. Metadata and tensors in the order given;
/// tensors f32 or bf16, written as `type` says.
struct GgufTensor {
  std::string name;
  PendingTensor tensor;
  GgmlType type = GgmlType::f32;
};
struct GgufPair {
  std::string key;
  GgufValue value;
  uint32_t type;  // of GGUF: 4 u32, 6 f32, 7 bool, 8 text; of arrays that of their items
};
void write_gguf(const Path& path, const std::vector<GgufPair>& metadata, const std::vector<GgufTensor>& tensors);

}  // namespace lithe
