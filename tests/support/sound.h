// Sound files of tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace lithe::kit {

/// `value` in so many bytes, little end first.
inline std::string little_end_first(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += char(value >> (8 * i) & 0xff);
  return out;
}

/// Samples in [-1, 1) as 16 bits each.
inline std::string samples_of_16_bits(const std::vector<float>& samples) {
  std::string out;
  for (const float x : samples) out += little_end_first(uint16_t(int16_t(std::lround(x * 32768))), 2);
  return out;
}

/// A WAV file of one channel.
inline std::string wav_file(const std::vector<float>& samples, int rate) {
  const std::string data = samples_of_16_bits(samples);
  return "RIFF" + little_end_first(36 + data.size(), 4) + "WAVEfmt " + little_end_first(16, 4) +
         little_end_first(1, 2) + little_end_first(1, 2) + little_end_first(uint64_t(rate), 4) +
         little_end_first(uint64_t(rate * 2), 4) + little_end_first(2, 2) + little_end_first(16, 2) + "data" +
         little_end_first(data.size(), 4) + data;
}

}  // namespace lithe::kit
