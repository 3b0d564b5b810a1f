// Reads bytes as a config.json of another program. lithe::Error is the only exception allowed.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lithe/base/error.h"
#include "lithe/interchange/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lithe::HfConfig config(
        lithe::parse_json_node(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz"), "fuzz");
    for (const char* layers : {"num_hidden_layers", "n_layer", "n_layers"})
      if (config.integer(layers, 0) > 64) return 0;  // sound, and slow
    lithe::family_of(config.text("model_type"), "fuzz").read(config, nullptr);
    config.finish();
  } catch (const lithe::Error&) {
  }
  return 0;
}
