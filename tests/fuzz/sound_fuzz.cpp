// Reads bytes as a file of sound: WAV, FLAC and what else libsndfile knows. What is accepted must be whole and finite.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/data/sound.h"

namespace {

void require(bool rule) {
  if (!rule) __builtin_trap();
}

// A file in memory while it lives.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0);
    require(write(descriptor_, data, size) == ssize_t(size));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 100000) return 0;
  const MemoryFile file(data, size);
  try {
    const lithe::SoundHead head = lithe::read_sound_head(file.path());
    require(head.rate > 0 && head.channels > 0 && head.samples > 0);
    const lithe::Sound sound = lithe::read_sound(file.path());
    require(sound.rate == head.rate && int64_t(sound.samples.size()) == head.samples);
    for (const float sample : sound.samples) require(std::isfinite(sample));
  } catch (const lithe::Error&) {
    return 0;
  }
  return 0;
}
