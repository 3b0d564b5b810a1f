#include "lithe/text/truncation.h"

#include <algorithm>

namespace lithe {

void Truncation::fields(Fields& f) {
  f("keep", keep,
    "tokens to keep of a text that is too long (special tokens are always kept): its first, its last, or both ends "
    "(head and tail)",
    one_of({"first", "last", "ends"}));
  f("head_tokens", head_tokens, "keep ends: most tokens of the head; 0: half of the room, rounded up", at_least(0));
}

int64_t Truncation::head(int64_t tokens, int64_t room) const {
  if (tokens <= room) return tokens;
  if (keep == "last") return 0;
  return keep == "first" ? room : std::min(room, head_tokens ? head_tokens : (room + 1) / 2);
}

int64_t Truncation::place(int64_t token, int64_t tokens, int64_t room) const {
  const int64_t first = head(tokens, room), kept = std::min(tokens, room), gone = tokens - kept;
  if (token < first) return token;
  return token < first + gone ? -1 : token - gone;
}

std::vector<int32_t> Truncation::cut(std::span<const int32_t> text, int64_t room, int64_t width) const {
  const int64_t tokens = int64_t(text.size()) / width, first = head(tokens, room),
                last = std::min(tokens, room) - first;
  std::vector<int32_t> out(text.begin(), text.begin() + first * width);
  out.insert(out.end(), text.end() - last * width, text.end());
  return out;
}

}  // namespace lithe
