#include "lithe/data/sound_features.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lithe/base/error.h"
#include "lithe/base/files.h"
#include "lithe/base/random.h"
#include "lithe/data/sound.h"

namespace lithe {

void AudioConfig::fields(Fields& f) {
  f("sample_rate", sample_rate,
    "samples per second (Hz) of the model's input; other sounds are resampled; 0: no sounds", between(0, 1 << 20));
  f("features", features, "log-mel frames (25 ms, every 10 ms), computed as whisper, or as kaldi (compute-fbank-feats)",
    one_of({"whisper", "kaldi"}));
  f("num_mel_bins", num_mel_bins, "mel bins: numbers per frame", between(1, 1 << 10));
  f("frames_per_row", frames_per_row, "neighbouring frames that make one row; zeros fill up the last row",
    between(1, 1 << 8));
  f("normalise", normalise, "none; utterance: scale each mel bin to mean 0 and variance 1 over the sound",
    one_of({"none", "utterance"}));
  f("dither", dither,
    "kaldi: standard deviation of noise on the 16-bit samples; in training the noise is new in every epoch, else it "
    "depends on the sound only. Kaldi's default is 1",
    between(0, 1e4));
  f("pad_seconds", pad_seconds,
    "length in seconds to which silence is added, and which no sound may exceed; Whisper: 30; 0: no padding",
    between(0, 3600));
  f("speeds", speeds,
    "training: speed factors in hundredths, as [0.9, 1, 1.1]; one is drawn each time a sound is read (resampling); "
    "empty: 1");
  f("frequency_masks", frequency_masks, "training: number of masks over neighbouring mel bins (SpecAugment)",
    between(0, 100));
  f("frequency_mask_bins", frequency_mask_bins,
    "largest width of a frequency mask in mel bins; widths are drawn from 0 on", between(0, 1 << 10));
  f("time_masks", time_masks, "training: number of masks over neighbouring frames (SpecAugment)", between(0, 100));
  f("time_mask_frames", time_mask_frames, "largest width of a time mask in frames; widths are drawn from 0 on",
    between(0, 1 << 20));
  f("time_mask_share", time_mask_share, "largest width of a time mask as a share of the sound's frames", between(0, 1));
}

void AudioConfig::validate() const {
  (void)MelFeatures(mel());
  check_usage(dither == 0 || features == "kaldi", "data.audio", "dither ", dither,
              " is of features kaldi; whisper has none: set it to 0");
  for (const double s : speeds)
    check_usage(s >= 0.5 && s <= 2, "data.audio", "speeds must be between 0.5 and 2, got ", s);
}

MelSettings AudioConfig::mel() const {
  return {.kind = features == "kaldi" ? MelSettings::Kind::kaldi : MelSettings::Kind::whisper,
          .rate = sample_rate,
          .bins = num_mel_bins,
          .dither = dither};
}

int64_t AudioConfig::pad_samples() const { return std::llround(pad_seconds * double(sample_rate)); }

int64_t AudioConfig::rows_of(int64_t samples) const {
  return (mel_frames(mel(), samples) + frames_per_row - 1) / frames_per_row;
}

namespace {

// Elements of the stream of one reading.
enum SoundDraw : uint64_t { kSpeed, kMasks };

int64_t hundredths(double speed) { return std::llround(speed * 100); }

RandomKey key_of(const FeatureDraw& draw, const char* purpose) {
  return {draw.seed, uint64_t(draw.epoch), uint32_t(draw.example), purpose_of(purpose)};
}

void normalise_bins(std::vector<float>& frames, int64_t bins) {
  const auto count = double(frames.size()) / double(bins);
  for (int64_t m = 0; m < bins; ++m) {
    double sum = 0, squares = 0;
    for (size_t i = size_t(m); i < frames.size(); i += size_t(bins)) sum += double(frames[i]);
    const double mean = sum / count;
    for (size_t i = size_t(m); i < frames.size(); i += size_t(bins))
      squares += (double(frames[i]) - mean) * (double(frames[i]) - mean);
    const double deviation = std::sqrt(squares / count + 1e-5);
    for (size_t i = size_t(m); i < frames.size(); i += size_t(bins))
      frames[i] = float((double(frames[i]) - mean) / deviation);
  }
}

// Of samples as the model reads them.
std::vector<float> frames_of(const std::vector<float>& heard, const AudioConfig& config, const MelFeatures& mel,
                             const FeatureDraw& noise) {
  std::vector<float> frames = mel(heard, key_of(noise, "audio.dither"));
  if (config.normalise == "utterance") normalise_bins(frames, config.num_mel_bins);
  return frames;
}

class AudioFeatures final : public FeatureReader {
 public:
  explicit AudioFeatures(const AudioConfig& config) : config_(config), mel_(config.mel()) {}
  int64_t width() const override { return config_.row_width(); }
  int64_t most_rows(const std::string& reference) const override {
    const SoundHead head = read_sound_head(path_of(reference));
    int64_t slowest = 100;
    for (const double s : config_.speeds) slowest = std::min(slowest, hundredths(s));
    int64_t samples = resampled_count(head.samples, head.rate * slowest, config_.sample_rate * 100);
    return config_.rows_of(std::max(samples, config_.pad_samples()));
  }
  int64_t rows() const override { return config_.pad_seconds > 0 ? config_.rows_of(config_.pad_samples()) : 0; }
  int64_t read(const std::string& reference, const FeatureDraw& draw, std::vector<float>& out) const override {
    const std::string path = path_of(reference);
    const Sound sound = read_sound(path);
    try {
      const std::vector<float> rows = sound_rows(sound.samples, sound.rate, config_, mel_, draw);
      out.insert(out.end(), rows.begin(), rows.end());
      return int64_t(rows.size()) / width();
    } catch (const Error& error) {
      fail("sound", "'", path, "': ", error.what());
    }
  }
  uint64_t fingerprint() const override {
    AudioConfig copy = config_;
    const std::string facts = to_yaml(write_fields([&](Fields& f) { copy.fields(f); }));
    return checksum(facts.data(), facts.size());
  }

 private:
  AudioConfig config_;
  MelFeatures mel_;

  // A file of this name, or what a pattern that begins with $LITHE_DATA/ stands for.
  static std::string path_of(const std::string& reference) {
    return std::filesystem::exists(reference) ? reference : glob(reference).front().string();
  }
};

}  // namespace

void mask_frames(std::vector<float>& frames, const AudioConfig& c, const RandomKey& key, float fill) {
  const int64_t bins = c.num_mel_bins, count = int64_t(frames.size()) / bins;
  uint64_t next = kMasks;
  const auto mask = [&](int64_t masks, int64_t most, int64_t of, auto&& covers) {
    for (int64_t i = 0; i < masks; ++i) {
      const auto length = int64_t(random_below(key, next++, uint64_t(std::min(most, of)) + 1));
      const auto begin = int64_t(random_below(key, next++, uint64_t(of - length) + 1));
      for (int64_t at = begin; at < begin + length; ++at) covers(at);
    }
  };
  mask(c.frequency_masks, c.frequency_mask_bins, bins, [&](int64_t m) {
    for (int64_t t = 0; t < count; ++t) frames[size_t(t * bins + m)] = fill;
  });
  const auto share = int64_t(c.time_mask_share * double(count));
  mask(c.time_masks, std::min(c.time_mask_frames, share), count,
       [&](int64_t t) { std::fill_n(frames.begin() + t * bins, bins, fill); });
}

std::vector<float> window_frames(const std::vector<float>& samples, int64_t rate, const AudioConfig& config,
                                 const MelFeatures& mel) {
  std::vector<float> heard = resampled(samples, rate * 100, config.sample_rate * 100);
  const auto window = size_t(config.pad_samples());
  heard.resize(heard.size() <= window ? window : heard.size() + window, 0);
  return frames_of(heard, config, mel, {});
}

std::vector<float> sound_rows(const std::vector<float>& samples, int64_t rate, const AudioConfig& config,
                              const MelFeatures& mel, const FeatureDraw& draw) {
  const RandomKey key = key_of(draw, "audio.augment");
  int64_t speed = 100;
  if (draw.augment && !config.speeds.empty())
    speed = hundredths(config.speeds[size_t(random_below(key, kSpeed, config.speeds.size()))]);
  std::vector<float> heard = resampled(samples, rate * speed, config.sample_rate * 100);
  if (config.pad_seconds > 0) {
    const auto length = size_t(config.pad_samples());
    check(heard.size() <= length, "audio", "a sound of ", double(heard.size()) / double(config.sample_rate),
          " s is longer than data.audio.pad_seconds ", config.pad_seconds, "; cut it, or raise pad_seconds");
    heard.resize(length, 0);
  }
  std::vector<float> frames = frames_of(heard, config, mel, draw.augment ? draw : FeatureDraw{});
  if (draw.augment) {
    double sum = 0;
    for (const float x : frames) sum += double(x);
    mask_frames(frames, config, key, config.normalise == "none" ? float(sum / double(frames.size())) : 0);
  }
  const auto width = size_t(config.row_width());
  frames.resize((frames.size() + width - 1) / width * width, 0);
  return frames;
}

// spec: app.st_single | data | log-mel rows of sounds, for a front end of strided convolutions | TB 6.5.3, Fig 6.18a
std::shared_ptr<const FeatureReader> audio_reader(const AudioConfig& config) {
  config.validate();
  return std::make_shared<AudioFeatures>(config);
}

}  // namespace lithe
