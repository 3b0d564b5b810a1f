// Sounds: WAV, FLAC and what else libsndfile reads, as one channel of numbers at a rate that is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lithe {

struct Sound {
  int64_t rate = 0;            // samples a second
  std::vector<float> samples;  // in [-1, 1]; one channel, the mean of those of the file
};

/// Rate, channels and samples of each that a file says it has, from its head.
struct SoundHead {
  int64_t rate = 0, channels = 0, samples = 0;
};

/// Of a file. Fails, naming it, on what is no sound, is cut, has no samples, or more of them than kMostSamples.
SoundHead read_sound_head(const std::string& path);
/// The same, and on samples that are not finite.
Sound read_sound(const std::string& path);

/// No file has more: four hours of one channel at 48 kHz.
inline constexpr int64_t kMostSamples = int64_t(4) * 3600 * 48000;

/// The same sound with `to` samples for each `from`: a windowed sinc [Smith 1984] below 0.99 of the lower half rate,
/// 32 of its zeros to either side under a Hann window. ceil(samples * to / from) are left.
std::vector<float> resampled(const std::vector<float>& samples, int64_t from, int64_t to);
/// How many those are.
int64_t resampled_count(int64_t samples, int64_t from, int64_t to);

}  // namespace lithe
