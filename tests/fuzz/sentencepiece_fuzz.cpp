// Reads the input as a SentencePiece .model, encodes a short text, and writes it as a tokenizer.json. lithe::Error is
// the only exception allowed.
#include <cstddef>
#include <cstdint>

#include "lithe/base/error.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/tokenizer_roles.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto tokenizer = lithe::parse_sentencepiece({reinterpret_cast<const char*>(data), size}, "fuzz", {});
    const std::string text = " Aab ba\xC3\xB6 <x>\n\xFF\xE2\x96\x81 A\xEF\xB7\xBA</s>\xF0\x9F\x98\x80";
    tokenizer->decode(tokenizer->encode_with_specials(text));
    for (uint64_t seed = 0; seed < 2; ++seed) {
      try {
        tokenizer->decode(tokenizer->sample(text, {.alpha = .5}, {.seed = seed}));
      } catch (const lithe::Error&) {  // a BPE
      }
    }
    tokenizer->fingerprint();
    const std::string model(reinterpret_cast<const char*>(data), size);
    try {
      lithe::parse_tokenizer(lithe::sentencepiece_json(model, "fuzz"), "fuzz")->encode(text);
    } catch (const lithe::Error&) {  // tokens that no tokenizer.json holds
    }
  } catch (const lithe::Error&) {
  }
  return 0;
}
