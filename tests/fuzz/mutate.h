// Bytes with small changes, the same ones each time.
#pragma once

#include <string>
#include <vector>

#include "lithe/base/random.h"

namespace lithe {

/// A stream of small numbers.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  size_t below(size_t n) {
    return n ? size_t(random_below({.seed = seed_, .purpose = purpose_of("mutation")}, used_++, n)) : 0;
  }

 private:
  uint64_t seed_, used_ = 0;
};

/// `bytes` with one to four pieces changed, moved, left out or replaced by a token.
inline std::string mutated(std::string bytes, const std::vector<std::string>& tokens, Draw& draw) {
  for (size_t count = 1 + draw.below(4); count > 0; --count) {
    const size_t at = draw.below(bytes.size() + 1),
                 length = std::min(bytes.size() - at, 1 + draw.below(draw.below(8) ? 8 : 400));
    switch (draw.below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] = char(bytes[at] ^ (1 << draw.below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = char(draw.below(256));
        break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, bytes.substr(at, length)); break;
      case 4: bytes.insert(at, tokens[draw.below(tokens.size())]); break;
      case 5: bytes.replace(at, length, tokens[draw.below(tokens.size())]); break;
      case 6: bytes.insert(at, bytes.substr(draw.below(bytes.size() + 1), length)); break;
      case 7:
        if (draw.below(10) == 0) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace lithe
