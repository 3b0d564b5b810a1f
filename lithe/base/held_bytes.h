// What a reader of a checksummed file reads: the file in place, or bytes in memory.
#pragma once

#include <atomic>

#include "lithe/base/files.h"

namespace lithe {

/// `owned` is aligned to 8 bytes where it is longer than a string's small buffer, as all that is read so must be.
struct HeldBytes {
  MappedFile map;
  std::string owned;
  std::string_view view() const { return map.data() ? map.view() : std::string_view(owned); }
  /// As MappedFile's; nothing for bytes in memory.
  void forget(size_t begin, size_t count) const { map.forget(begin, count); }
  /// After each read of a few bytes somewhere, from any thread: however much is read, memory holds a bounded part.
  void has_read(size_t bytes) const {
    constexpr size_t kAround = size_t(64) << 10;  // what the system maps with a page
    const size_t now = read_.fetch_add(bytes + kAround, std::memory_order_relaxed) + bytes + kAround;
    if (now < kMostHeld) return;
    read_.store(0, std::memory_order_relaxed);
    forget(0, map.size());
  }

 private:
  static constexpr size_t kMostHeld = size_t(16) << 20;
  mutable std::atomic<size_t> read_ = 0;
};

}  // namespace lithe
