#include "lithe/data/utf8_filter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr uint64_t kLongestLine = uint64_t(1) << 28;

const char* binary_kind(std::string_view head) {
  const auto begins = [&](std::string_view magic) { return head.substr(0, magic.size()) == magic; };
  if (begins("\x1F\x8B")) return "gzip data; name it .gz";
  if (begins("\x28\xB5\x2F\xFD")) return "zstd data; name it .zst";
  if (begins("\xFF\xFE") || begins("\xFE\xFF")) return "UTF-16 text; convert it with: iconv -f UTF-16 -t UTF-8";
  if (begins("PK\x03\x04")) return "a zip archive; unpack it";
  if (begins("PAR1")) return "a Parquet file; export its text as JSON lines";
  if (begins("BZh")) return "bzip2 data; unpack it, or pack it as .gz or .zst";
  if (begins("\xFD"
             "7zXZ"))
    return "xz data; unpack it, or pack it as .gz or .zst";
  if (begins("%PDF-")) return "a PDF; extract its text";
  return nullptr;
}

}  // namespace

void unify_line_ends(std::string& text) {
  size_t to = text.find("\r\n");
  if (to == std::string::npos) return;
  for (size_t from = to; from < text.size(); ++from)
    if (text[from] != '\r' || from + 1 == text.size() || text[from + 1] != '\n') text[to++] = text[from];
  text.resize(to);
}

void Utf8Filter::unify_line_ends(bool last) {
  if (std::exchange(held_return_, false)) out_.insert(out_.begin(), '\r');
  if (!last && out_.ends_with('\r')) {
    held_return_ = true;
    out_.pop_back();
  }
  lithe::unify_line_ends(out_);
}

void Utf8Filter::bound_lines() {
  for (size_t at = 0; at < out_.size();) {
    const size_t end = std::min(out_.find('\n', at), out_.size());
    line_bytes_ += end - at;
    check(line_bytes_ <= kLongestLine, "corpus", file_, ":", line_, ": the line has more than ", kLongestLine >> 20,
          " MiB; divide it into lines");
    if (end < out_.size()) ++line_, line_bytes_ = 0;
    at = end + 1;
  }
}

std::string_view Utf8Filter::take(std::string_view chunk, bool last) {
  out_.clear();
  judge(chunk, last);
  unify_line_ends(last);
  bound_lines();
  return out_;
}

// Appends to out_ what of the chunk is text.
void Utf8Filter::judge(std::string_view chunk, bool last) {
  std::string joined;
  if (!waiting_.empty()) {
    joined = std::move(waiting_);
    waiting_.clear();
    joined += chunk;
    chunk = joined;
  }
  if (!started_) {
    if (chunk.size() < 8 && !last) {  // too short for a mark or a magic number
      waiting_ = chunk;
      return;
    }
    started_ = true;
    head_ = chunk.substr(0, 8);
    if (chunk.substr(0, 3) == "\xEF\xBB\xBF") {
      chunk.remove_prefix(3);
      position_ += 3;
    }
  }
  if (chunk.empty()) return;
  if (const void* nul = std::memchr(chunk.data(), 0, chunk.size())) {
    const uint64_t at = position_ + size_t(static_cast<const char*>(nul) - chunk.data());
    if (const char* kind = binary_kind(head_)) fail("corpus", "'", file_, "' is no UTF-8 text: it is ", kind);
    fail("corpus", "'", file_, "' is not text: byte ", at,
         " is NUL; give UTF-8 text or JSON lines, each plain, .gz or .zst");
  }
  while (!chunk.empty()) {
    const size_t valid = valid_utf8_prefix(chunk);
    out_ += chunk.substr(0, valid);
    position_ += valid;
    chunk.remove_prefix(valid);
    if (chunk.empty()) break;
    const Utf8Unit unit = utf8_unit(chunk);
    if (unit.kind == Utf8Unit::Kind::incomplete && !last) {
      waiting_ = chunk;
      break;
    }
    if (invalid_ == InvalidUtf8::refuse) {
      if (const char* kind = binary_kind(head_)) fail("corpus", "'", file_, "' is no UTF-8 text: it is ", kind);
      fail("corpus", "'", file_, "' is not valid UTF-8 at byte ", position_,
           "; convert it (iconv -f LATIN1 -t UTF-8), or set data.allow_invalid_utf8: true");
    }
    out_ += invalid_ == InvalidUtf8::keep ? chunk.substr(0, unit.length) : "\xEF\xBF\xBD";
    position_ += unit.length;
    chunk.remove_prefix(unit.length);
  }
}

}  // namespace lithe
