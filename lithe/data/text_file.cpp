#include "lithe/data/text_file.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/data/byte_source.h"
#include "lithe/data/utf8_filter.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr size_t kChunk = size_t(1) << 20;
constexpr size_t kLongestFile = size_t(1) << 32;

}  // namespace

std::string read_text(const Path& path, std::string_view operation) {
  const auto source = open_decompressed(path);
  Utf8Filter filter(path.string(), InvalidUtf8::keep);  // refuse_invalid_utf8 also names the line
  std::string chunk(kChunk, '\0'), text;
  while (const size_t n = source->read(chunk.data(), chunk.size())) {
    text += filter.feed({chunk.data(), n});
    check(text.size() <= kLongestFile, operation, "'", path.string(), "' holds more than 4 GiB of text; divide it");
  }
  text += filter.finish();
  return text;
}

void refuse_invalid_utf8(std::string_view text, const std::string& name, std::string_view operation) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return;
  const auto before = text.substr(0, valid);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  fail(operation, name, ":", 1 + std::count(before.begin(), before.end(), '\n'), ": byte ", valid - line_start + 1,
       " of the line is not valid UTF-8; convert the file (iconv -f LATIN1 -t UTF-8)");
}

}  // namespace lithe
