// The bytes of a file as a stream: plain, or decompressed when the name ends in .gz or .zst.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lithe/base/files.h"

namespace lithe {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads at most `count` (> 0) bytes; 0 only at the end. Fails, naming the file, when it cannot be read, is
  /// truncated in its compressed form, or damaged.
  virtual size_t read(char* out, size_t count) = 0;
};

/// Opens a regular file as it is.
std::unique_ptr<ByteSource> open_plain(const Path& path);

/// Opens a regular file; `.gz` (any number of members) and `.zst` (any number of frames) are decompressed.
std::unique_ptr<ByteSource> open_decompressed(const Path& path);

/// Number of bytes that zlib, at its default level, makes of these.
size_t zlib_size(std::string_view bytes);

}  // namespace lithe
