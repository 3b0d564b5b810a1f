// Sounds as rows of log-mel frames: the section data.audio of a recipe.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/data/features.h"
#include "lithe/data/mel.h"

namespace lithe {

struct AudioConfig {
  int64_t sample_rate = 0;  // 0: recipes without sounds
  std::string features = "whisper", normalise = "none";
  int64_t num_mel_bins = 80, frames_per_row = 1;
  double dither = 0, pad_seconds = 0;
  std::vector<double> speeds;
  int64_t frequency_masks = 0, frequency_mask_bins = 27, time_masks = 0, time_mask_frames = 100;
  double time_mask_share = 0.2;

  void fields(Fields& f);
  /// A recipe has sounds.
  bool given() const { return sample_rate > 0; }
  void validate() const;
  MelSettings mel() const;
  int64_t row_width() const { return num_mel_bins * frames_per_row; }
  /// Samples of pad_seconds.
  int64_t pad_samples() const;
  /// Rows of so many samples.
  int64_t rows_of(int64_t samples) const;
  /// Seconds from one row to the next.
  double row_seconds() const { return double(frames_per_row * mel().hop()) / double(sample_rate); }
};

/// SpecAugment [Park et al. 2019] of frames [frames, bins], a function of `key` alone: masked numbers become `fill`.
void mask_frames(std::vector<float>& frames, const AudioConfig& config, const RandomKey& key, float fill);

/// The frames of a sound of samples at `rate` a second, as models of sounds of pad_seconds read them in windows of that
/// length: of one that is no longer those of sound_rows() without augmentation, of a longer one with as much silence
/// behind it: [frames, num_mel_bins].
std::vector<float> window_frames(const std::vector<float>& samples, int64_t rate, const AudioConfig& config,
                                 const MelFeatures& mel);

/// The rows of a sound of samples at `rate` a second, in training with its augmentation: [rows, row_width()].
std::vector<float> sound_rows(const std::vector<float>& samples, int64_t rate, const AudioConfig& config,
                              const MelFeatures& mel, const FeatureDraw& draw);

/// The reader of modality `audio`; references name files.
std::shared_ptr<const FeatureReader> audio_reader(const AudioConfig& config);

}  // namespace lithe
