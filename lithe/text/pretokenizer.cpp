#include "lithe/text/pretokenizer.h"

#include <algorithm>
#include <exception>

#include "lithe/base/threads.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/unicode_scripts.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr size_t block_bytes = 16 << 20;  // cut at a time, which bounds memory
constexpr size_t block_pieces = 4 << 20;
constexpr size_t parallel_bytes = 1 << 16;  // less is cut by one thread

size_t character_length(std::string_view text, size_t at) { return utf8_unit(text.substr(at)).length; }

/// The end of the piece that starts at `at`, when matches are isolated. A function of the text and `at` alone, so that
/// cutting may start anywhere a piece starts.
size_t isolated_end(const Pattern& pattern, std::string_view text, size_t at) {
  size_t from = at, begin = 0, end = 0;
  while (from < text.size() && pattern.find(text, from, begin, end)) {
    if (begin > at) return begin;
    if (end > at) return end;
    from += character_length(text, from);  // an empty match cuts nothing
  }
  return text.size();
}

/// Ends of isolated pieces of text[begin, ...) up to the first at or after `limit`.
void isolated_ends(const Pattern& pattern, std::string_view text, size_t begin, size_t limit,
                   std::vector<size_t>& ends) {
  while (begin < limit) ends.push_back(begin = isolated_end(pattern, text, begin));
}

/// The same with many threads. Each starts at a guess; two walks that meet at one boundary are the same from there, so
/// the walk that is known to be right takes over the next one where it meets it.
std::vector<size_t> isolated_ends(const Pattern& pattern, std::string_view text, size_t begin, size_t limit) {
  const size_t parts =
      std::clamp<size_t>((limit - begin) / parallel_bytes, 1, omp_in_parallel() ? 1 : size_t(threads()));
  std::vector<size_t> starts(parts + 1, limit);
  for (size_t i = 0; i < parts; ++i) {
    starts[i] = begin + (limit - begin) * i / parts;
    while (i > 0 && starts[i] < limit && (static_cast<unsigned char>(text[starts[i]]) & 0xC0) == 0x80) ++starts[i];
  }
  std::vector<std::vector<size_t>> walks(parts);
  std::vector<std::exception_ptr> errors(parts);  // an exception must not leave a parallel region
  parallel_for(int64_t(parts), 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      try {
        isolated_ends(pattern, text, starts[i], starts[i + 1], walks[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);

  std::vector<size_t> ends = std::move(walks[0]);
  for (size_t i = 1; i < parts; ++i) {
    const auto& walk = walks[i];
    size_t at = ends.empty() ? begin : ends.back();
    while (at < starts[i + 1] && at != starts[i] && !std::binary_search(walk.begin(), walk.end(), at))
      ends.push_back(at = isolated_end(pattern, text, at));
    if (at < starts[i + 1]) ends.insert(ends.end(), std::upper_bound(walk.begin(), walk.end(), at), walk.end());
  }
  return ends;
}

/// Pieces of `text` by a split of any behaviour.
void cut(const Split& split, std::string_view text, std::vector<PreTokenizer::Piece>& out) {
  struct Span {
    size_t begin, end;
    bool match;
  };
  std::vector<Span> spans;
  size_t done = 0, from = 0, begin = 0, end = 0;
  while (from < text.size() && split.pattern.find(text, from, begin, end)) {
    const bool empty = begin == end;
    from = !empty ? end : end < text.size() ? end + character_length(text, end) : end;
    // An empty match counts, as it parts what would be joined, but not right behind a match.
    if (empty && begin == done && !spans.empty()) continue;
    if (begin > done) spans.push_back({done, begin, split.invert});
    spans.push_back({begin, end, !split.invert});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), split.invert});

  std::vector<Span> kept;
  bool before = false;  // the previous span was a match
  for (const Span& span : spans) {
    bool join = false;
    switch (split.behavior) {
      case Split::Behavior::isolated: break;
      case Split::Behavior::removed:
        if (span.match) continue;
        break;
      case Split::Behavior::merged_with_previous: join = span.match && !before && !kept.empty(); break;
      case Split::Behavior::merged_with_next: join = before && !span.match; break;
      case Split::Behavior::contiguous: join = !kept.empty() && span.match == before; break;
    }
    if (join)
      kept.back().end = span.end;
    else
      kept.push_back(span);
    before = span.match;
  }
  for (const Span& span : kept) out.push_back(text.substr(span.begin, span.end - span.begin));
}

/// Pieces of `bytes` by a cut of their spelling, of which each character is a byte.
void cut_spelling(std::string_view bytes, const std::function<void(std::string_view)>& cut,
                  std::vector<PreTokenizer::Piece>& out) {
  const std::string spelling = spell_bytes(bytes);
  const size_t first = out.size();
  cut(spelling);
  size_t at = 0, byte = 0;  // of the spelling, and which byte begins there
  const auto advance = [&](size_t to) {
    for (; at < to; ++byte) at += character_length(spelling, at);
    return byte;
  };
  for (size_t i = first; i < out.size(); ++i) {
    const size_t begin = size_t(out[i].data() - spelling.data()), end = begin + out[i].size();
    const size_t from = advance(begin);
    out[i] = bytes.substr(from, advance(end) - from);
  }
}

/// `text` with its spaces as `how` says.
std::string spaced(const Metaspace& how, std::string_view text, bool first) {
  std::string out;
  for (const char c : text) {
    if (c == ' ')
      out += how.replacement;
    else
      out += c;
  }
  const bool prefix = how.prefix == Metaspace::Prefix::always || (how.prefix == Metaspace::Prefix::first && first);
  return prefix && !out.starts_with(how.replacement) ? how.replacement + out : out;
}

}  // namespace

void PreTokenizer::add_split(Pattern pattern, Split::Behavior behavior, bool invert) {
  steps_.push_back({PreTokenizerStep::Kind::split, {{std::move(pattern), behavior, invert}}, {}, spelled_});
}

void PreTokenizer::add_bert() {
  add_split(Pattern(R"(\s)", "BertPreTokenizer"), Split::Behavior::removed);
  add_split(Pattern(punctuation_pattern, "BertPreTokenizer"));
}

void PreTokenizer::add_metaspace(Metaspace metaspace, bool split) {
  const std::string replacement = metaspace.replacement;
  steps_.push_back({PreTokenizerStep::Kind::metaspace, {}, std::move(metaspace)});
  if (split) add_split(Pattern::literal(replacement, "Metaspace"), Split::Behavior::merged_with_next);
}

void PreTokenizer::apply(size_t step, Piece piece, bool first, std::vector<Piece>& out, Storage& storage) const {
  if (step == steps_.size()) {
    if (!piece.empty()) out.push_back(piece);
  } else if (steps_[step].kind == PreTokenizerStep::Kind::prefix_space) {
    if (!piece.starts_with(' ')) piece = storage.emplace_back(" " + std::string(piece));
    apply(step + 1, piece, first, out, storage);
  } else if (steps_[step].kind == PreTokenizerStep::Kind::metaspace) {
    apply(step + 1, storage.emplace_back(spaced(steps_[step].metaspace, piece, first)), first, out, storage);
  } else {
    std::vector<Piece> cuts;
    const auto by = [&](std::string_view text) {
      if (steps_[step].kind == PreTokenizerStep::Kind::scripts)
        cut_by_script(text, cuts);
      else
        cut(steps_[step].split[0], text, cuts);
    };
    if (steps_[step].spelled)
      cut_spelling(piece, by, cuts);
    else
      by(piece);
    for (const Piece& each : cuts) apply(step + 1, each, first && each.data() == piece.data(), out, storage);
  }
}

void PreTokenizer::valid_text(std::string_view text, bool first, std::vector<Piece>& out, Storage& storage,
                              const std::function<void()>& flush) const {
  size_t step = 0;
  if (!steps_.empty() && steps_[0].kind == PreTokenizerStep::Kind::prefix_space) {
    if (!text.starts_with(' ')) text = storage.emplace_back(" " + std::string(text));
    step = 1;
  }
  const bool isolated = step < steps_.size() && steps_[step].kind == PreTokenizerStep::Kind::split &&
                        !steps_[step].spelled && steps_[step].split[0].behavior == Split::Behavior::isolated;
  if (!isolated) return apply(step, text, first, out, storage);

  const Pattern& pattern = steps_[step].split[0].pattern;
  for (size_t at = 0; at < text.size();) {
    size_t limit = std::min(text.size(), at + block_bytes);
    while (limit < text.size() && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) ++limit;
    for (const size_t end : isolated_ends(pattern, text, at, limit)) {
      apply(step + 1, text.substr(at, end - at), first && at == 0, out, storage);
      at = end;
    }
    if (at < text.size()) flush();
  }
}

void PreTokenizer::pieces(std::string_view text, const Sink& sink, bool first) const {
  std::vector<Piece> out;
  Storage storage;
  const auto flush = [&] {
    if (!out.empty()) sink(out);
    out.clear();
  };
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    if (valid > 0) valid_text(text.substr(0, valid), first, out, storage, flush);
    first = false;
    size_t end = valid;
    while (end < text.size() && utf8_unit(text.substr(end)).kind != Utf8Unit::Kind::character)
      end += utf8_unit(text.substr(end)).length;
    if (end > valid) out.push_back(text.substr(valid, end - valid));
    text.remove_prefix(end);
    if (out.size() >= block_pieces) flush();
  }
  flush();
}

}  // namespace lithe
