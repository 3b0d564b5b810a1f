// Opens bytes as a GGUF file, reads every tensor, and what it says of its model and its tokenizer. lithe::Error is the
// only exception allowed.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lithe::GgufFile file(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const auto& [name, entry] : file.entries()) file.read(name);
    for (const char* architecture : {"llama", "gpt2"}) {
      try {
        const lithe::Json written = lithe::config_of_gguf(file, architecture);
        const lithe::HfConfig config(lithe::parse_json_node(written.dump(), "fuzz"), "fuzz");
        if (written.value("num_hidden_layers", written.value("n_layer", int64_t(0))) < 64)
          lithe::family_of(architecture, "fuzz").read(config, nullptr);
      } catch (const lithe::Error&) {
      }
    }
    bool add_bos = false;
    lithe::tokenizer_of_gguf(file, add_bos);
  } catch (const lithe::Error&) {
  }
  return 0;
}
