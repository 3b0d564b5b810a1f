// What a reader of a checksummed file reads: the file in place, or bytes in memory.
#pragma once

#include "lithe/base/files.h"

namespace lithe {

/// `owned` is aligned to 8 bytes where it is longer than a string's small buffer, as all that is read so must be.
struct HeldBytes {
  MappedFile map;
  std::string owned;
  std::string_view view() const { return map.data() ? map.view() : std::string_view(owned); }
};

}  // namespace lithe
