// Log-mel features of sounds, with the numbers of the references that recipes name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/random.h"

namespace lithe {

/// What a frame's numbers are.
struct MelSettings {
  /// whisper [Radford et al. 2022]: periodic Hann window, sounds reflected at their ends so that frame t is around
  /// sample t hop, the last frame dropped, Slaney's mels and areas, log10 of at least 1e-10, within 8 of the largest,
  /// (x + 4) / 4.
  /// kaldi (`compute-fbank-feats`): samples of 16 bits, frames that lie inside the sound, mean removed, pre-emphasis
  /// 0.97, Povey's window, power of two bins, triangles of equal mel 1127 ln(1 + f / 700) from 20 Hz to half the rate,
  /// natural log of at least FLT_EPSILON.
  enum class Kind { whisper, kaldi };
  Kind kind = Kind::whisper;
  int64_t rate = 16000, bins = 80;
  double dither = 0;  // kaldi: standard deviation of normal noise added to samples of 16 bits; Kaldi's own default is 1

  int64_t window() const { return rate / 40; }  // 25 ms
  int64_t hop() const { return rate / 100; }    // 10 ms
};

/// Frames of so many samples; 0: too few for one.
int64_t mel_frames(const MelSettings& settings, int64_t samples);

/// Frames one after another, [mel_frames, bins]. `samples` in [-1, 1] at settings.rate; `key` is of the dither. Fails
/// where there is no frame. `first`, an even number: they begin with this frame of a longer sound, whose numbers the
/// frames then have to the bit (kaldi alone).
class MelFeatures {
 public:
  /// Fails (usage) on a rate that is no multiple of 200, and on more bins than frequencies.
  explicit MelFeatures(const MelSettings& settings);
  ~MelFeatures();
  std::vector<float> operator()(std::span<const float> samples, const RandomKey& key = {}, int64_t first = 0) const;
  /// Weights of frequency k in bin m: [bins, frequencies].
  const std::vector<double>& filters() const;

 private:
  struct Tables;
  std::unique_ptr<const Tables> tables_;
};

}  // namespace lithe
