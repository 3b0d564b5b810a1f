// PNG by libpng, JPEG by libjpeg-turbo, PPM by hand.
#include <png.h>

#include <charconv>
#include <csetjmp>
#include <cstdio>
// Behind what declares FILE and size_t, which it does not include.
#include <jpeglib.h>

#include "lithe/base/error.h"
#include "lithe/data/image.h"

namespace lithe {
namespace {

void check_size(int64_t height, int64_t width, const std::string& name) {
  check(height >= 1 && width >= 1 && width <= kMostPixels / height, "image", "'", name, "' is of ", width, " x ",
        height, " pixels; a picture has 1 to ", kMostPixels);
}

Image decode_png(std::string_view bytes, const std::string& name) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  struct Free {  // what libpng keeps, whatever is thrown
    png_image* png;
    ~Free() { png_image_free(png); }
  } const free{&png};
  check(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) != 0, "image", "'", name,
        "' is a damaged PNG: ", png.message);
  check_size(png.height, png.width, name);
  Image out{png.height, png.width, png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1, {}};
  png.format = out.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  out.pixels.resize(size_t(out.height * out.width * out.channels));
  const png_color black{0, 0, 0};
  check(png_image_finish_read(&png, &black, out.pixels.data(), 0, nullptr) != 0, "image", "'", name,
        "' is a damaged PNG: ", png.message);
  return out;
}

struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg sees no more
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void jpeg_leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// A warning is damage that libjpeg would paint over.
void jpeg_message(j_common_ptr info, int level) {
  if (level < 0) jpeg_leave(info);
}

// Some hundred bytes of progressive JPEG may ask for any number of passes over all pixels.
void jpeg_progress(j_common_ptr info) {
  constexpr int kMostScans = 200;
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    std::snprintf(reinterpret_cast<JpegErrors*>(info->err)->message, JMSG_LENGTH_MAX, "more than %d scans", kMostScans);
    std::longjmp(reinterpret_cast<JpegErrors*>(info->err)->jump, 1);
  }
}

// Nothing here has a destructor that a jump would pass over. False: errors.message says why.
bool jpeg_head(jpeg_decompress_struct& jpeg, JpegErrors& errors, std::string_view bytes) {
  if (setjmp(errors.jump)) return false;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool jpeg_pixels(jpeg_decompress_struct& jpeg, JpegErrors& errors, uint8_t* pixels) {
  if (setjmp(errors.jump)) return false;
  jpeg_start_decompress(&jpeg);
  const size_t row = size_t(jpeg.output_width) * size_t(jpeg.output_components);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW line = pixels + row * jpeg.output_scanline;
    jpeg_read_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  JpegErrors errors{};
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = jpeg_leave;
  errors.base.emit_message = jpeg_message;
  jpeg_create_decompress(&jpeg);
  struct Free {
    jpeg_decompress_struct* jpeg;
    ~Free() { jpeg_destroy_decompress(jpeg); }
  } const free{&jpeg};
  jpeg_progress_mgr progress{};
  progress.progress_monitor = jpeg_progress;
  jpeg.progress = &progress;
  check(jpeg_head(jpeg, errors, bytes), "image", "'", name, "' is a damaged JPEG: ", errors.message);
  check_size(jpeg.image_height, jpeg.image_width, name);
  check(jpeg.num_components == 1 || jpeg.num_components == 3, "image", "'", name, "' has ", jpeg.num_components,
        " channels; a picture is grey or RGB: convert it");
  jpeg.out_color_space = jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  Image out{jpeg.image_height, jpeg.image_width, jpeg.num_components, {}};
  out.pixels.resize(size_t(out.height * out.width * out.channels));
  check(jpeg_pixels(jpeg, errors, out.pixels.data()), "image", "'", name, "' is a damaged JPEG: ", errors.message);
  return out;
}

// P5 or P6, then three numbers between white space and comments, one white space, the pixels.
Image decode_ppm(std::string_view bytes, const std::string& name) {
  size_t at = 2;
  const auto number = [&](const char* what) {
    while (at < bytes.size() && (bytes[at] == '#' || (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r'))))
      at = bytes[at] == '#' ? std::min(bytes.find('\n', at), bytes.size()) : at + 1;
    int64_t value = -1;
    const auto [end, error] = std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), value);
    check(error == std::errc() && value >= 1, "image", "'", name, "' is a damaged PPM: its ", what, " is no number");
    at = size_t(end - bytes.data());
    return value;
  };
  const int64_t width = number("width"), height = number("height"), most = number("largest value");
  check_size(height, width, name);
  check(most <= 255, "image", "'", name, "' is a PPM of values up to ", most, "; convert it to at most 255");
  Image out{height, width, bytes[1] == '6' ? 3 : 1, {}};
  const auto count = size_t(height * width * out.channels);
  check(at < bytes.size() && bytes.size() - at - 1 >= count, "image", "'", name, "' is a PPM that is cut: ", width,
        " x ", height, " pixels need ", count, " bytes, it has ", at < bytes.size() ? bytes.size() - at - 1 : 0);
  for (const char c : bytes.substr(at + 1, count)) {
    const int value = static_cast<unsigned char>(c);
    check(value <= most, "image", "'", name, "' is a damaged PPM: a value of ", value, " is above its largest, ", most);
    out.pixels.push_back(uint8_t((value * 255 + most / 2) / most));
  }
  return out;
}

}  // namespace

Image decode_image(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  if (bytes.starts_with("\xFF\xD8\xFF")) return decode_jpeg(bytes, name);
  if (bytes.starts_with("P5") || bytes.starts_with("P6")) return decode_ppm(bytes, name);
  fail("image", "'", name, "' is neither PNG, JPEG nor binary PPM (P5, P6)", bytes.empty() ? ": it is empty" : "");
}

}  // namespace lithe
