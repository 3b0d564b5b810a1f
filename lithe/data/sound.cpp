#include "lithe/data/sound.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numbers>
#include <numeric>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr int64_t kMostChannels = 64, kLeastRate = 1000, kMostRate = 768000;

// libsndfile takes a RIFF file that ends before its data do for a shorter one.
void check_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const auto size = int64_t(in.tellg());
  const auto read = [&](int64_t at) {
    unsigned char head[8] = {};
    in.seekg(at), in.read(reinterpret_cast<char*>(head), 8);
    return std::pair(std::string(reinterpret_cast<char*>(head), 4),
                     int64_t(head[4]) | int64_t(head[5]) << 8 | int64_t(head[6]) << 16 | int64_t(head[7]) << 24);
  };
  if (size < 12 || read(0).first != "RIFF") return;
  for (int64_t at = 12; at + 8 <= size;) {
    const auto [name, bytes] = read(at);
    if (name == "data") {
      check(at + 8 + bytes <= size || bytes == 0xffffffff, "sound", "'", path, "' is cut: its head says ", bytes,
            " bytes of samples, it has ", size - at - 8);
      return;
    }
    at += 8 + bytes + bytes % 2;
  }
}

struct Closer {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using SoundFile = std::unique_ptr<SNDFILE, Closer>;

SoundFile open_sound(const std::string& path, SF_INFO& info) {
  std::ifstream exists(path, std::ios::binary);
  check(exists.good(), "sound", "'", path, "' cannot be read");
  SoundFile file(sf_open(path.c_str(), SFM_READ, &info));
  check(file != nullptr, "sound", "'", path,
        "' is no sound that can be read (WAV, FLAC, AIFF, Ogg): ", sf_strerror(nullptr));
  check(info.channels >= 1 && info.channels <= kMostChannels, "sound", "'", path, "' has ", info.channels,
        " channels; 1 to ", kMostChannels, " can be read");
  check(info.samplerate >= kLeastRate && info.samplerate <= kMostRate, "sound", "'", path, "' has ", info.samplerate,
        " samples a second; ", kLeastRate, " to ", kMostRate, " can be read");
  check(info.frames > 0, "sound", "'", path, "' has no samples");
  check(info.frames <= kMostSamples / info.channels, "sound", "'", path, "' says that it has ", info.frames,
        " samples of ", info.channels, " channels, more than ", kMostSamples, "; cut it into pieces");
  check_whole(path);
  return file;
}

}  // namespace

SoundHead read_sound_head(const std::string& path) {
  SF_INFO info{};
  const SoundFile file = open_sound(path, info);
  return {info.samplerate, info.channels, info.frames};
}

Sound read_sound(const std::string& path) {
  constexpr int64_t kBlock = 1 << 14;
  SF_INFO info{};
  const SoundFile file = open_sound(path, info);
  const auto channels = size_t(info.channels);
  Sound out{.rate = info.samplerate, .samples = {}};
  std::vector<float> block(size_t(kBlock) * channels);  // memory follows what is there, not what the head says
  while (const auto got = size_t(std::max<sf_count_t>(sf_readf_float(file.get(), block.data(), kBlock), 0))) {
    for (size_t i = 0; i < got; ++i) {
      double sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += double(block[i * channels + c]);
      check(std::isfinite(sum), "sound", "'", path, "': sample ", out.samples.size(), " is not finite");
      out.samples.push_back(float(sum / double(channels)));
    }
    check(int64_t(out.samples.size()) <= info.frames, "sound", "'", path, "' has more than the ", info.frames,
          " samples that its head says");
  }
  check(int64_t(out.samples.size()) == info.frames, "sound", "'", path, "' is cut or damaged: its head says ",
        info.frames, " samples, ", out.samples.size(), " can be read");
  return out;
}

int64_t resampled_count(int64_t samples, int64_t from, int64_t to) {
  const int64_t common = std::gcd(from, to);
  return (samples * (to / common) + from / common - 1) / (from / common);
}

std::vector<float> resampled(const std::vector<float>& samples, int64_t from, int64_t to) {
  constexpr double kZeros = 32, kRolloff = 0.99;
  check(from > 0 && to > 0, "sound", "rates must be above 0, got ", from, " and ", to);
  const int64_t common = std::gcd(from, to), step = from / common, phases = to / common;
  if (step == phases) return samples;
  // Sample j of the result stands at j step / phases of the input: its phase j % phases has taps of its own.
  const double cut = kRolloff * double(std::min(step, phases)) / double(step);  // zeros of the sinc a sample
  const auto width = int64_t(std::ceil(kZeros / cut)), taps = 2 * width + 1;
  check(taps * phases <= int64_t(1) << 24, "sound", "rates ", from, " and ", to,
        " have no common divisor that would serve; choose a sample_rate that shares one");
  std::vector<double> filter(size_t(taps * phases));
  for (int64_t p = 0; p < phases; ++p)
    for (int64_t k = -width; k <= width; ++k) {
      const double t = std::clamp((double(k) - double(p * step % phases) / double(phases)) * cut, -kZeros, kZeros);
      const double x = std::numbers::pi * t, hann = std::cos(x / kZeros / 2);
      filter[size_t(p * taps + k + width)] = (t == 0 ? 1 : std::sin(x) / x) * hann * hann * cut;
    }
  const auto n = int64_t(samples.size()), count = resampled_count(n, from, to);
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j) {
    const int64_t at = j * step / phases;
    const double* const h = filter.data() + (j % phases) * taps + width;
    double sum = 0;
    for (int64_t k = std::max(-width, -at), end = std::min(width, n - 1 - at); k <= end; ++k)
      sum += h[k] * double(samples[size_t(at + k)]);
    out[size_t(j)] = float(sum);
  }
  return out;
}

}  // namespace lithe
