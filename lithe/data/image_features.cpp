#include "lithe/data/image_features.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {

void ImageConfig::fields(Fields& f) {
  f("height", height,
    "height in pixels of the model's input; pictures of other sizes are fitted (see fit); 0: no pictures",
    between(0, 1 << 14));
  f("width", width, "width in pixels; 0: the same as height", between(0, 1 << 14));
  f("channels", channels, "3 (RGB) or 1 (grey); other pictures are converted", between(1, 3));
  f("patch_size", patch_size, "side of a square patch in pixels; a patch is one row of patch_size^2 * channels numbers",
    between(1, 1 << 10));
  f("fit", fit,
    "how pictures of other sizes are fitted: stretch (each side by its own factor), or crop (resize the shorter side, "
    "keep the middle)",
    one_of({"stretch", "crop"}));
  f("mean", mean,
    "mean of each channel in [0, 1], or one for all: the model reads (pixel / 255 - mean) / std; empty: 0.5");
  f("std", std, "standard deviation of each channel, or one for all (see mean); empty: 0.5");
  f("raw", raw, "[height, width, channels] of pictures in .u8 files, which have no header");
  f("crop_padding", crop_padding,
    "training: add this many black pixels on each side, then crop at random to height x width (augmentation)",
    between(0, 1 << 10));
  f("flip", flip, "training: mirror half of the pictures, left to right");
  f("mix_up", mix_up,
    "training: alpha in (0, 1] of mix-up: a picture becomes a weighted mean of two, with a weight from Beta(alpha, "
    "alpha); its label is drawn from both labels with the same weights; 0: off",
    between(0, 1));
}

void ImageConfig::validate() const {
  check_usage(channels == 1 || channels == 3, "data.image", "channels must be 1 or 3, got ", channels);
  check_usage(height % patch_size == 0 && columns() % patch_size == 0, "data.image", "a picture of ", height, " x ",
              columns(), " pixels has no whole patches of ", patch_size, " x ", patch_size,
              "; choose sides that are multiples of patch_size");
  for (const auto& [name, list] : {std::pair("mean", &mean), {"std", &std}})
    check_usage(list->size() <= 1 || int64_t(list->size()) == channels, "data.image", name, " has ", list->size(),
                " numbers; give one, or one for each of ", channels, " channels");
  for (const double s : std) check_usage(s > 0, "data.image", "std must be above 0, got ", s);
  check_usage(raw.empty() || (raw.size() == 3 && raw[0] >= 1 && raw[1] >= 1 && (raw[2] == 1 || raw[2] == 3)),
              "data.image", "raw must be height, width, and 1 or 3 channels");
}

namespace {

// The picture in `height` x `width`.
Pixels fitted(Pixels pixels, const ImageConfig& config) {
  const int64_t height = config.height, width = config.columns();
  if (config.fit == "stretch") return resize(pixels, height, width);
  const double scale = std::max(double(height) / double(pixels.height), double(width) / double(pixels.width));
  const int64_t h = std::max(height, int64_t(std::llround(double(pixels.height) * scale))),
                w = std::max(width, int64_t(std::llround(double(pixels.width) * scale)));
  check(h <= kMostPixels / w, "image", "a picture of ", pixels.width, " x ", pixels.height,
        " pixels is too long to be cropped to ", width, " x ", height, "; set data.image.fit: stretch");
  pixels = resize(pixels, h, w);
  const int64_t top = (h - height) / 2, left = (w - width) / 2, run = width * pixels.channels;
  Pixels out{height, width, pixels.channels, {}};
  for (int64_t y = 0; y < height; ++y) {
    const auto from = pixels.values.begin() + ((y + top) * w + left) * pixels.channels;
    out.values.insert(out.values.end(), from, from + run);
  }
  return out;
}

// Element of the stream of one reading; others follow.
enum Draw : uint64_t { kDown, kAcross, kFlip };

// Moved by (down, across) pixels, black where nothing was, and mirrored.
Pixels moved(const Pixels& from, int64_t down, int64_t across, bool flip) {
  Pixels out{from.height, from.width, from.channels, std::vector<float>(from.values.size())};
  for (int64_t y = 0; y < from.height; ++y)
    for (int64_t x = 0; x < from.width; ++x) {
      const int64_t row = y + down, column = (flip ? from.width - 1 - x : x) + across;
      if (row < 0 || row >= from.height || column < 0 || column >= from.width) continue;
      for (int64_t c = 0; c < from.channels; ++c)
        out.values[size_t((y * from.width + x) * from.channels + c)] =
            from.values[size_t((row * from.width + column) * from.channels + c)];
    }
  return out;
}

class ImageFeatures final : public FeatureReader {
 public:
  ImageFeatures(const ImageConfig& config, const Path& cache)
      : config_(config),
        files_(cache, config.raw.empty() ? RawShape() : RawShape{config.raw[0], config.raw[1], config.raw[2]}) {}
  int64_t width() const override { return config_.patch_size * config_.patch_size * config_.channels; }
  int64_t most_rows(const std::string&) const override { return rows(); }
  int64_t rows() const override {
    return (config_.height / config_.patch_size) * (config_.columns() / config_.patch_size);
  }
  int64_t read(const std::string& reference, const FeatureDraw& draw, std::vector<float>& out) const override {
    const std::vector<float> patches =
        patchify(prepared_image(files_.read(reference), config_, draw), config_.patch_size);
    out.insert(out.end(), patches.begin(), patches.end());
    return rows();
  }
  double mix_up() const override { return config_.mix_up; }
  uint64_t fingerprint() const override {
    ImageConfig copy = config_;
    const std::string facts = to_yaml(write_fields([&](Fields& f) { copy.fields(f); }));
    return checksum(facts.data(), facts.size());
  }

 private:
  ImageConfig config_;
  ImageFiles files_;
};

}  // namespace

Pixels prepared_image(const Image& image, const ImageConfig& config, const FeatureDraw& draw) {
  Pixels pixels = fitted(pixels_of(image, config.channels), config);
  if (draw.augment && (config.crop_padding || config.flip)) {
    const RandomKey key{draw.seed, uint64_t(draw.epoch), uint32_t(draw.example), purpose_of("image.augment")};
    const int64_t span = 2 * config.crop_padding + 1;
    const auto offset = [&](Draw which) {
      return int64_t(random_below(key, which, uint64_t(span))) - config.crop_padding;
    };
    pixels = moved(pixels, offset(kDown), offset(kAcross), config.flip && random_below(key, kFlip, 2) == 1);
  }
  const auto of = [&](const std::vector<double>& list, size_t channel) {
    return list.empty() ? 0.5 : list[list.size() == 1 ? 0 : channel];
  };
  const auto channels = size_t(config.channels);
  for (size_t i = 0; i < pixels.values.size(); ++i)
    pixels.values[i] =
        float((double(pixels.values[i]) / 255 - of(config.mean, i % channels)) / of(config.std, i % channels));
  return pixels;
}

std::shared_ptr<const FeatureReader> image_reader(const ImageConfig& config, const Path& cache) {
  config.validate();
  return std::make_shared<ImageFeatures>(config, cache);
}

}  // namespace lithe
