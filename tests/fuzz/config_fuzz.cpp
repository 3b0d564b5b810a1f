// Reads bytes as a config.json, as load_config does. lithe::Error is the only exception allowed.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    lithe::Node node = lithe::parse_json_node(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    node.erase("model_type");
    const lithe::ModelConfig config = lithe::read_model_config(node, "");
    config.validate();
    lithe::ModelConfig copy = config;
    lithe::to_json(lithe::write_fields([&](lithe::Fields& f) { copy.fields(f); }));
  } catch (const lithe::Error&) {
  }
  return 0;
}
