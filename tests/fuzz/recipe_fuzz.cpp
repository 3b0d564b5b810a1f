// Reads bytes as a recipe. One that is accepted must come back the same from what a run stores.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/recipe/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 20000) return 0;
  std::string stored;
  try {
    stored = lithe::to_yaml(
        lithe::resolved(lithe::read_recipe(std::string(reinterpret_cast<const char*>(data), size), "fuzz")));
  } catch (const lithe::Error&) {
    return 0;
  }
  // What follows may not fail.
  if (lithe::to_yaml(lithe::resolved(lithe::read_recipe(stored, "stored"))) != stored) __builtin_trap();
  return 0;
}
