// Checksums of files that do not stand in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lithe/base/files.h"
#include "lithe/base/held_bytes.h"

namespace lithe {

/// Bytes on their way into a file, in blocks of 1 MiB that are summed as they pass.
class ChecksummedBlocks {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  explicit ChecksummedBlocks(Sink sink) : sink_(std::move(sink)) {}

  void put(const void* bytes, size_t count);
  /// Hands on what is left, and returns chained_checksum() of all that passed.
  uint64_t finish();

 private:
  Sink sink_;
  std::string block_;  // not yet summed and handed on
  uint64_t sum_ = 0;

  void flush();
};

/// checksum() of blocks of 1 MiB, each seeded with the one before.
uint64_t chained_checksum(std::string_view bytes);
/// Of its first `count` bytes; of a map a block is in memory at a time, and none afterwards.
uint64_t chained_checksum(const HeldBytes& held, size_t count);

/// checksum() of all bytes of a file, read piece by piece.
uint64_t checksum_of_file(const Path& path);

/// checksum() of bytes of a mapped file. Of its memory a piece is held at a time, and none afterwards.
uint64_t checksum_of_mapped(const MappedFile& file, size_t begin, size_t count, uint64_t seed = 0);

}  // namespace lithe
