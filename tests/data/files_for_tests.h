// A directory of files for one test, and a check of error messages.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "lithe/base/error.h"
#include "tests/support/process.h"

namespace lithe {

using TestFiles = kit::Scratch;

/// One gzip member.
inline std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(compressBound(uLong(text.size())) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One zstd frame.
inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// Runs f, which must throw an Error whose message contains each of `parts`.
template <class F>
void expect_error(F&& f, const std::vector<std::string>& parts, ExitCode code = ExitCode::failed) {
  try {
    f();
  } catch (const Error& error) {
    for (const auto& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "missing '" << part << "' in: " << error.what();
    EXPECT_EQ(int(error.code()), int(code)) << error.what();
    return;
  }
  ADD_FAILURE() << "no error, but expected one with '" << (parts.empty() ? "" : parts[0]) << "'";
}

}  // namespace lithe
