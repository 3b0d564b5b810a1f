#include "lithe/data/image.h"

#include <png.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
// Behind what declares FILE and size_t, which it does not include.
#include <jpeglib.h>

#include "lithe/base/random.h"
#include "lithe/data/byte_source.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/image_features.h"
#include "tests/data/files_for_tests.h"
#include "tests/support/data.h"

namespace lithe {
namespace {

// A picture with every value different, as far as bytes go.
Image ramp(int64_t height, int64_t width, int64_t channels) {
  Image out{height, width, channels, {}};
  for (int64_t i = 0; i < height * width * channels; ++i) out.pixels.push_back(uint8_t(i * 7 % 251));
  return out;
}

std::string png_of(const void* pixels, int64_t height, int64_t width, uint32_t format) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = uint32_t(width);
  png.height = uint32_t(height);
  png.format = format;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&png, nullptr, &size, 0, pixels, 0, nullptr));
  std::string out(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&png, out.data(), &size, 0, pixels, 0, nullptr));
  out.resize(size);
  return out;
}

std::string png_of(const Image& image) {
  return png_of(image.pixels.data(), image.height, image.width, image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY);
}

std::string jpeg_of(const Image& image) {
  jpeg_error_mgr errors;
  jpeg_compress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = JDIMENSION(image.width);
  jpeg.image_height = JDIMENSION(image.height);
  jpeg.input_components = int(image.channels);
  jpeg.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<uint8_t*>(image.pixels.data()) + jpeg.next_scanline * size_t(image.width * image.channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return out;
}

TEST(Images, PngGivesThePixelsBack) {
  for (const Image& image : {ramp(3, 5, 3), ramp(4, 2, 1), ramp(1, 1, 3), ramp(1, 1, 1)})
    EXPECT_EQ(decode_image(png_of(image), "a.png"), image);
}

TEST(Images, TransparentPixelsStandOnBlack) {
  const uint8_t pixels[] = {200, 100, 50, 255, 200, 100, 50, 0};
  const Image image = decode_image(png_of(pixels, 1, 2, PNG_FORMAT_RGBA), "a.png");
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{200, 100, 50, 0, 0, 0}));
}

TEST(Images, JpegIsNearAndKeepsItsChannels) {
  Image flat{16, 24, 3, {}};
  for (int i = 0; i < 16 * 24; ++i) flat.pixels.insert(flat.pixels.end(), {10, 200, 90});
  const Image back = decode_image(jpeg_of(flat), "a.jpg");
  ASSERT_EQ(back.pixels.size(), flat.pixels.size());
  for (size_t i = 0; i < back.pixels.size(); ++i) EXPECT_NEAR(back.pixels[i], flat.pixels[i], 3) << i;
  EXPECT_EQ(decode_image(jpeg_of({8, 8, 1, std::vector<uint8_t>(64, 77)}), "g.jpg").channels, 1);
}

TEST(Images, PpmOfBytes) {
  EXPECT_EQ(decode_image("P6 # two pixels\n2 1\n255\nabcdef", "a.ppm"),
            (Image{1, 2, 3, {'a', 'b', 'c', 'd', 'e', 'f'}}));
  EXPECT_EQ(decode_image(std::string("P5 1 2 100 \x64\x32", 13), "a.pgm"), (Image{2, 1, 1, {255, 128}}));
}

TEST(Images, DamagedFilesAreRefusedInOneLine) {
  const std::string png = png_of(ramp(9, 9, 3)), jpeg = jpeg_of(ramp(32, 32, 3));
  expect_error([&] { decode_image(png.substr(0, png.size() / 2), "cut.png"); }, {"'cut.png'", "damaged PNG"});
  expect_error([&] { decode_image(jpeg.substr(0, jpeg.size() / 2), "cut.jpg"); }, {"'cut.jpg'", "damaged JPEG"});
  expect_error([&] { decode_image(jpeg.substr(0, 20), "head.jpg"); }, {"'head.jpg'", "damaged JPEG"});
  expect_error([] { decode_image("", "none.png"); }, {"'none.png'", "empty"});
  expect_error([] { decode_image("GIF89a....", "a.gif"); }, {"'a.gif'", "neither PNG, JPEG nor binary PPM"});
  expect_error([] { decode_image("P6 4 4 255 ab", "cut.ppm"); }, {"'cut.ppm'", "48 bytes, it has 2"});
  expect_error([] { decode_image("P6 1 1 65535 abcdef", "deep.ppm"); }, {"65535"});
  expect_error([] { decode_image("P6 x 1 255 abc", "x.ppm"); }, {"width is no number"});
  expect_error([] { decode_image("P5 1 1 9 z", "v.pgm"); }, {"above its largest, 9"});
}

void damage(std::string& bytes, const RandomKey& key, uint64_t& next) {
  const uint64_t place = random_below(key, next++, bytes.size());
  bytes[place] = char(random_below(key, next++, 256));
}

TEST(Images, DamageOfAnyKindIsAnErrorOrAPicture) {
  const std::vector<std::string> sound{png_of(ramp(9, 7, 3)), jpeg_of(ramp(24, 16, 3)),
                                       "P6 4 2 255 " + std::string(24, 'p')};
  const RandomKey key{.purpose = purpose_of("damage")};
  uint64_t next = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = sound[size_t(i) % sound.size()];
    for (uint64_t n = 1 + random_below(key, next++, 4); n > 0; --n) damage(bytes, key, next);
    if (random_below(key, next++, 4) == 0) bytes.resize(random_below(key, next++, bytes.size()) + 1);
    try {
      const Image image = decode_image(bytes, "damaged");
      EXPECT_EQ(int64_t(image.pixels.size()), image.height * image.width * image.channels);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("'damaged'"), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

TEST(Images, NoPictureAboveTheLimitIsUnpacked) {
  std::string png = png_of(ramp(1, 1, 1));
  // Width and height of the head, and its checksum.
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) png[at + i] = char(value >> (24 - 8 * i));
  };
  put(16, 100000);
  put(20, 100000);
  uLong sum = crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17);
  put(29, uint32_t(sum));
  expect_error([&] { decode_image(png, "bomb.png"); }, {"100000 x 100000 pixels", "1 to 67108864"});
  expect_error([] { decode_image("P5 9999999 9999999 255 a", "bomb.pgm"); }, {"9999999 x 9999999"});
}

TEST(Images, LongAndThinPicturesAreFitted) {
  const Image thin = decode_image(png_of({1, 100000, 1, std::vector<uint8_t>(100000, 128)}), "thin.png");
  ImageConfig config;
  config.height = 8;
  config.patch_size = 4;
  const Pixels fitted = prepared_image(thin, config, {});
  ASSERT_EQ(fitted.values.size(), size_t(8 * 8 * 3));
  for (const float value : fitted.values) EXPECT_NEAR(value, (128 / 255.0 - 0.5) / 0.5, 1e-5);
  config.fit = "crop";
  EXPECT_EQ(prepared_image(thin, config, {}).width, 8);
}

// oracle: app.vit
TEST(Images, PatchesAreRowsColumnsChannels) {
  Pixels image{4, 4, 3, {}};
  for (int i = 0; i < 48; ++i) image.values.push_back(float(i));
  const std::vector<float> patches = patchify(image, 2);
  // The second patch: rows 0 and 1, columns 2 and 3.
  EXPECT_EQ(std::vector<float>(patches.begin() + 12, patches.begin() + 24),
            (std::vector<float>{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(unpatchify(patches, 2, 4, 4, 3).values, image.values);
  EXPECT_EQ(patchify({224, 224, 3, std::vector<float>(224 * 224 * 3)}, 16).size(), size_t(196 * 768));
  expect_error([&] { patchify(image, 3); }, {"4 x 4", "3 x 3"}, ExitCode::usage);
}

TEST(Images, ResizingKeepsFlatAndAverages) {
  const Pixels flat{5, 7, 1, std::vector<float>(35, 3)};
  for (const float value : resize(flat, 11, 2).values) EXPECT_NEAR(value, 3, 1e-5);
  const Pixels two{1, 2, 1, {0, 8}};
  EXPECT_NEAR(resize(two, 1, 1).values[0], 4, 1e-6);
  // Bilinear: places at -0.25, 0.25, 0.75, 1.25 of the old ones.
  const Pixels four = resize(two, 1, 4);
  EXPECT_NEAR(four.values[0], 0, 1e-6);
  EXPECT_NEAR(four.values[1], 2, 1e-6);
  EXPECT_NEAR(four.values[2], 6, 1e-6);
  EXPECT_NEAR(four.values[3], 8, 1e-6);
}

TEST(Images, AugmentationIsAFunctionOfSeedEpochAndExample) {
  ImageConfig config;
  config.height = 8;
  config.crop_padding = 2;
  config.flip = true;
  config.patch_size = 4;
  const Image image = ramp(8, 8, 3);
  const auto draw = [&](uint64_t seed, int64_t epoch, int64_t example) {
    return prepared_image(image, config, {.augment = true, .seed = seed, .epoch = epoch, .example = example}).values;
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  std::map<std::vector<float>, int> seen;
  for (int e = 0; e < 400; ++e) ++seen[draw(1, e, 3)];
  EXPECT_GT(seen.size(), 45u);  // of 5 x 5 places, mirrored or not
  EXPECT_LE(seen.size(), 50u);
  EXPECT_TRUE(seen.count(prepared_image(image, config, {}).values));
}

TEST(ImageFiles, ArraysAndTars) {
  const TestFiles files;
  const Path cache = files.path();
  // Two pictures of 2 x 3.
  const std::string idx = std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3", 16) + "abcdefghijkl";
  files.add("train-images-idx3-ubyte.gz", gzip(idx));
  files.add("train-images-idx3-ubyte", idx);
  const ImageFiles images(cache, {2, 1, 3});
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"}) {
    const std::string path = files / name;
    EXPECT_EQ(images.read(path + "#1"), (Image{2, 3, 1, {'g', 'h', 'i', 'j', 'k', 'l'}}));
    expect_error([&] { images.read(path + "#2"); }, {"2 entries, 0 to 1, not 2"});
  }
  std::string cifar(size_t(2 * kCifarBytes), '\0');
  cifar[size_t(kCifarBytes)] = 9;  // label of the second
  cifar[size_t(kCifarBytes + 1)] = 'r';
  cifar[size_t(kCifarBytes + 1 + 1024)] = 'g';
  cifar[size_t(kCifarBytes + 1 + 2048 + 1)] = 'b';
  files.add("b.bin.gz", gzip(cifar));
  const Image second = images.read((files / "b.bin.gz") + "#1");
  EXPECT_EQ(std::vector<uint8_t>(second.pixels.begin(), second.pixels.begin() + 6),
            (std::vector<uint8_t>{'r', 'g', 0, 0, 0, 'b'}));
  files.add("raw.u8", "abcdefuvwxyz");
  EXPECT_EQ(images.read((files / "raw.u8") + "#1"), (Image{2, 1, 3, {'u', 'v', 'w', 'x', 'y', 'z'}}));
  // Damage.
  files.add("cut.u8", "abcdefuvwxy");
  expect_error([&] { images.read((files / "cut.u8") + "#0"); }, {"11 bytes", "multiple of the 6"});
  files.add("cut-images-idx3-ubyte", idx.substr(0, 20));
  expect_error([&] { images.read((files / "cut-images-idx3-ubyte") + "#0"); }, {"28 bytes", "it has 20"});
  files.add("bomb-images-idx3-ubyte.gz", gzip(idx + std::string(100000, 'x')));
  expect_error([&] { images.read((files / "bomb-images-idx3-ubyte.gz") + "#0"); }, {"more than the 28 bytes"});
  files.add("few-images-idx3-ubyte", std::string("\0\0\x08\x03\x7f\xff\xff\xff\0\0\0\1\0\0\0\1", 16));
  files.add("few-labels-idx1-ubyte", std::string("\0\0\x08\x01\x7f\xff\xff\xff\1\2", 10));
  expect_error(
      [&] {
        LabelNames labels;
        std::vector<Example> out;
        read_idx(files / "few-images-idx3-ubyte", labels, out);
      },
      {"must have 2147483647 labels by its head, it has 2"});
  files.add("big-images-idx3-ubyte", std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16));
  expect_error([&] { images.read((files / "big-images-idx3-ubyte") + "#0"); }, {"dimension 2", "4294967295"});
  expect_error([&] { images.read((files / "raw.u8") + "#x"); }, {"number of an entry"}, ExitCode::usage);
  expect_error([&] { tar_members(std::string(512, 'x'), "x.tar"); }, {"'x.tar'", "no tar"});
}

// A tar of pictures and the same pictures as an array, from two readers.
TEST(ImageFiles, ATarOfPngIsTheArrayOfItsPixels) {
  const std::string data = kit::data_if_any("multimodal").string();
  if (data.empty()) GTEST_SKIP() << "needs $LITHE_DATA/multimodal";
  const TestFiles files;
  const ImageFiles images(files.path(), {64, 64, 3});
  for (int i = 0; i < 1000; i += 37)
    EXPECT_EQ(images.read(cat(data, "/easy-vqa/test-images-png.tar#test/", i, ".png")),
              images.read(cat(data, "/easy-vqa/test-images.u8.gz#", i)))
        << i;
}

}  // namespace
}  // namespace lithe
