// Checks a stream of bytes for being UTF-8 text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lithe {

/// What happens to bytes that are no UTF-8: `replace` puts one U+FFFD in place of each invalid sequence.
enum class InvalidUtf8 { refuse, keep, replace };

/// Takes a file's bytes in chunks of any size. Drops a byte order mark at the front, makes each CRLF a line feed, and
/// refuses NUL bytes, the sign of a binary file, and lines of more than 256 MiB, which somebody would have to hold in
/// memory. Errors name `file` and the byte or line.
class Utf8Filter {
 public:
  Utf8Filter(std::string file, InvalidUtf8 invalid) : file_(std::move(file)), invalid_(invalid) {}
  /// The text of the chunk, valid until the next call. A character cut by the end of the chunk waits for the next one.
  std::string_view feed(std::string_view chunk) { return take(chunk, false); }
  /// The end of the file; returns what waited.
  std::string_view finish() { return take({}, true); }

 private:
  std::string file_;
  InvalidUtf8 invalid_;
  std::string waiting_;  // the beginning of a character
  std::string out_;
  std::string head_;       // the first bytes of the file, to name what it is
  uint64_t position_ = 0;  // of the first byte not yet judged
  bool started_ = false;
  bool held_return_ = false;  // a CR at the end of a chunk: a line feed may follow
  int64_t line_ = 1;          // that has begun
  uint64_t line_bytes_ = 0;   // of it so far

  std::string_view take(std::string_view chunk, bool last);
  void judge(std::string_view chunk, bool last);
  void unify_line_ends(bool last);
  void bound_lines();
};

/// The text with each CRLF as a line feed.
void unify_line_ends(std::string& text);

}  // namespace lithe
