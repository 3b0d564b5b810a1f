#include "lithe/text/framing.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {
namespace {

/// What stands before the first text, between the two, and at the end.
struct Frame {
  std::vector<int32_t> before, between, after;
};

Frame frame_of(const Tokenizer& tokenizer, bool pair) {
  const Specials& s = tokenizer.specials();
  const bool bert = s.cls && s.sep;
  const auto first = bert ? s.cls : s.bos, last = bert ? s.sep : s.eos;
  Frame frame;
  if (first) frame.before = {*first};
  if (last) frame.after = {*last};
  if (!pair) return frame;
  check(last.has_value(), "frame",
        "a pair of texts needs a token between them, but the tokenizer has neither sep nor eos: name one in "
        "tokenizer_config.json");
  const bool twice = tokenizer.width() > 1 || (bert && tokenizer.token(*s.sep) == "</s>");
  frame.between.assign(twice ? 2 : 1, *last);
  return frame;
}

int64_t size_of(const Frame& frame) { return int64_t(frame.before.size() + frame.between.size() + frame.after.size()); }

/// Shortens two lengths to `room` together: the longer first, of equals the second (BERT's _truncate_seq_pair).
void truncate(int64_t& a, int64_t& b, int64_t room) {
  int64_t& longer = a > b ? a : b;
  const int64_t shorter = std::min(a, b);
  longer = std::min(longer, std::max(shorter, room - shorter));
  if (a + b <= room) return;
  a = (room + 1) / 2;
  b = room / 2;
}

}  // namespace

int64_t frame_specials(const Tokenizer& tokenizer, bool pair) { return size_of(frame_of(tokenizer, pair)); }

FramedText frame(const Tokenizer& tokenizer, std::span<const int32_t> a, std::span<const int32_t> b, bool pair,
                 int64_t max_tokens, const Truncation& truncation) {
  const int64_t width = tokenizer.width();
  for (const auto& text : {a, b})
    check(int64_t(text.size()) % width == 0, "frame", "a text of ", text.size(),
          " ints is no whole number of tokens of ", width, " ints");
  check(pair || b.empty(), "frame", "a second text is given, but pair is false");
  const Frame specials = frame_of(tokenizer, pair);
  const int64_t room = max_tokens - size_of(specials);
  check(room >= 0, "frame", "max_tokens ", max_tokens, " is below the ", size_of(specials), " special tokens around ",
        pair ? "a pair" : "a text",
        "; raise data.sequence_length, which holds these and the rows of pictures or sounds");

  FramedText out;
  out.a_tokens = int64_t(a.size()) / width;
  out.b_tokens = int64_t(b.size()) / width;
  if (pair)
    truncate(out.a_tokens, out.b_tokens, room);
  else
    out.a_tokens = std::min(out.a_tokens, room);

  out.tokens.reserve(size_t((size_of(specials) + out.a_tokens + out.b_tokens) * width));
  const auto add_specials = [&](const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      out.tokens.push_back(id);
      out.tokens.resize(out.tokens.size() + size_t(width - 1));  // a special token has no payload
    }
  };
  const auto add_text = [&](std::span<const int32_t> text, int64_t tokens) {
    const int64_t begin = int64_t(out.tokens.size()) / width;
    const std::vector<int32_t> kept = truncation.cut(text, tokens, width);
    out.tokens.insert(out.tokens.end(), kept.begin(), kept.end());
    return begin;
  };
  add_specials(specials.before);
  out.a_begin = add_text(a, out.a_tokens);
  add_specials(specials.between);
  if (pair) out.b_begin = add_text(b, out.b_tokens);
  add_specials(specials.after);
  return out;
}

}  // namespace lithe
