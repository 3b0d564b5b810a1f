#include "lithe/data/image.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"

namespace lithe {

Pixels pixels_of(const Image& image, int64_t channels) {
  check_usage(channels == 1 || channels == 3, "image", "channels must be 1 (grey) or 3 (RGB), got ", channels);
  Pixels out{image.height, image.width, channels, {}};
  const auto count = size_t(image.height * image.width);
  out.values.resize(count * size_t(channels));
  const uint8_t* from = image.pixels.data();
  for (size_t i = 0; i < count; ++i, from += image.channels) {
    if (image.channels == channels)
      for (int64_t c = 0; c < channels; ++c) out.values[i * size_t(channels) + size_t(c)] = float(from[c]);
    else if (channels == 1)
      out.values[i] = 0.299f * float(from[0]) + 0.587f * float(from[1]) + 0.114f * float(from[2]);
    else
      for (int64_t c = 0; c < 3; ++c) out.values[i * 3 + size_t(c)] = float(from[0]);
  }
  return out;
}

namespace {

// Of each new place, the old ones that it is made of: the first of them, and their shares.
struct Filter {
  struct Place {
    int64_t first = 0;
    std::vector<float> shares;
  };
  std::vector<Place> places;

  Filter(int64_t from, int64_t to) {
    const double scale = double(from) / double(to), reach = std::max(scale, 1.0);
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (double(i) + 0.5) * scale;
      const auto begin = std::max<int64_t>(0, int64_t(std::floor(centre - reach + 0.5))),
                 end = std::min(from, int64_t(std::floor(centre + reach + 0.5)));
      Place place{begin, {}};
      double sum = 0;
      for (int64_t j = begin; j < end; ++j) {
        const double share = std::max(0.0, 1 - std::abs((double(j) + 0.5 - centre) / reach));
        place.shares.push_back(float(share));
        sum += share;
      }
      for (float& share : place.shares) share = float(double(share) / sum);
      places.push_back(std::move(place));
    }
  }
};

}  // namespace

Pixels resize(const Pixels& from, int64_t height, int64_t width) {
  if (from.height == height && from.width == width) return from;
  const Filter across(from.width, width), down(from.height, height);
  const int64_t channels = from.channels;
  Pixels wide{from.height, width, channels, std::vector<float>(size_t(from.height * width * channels))};
  for (int64_t y = 0; y < from.height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const Filter::Place& place = across.places[size_t(x)];
      for (size_t k = 0; k < place.shares.size(); ++k)
        for (int64_t c = 0; c < channels; ++c)
          wide.values[size_t((y * width + x) * channels + c)] +=
              place.shares[k] * from.values[size_t((y * from.width + place.first + int64_t(k)) * channels + c)];
    }
  Pixels out{height, width, channels, std::vector<float>(size_t(height * width * channels))};
  const int64_t row = width * channels;
  for (int64_t y = 0; y < height; ++y) {
    const Filter::Place& place = down.places[size_t(y)];
    for (size_t k = 0; k < place.shares.size(); ++k)
      for (int64_t i = 0; i < row; ++i)
        out.values[size_t(y * row + i)] += place.shares[k] * wide.values[size_t((place.first + int64_t(k)) * row + i)];
  }
  return out;
}

namespace {

// Calls f(place in the picture, place among the patches) for runs of patch * channels numbers.
template <class F>
void each_run(int64_t patch, int64_t height, int64_t width, int64_t channels, F f) {
  check_usage(patch >= 1 && height % patch == 0 && width % patch == 0, "image", "a picture of ", height, " x ", width,
              " pixels has no whole patches of ", patch, " x ", patch, "; choose sides that are multiples of it");
  const int64_t run = patch * channels;
  int64_t next = 0;
  for (int64_t y = 0; y < height; y += patch)
    for (int64_t x = 0; x < width; x += patch)
      for (int64_t r = 0; r < patch; ++r, next += run) f(((y + r) * width + x) * channels, next, run);
}

}  // namespace

std::vector<float> patchify(const Pixels& pixels, int64_t patch) {
  std::vector<float> out(pixels.values.size());
  each_run(patch, pixels.height, pixels.width, pixels.channels, [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(pixels.values.begin() + from, count, out.begin() + to);
  });
  return out;
}

Pixels unpatchify(const std::vector<float>& patches, int64_t patch, int64_t height, int64_t width, int64_t channels) {
  check(int64_t(patches.size()) == height * width * channels, "image", "a picture of ", height, " x ", width, " x ",
        channels, " has ", height * width * channels, " numbers, got ", patches.size());
  Pixels out{height, width, channels, std::vector<float>(patches.size())};
  each_run(patch, height, width, channels, [&](int64_t to, int64_t from, int64_t count) {
    std::copy_n(patches.begin() + from, count, out.values.begin() + to);
  });
  return out;
}

}  // namespace lithe
