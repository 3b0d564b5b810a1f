// Reads the input as a tokenizer.json and encodes a short text. lithe::Error is the only exception allowed.
#include <cstddef>
#include <cstdint>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lithe::set_log_level(lithe::LogLevel::error);
  try {
    const auto tokenizer = lithe::parse_tokenizer(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    const auto ids = tokenizer->encode_with_specials(" Hello, w\xC3\xB6rld 123!\n\xFF\xE2\x96\x81<|endoftext|> [MASK]");
    tokenizer->decode(ids);
    lithe::StreamDecoder stream(*tokenizer);
    for (const int32_t id : ids) stream.push(id);
    stream.finish();
    tokenizer->fingerprint();
  } catch (const lithe::Error&) {
  }
  return 0;
}
