// The rows of a sound that comes in pieces.
#pragma once

#include "lithe/data/sound_features.h"

namespace lithe {

/// Gives, piece by piece, the rows that sound_rows() gives of the whole without augmentation, to the bit.
class FrameStream {
 public:
  /// Fails (usage), naming the setting, where a row depends on samples behind it: whisper's frames are reflected at the
  /// end and bounded by the largest number of the sound, normalise takes its mean, pad_seconds its length.
  explicit FrameStream(const AudioConfig& config);
  /// The rows that samples at config.sample_rate complete: [rows, row_width()].
  std::vector<float> push(std::span<const float> samples);
  /// The last row, filled up with zeros, if frames are left. Fails where the sound is too short for a frame.
  std::vector<float> finish();

 private:
  AudioConfig config_;
  MelFeatures mel_;
  std::vector<float> samples_, frames_;  // that no frame, no row has yet
  int64_t frame_ = 0;                    // the next; samples_ begin with it

  void take_frames(int64_t count);
};

}  // namespace lithe
