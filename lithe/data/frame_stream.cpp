#include "lithe/data/frame_stream.h"

#include <utility>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {

FrameStream::FrameStream(const AudioConfig& config) : config_(config), mel_(config.mel()) {
  const char* operation = "stream of sound";
  check_usage(config.features == "kaldi", operation, "data.audio.features ", config.features,
              " bounds each frame by the largest number of the whole sound; train with features: kaldi");
  check_usage(config.normalise == "none", operation, "data.audio.normalise ", config.normalise,
              " takes the mean of the whole sound; train with normalise: none");
  check_usage(config.pad_seconds == 0, operation, "data.audio.pad_seconds ", config.pad_seconds,
              " makes all sounds as long; train with pad_seconds: 0");
}

// Two frames are one transform, so that an odd one waits for the next.
void FrameStream::take_frames(int64_t count) {
  if (count == 0) return;
  const MelSettings mel = config_.mel();
  const RandomKey key{.purpose = purpose_of("audio.dither")};
  const auto heard = size_t((count - 1) * mel.hop() + mel.window());
  const std::vector<float> made = mel_(std::span(samples_).first(heard), key, frame_);
  frames_.insert(frames_.end(), made.begin(), made.end());
  samples_.erase(samples_.begin(), samples_.begin() + count * mel.hop());
  frame_ += count;
}

std::vector<float> FrameStream::push(std::span<const float> samples) {
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  take_frames(mel_frames(config_.mel(), int64_t(samples_.size())) / 2 * 2);
  const auto width = size_t(config_.row_width()), whole = frames_.size() / width * width;
  const std::vector<float> rows(frames_.begin(), frames_.begin() + int64_t(whole));
  frames_.erase(frames_.begin(), frames_.begin() + int64_t(whole));
  return rows;
}

std::vector<float> FrameStream::finish() {
  take_frames(mel_frames(config_.mel(), int64_t(samples_.size())));
  check(frame_ > 0, "audio", "a sound of ", samples_.size(), " samples at ", config_.sample_rate,
        " a second is too short for a frame");
  const auto width = size_t(config_.row_width());
  frames_.resize((frames_.size() + width - 1) / width * width, 0);
  return std::exchange(frames_, {});
}

}  // namespace lithe
