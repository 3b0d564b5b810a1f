// Reads bytes as a picture, as a tar or as the head of an IDX file: the first says which, the rest is the file. What is
// accepted must be whole.
#include <cstddef>
#include <cstdint>

#include "lithe/base/error.h"
#include "lithe/data/image_files.h"

namespace {

void require(bool rule) {
  if (!rule) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 100000) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      const lithe::Image image = lithe::decode_image(bytes, "fuzz");
      require(int64_t(image.pixels.size()) == image.height * image.width * image.channels && !image.pixels.empty());
    } else if (data[0] % 3 == 1) {
      for (const lithe::TarMember& member : lithe::tar_members(bytes, "fuzz"))
        require(member.begin <= bytes.size() && member.size <= bytes.size() - member.begin);
    } else {
      for (const int64_t count : lithe::idx_sizes(bytes, "fuzz")) require(count >= 1);
    }
  } catch (const lithe::Error&) {
    return 0;
  }
  return 0;
}
