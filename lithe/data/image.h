// Pictures: their files, and the same picture in another size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// A picture in bytes: rows, columns, channels (1 grey, 3 RGB).
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // [height * width * channels]
  bool operator==(const Image&) const = default;
};

/// Limits of decode_image(). A picture's head is read first, so that none above them is unpacked.
inline constexpr int64_t kMostPixels = int64_t(1) << 26, kMostImageBytes = int64_t(1) << 28;

/// The picture in the bytes of a PNG, JPEG, or binary PPM or PGM (P5, P6) file; which it is, its first bytes say.
/// Palettes and 16 bits become 8 bits a channel, transparent pixels stand on black, CMYK is refused. `name` stands in
/// errors. Fails on other formats, on what is cut or damaged, and above kMostPixels.
Image decode_image(std::string_view bytes, const std::string& name);

/// A picture in numbers, rows, columns, channels; [0, 255] unless it was normalised.
struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<float> values;  // [height * width * channels]
};

/// The picture with so many channels: grey is repeated, RGB becomes luma (ITU-R 601).
Pixels pixels_of(const Image& image, int64_t channels);
/// By triangular filters, widened where the picture becomes smaller (the bilinear filter of Pillow, in f32).
Pixels resize(const Pixels& from, int64_t height, int64_t width);

/// The picture in squares of `patch` pixels a side: [height/patch * width/patch, patch * patch * channels], squares row
/// by row, in a square rows, columns, channels. Sides must be multiples of `patch`. And back.
std::vector<float> patchify(const Pixels& pixels, int64_t patch);
Pixels unpatchify(const std::vector<float>& patches, int64_t patch, int64_t height, int64_t width, int64_t channels);

}  // namespace lithe
