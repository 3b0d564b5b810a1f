#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/data/features.h"
#include "lithe/data/image.h"
#include "lithe/objective/device_batch.h"
#include "lithe/parts/common/patch_positions.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using Plane = std::vector<std::vector<std::vector<double>>>;  // [rows][columns][channels]

Plane empty_plane(int64_t rows, int64_t columns, int64_t channels) {
  const std::vector<double> place(static_cast<size_t>(channels));
  const std::vector<std::vector<double>> row(static_cast<size_t>(columns), place);
  return Plane(static_cast<size_t>(rows), row);
}

// Convolution 3 x 3 with zeros around, ReLU, the largest of 3 x 3 at every second place.
Plane layer(const Plane& in, const Tensor& kernel) {
  const auto h = int64_t(in.size()), w = int64_t(in[0].size()), channels = int64_t(in[0][0].size());
  const int64_t out = kernel.cols();
  Plane full = empty_plane(h, w, out);
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < 9; ++i) {
          const int64_t r = y + i / 3 - 1, c = x + i % 3 - 1;
          if (r < 0 || r >= h || c < 0 || c >= w) continue;
          for (int64_t k = 0; k < channels; ++k)
            sum += in[size_t(r)][size_t(c)][size_t(k)] * value_at(kernel, (i * channels + k) * out + o);
        }
        full[size_t(y)][size_t(x)][size_t(o)] = std::max(0.0, sum);
      }
  Plane half = empty_plane(h / 2, w / 2, out);
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int64_t i = 0; i < 9; ++i) {
        const int64_t r = y + i / 3 - 1, c = x + i % 3 - 1;
        if (r % 2 || c % 2 || r < 0 || r >= h || c < 0 || c >= w) continue;
        for (int64_t o = 0; o < out; ++o) {
          double& most = half[size_t(r / 2)][size_t(c / 2)][size_t(o)];
          most = std::max(most, full[size_t(y)][size_t(x)][size_t(o)]);
        }
      }
  return half;
}

TEST(ConvPatches, AreConvolutionsWrittenOut) {
  kit::Bench bench;
  const auto made = bench.make<Embedding>("conv_patches", {.vocab_size = 1, .hidden_size = 5, .token_width = 0},
                                          "{height: 8, width: 12, num_channels: 3, channels: 4, position: none}");
  const auto& embedding = dynamic_cast<const PlacedEmbedding&>(*made);
  EXPECT_EQ(embedding.rows(), 6);
  EXPECT_EQ(embedding.width(), 1 + 48);
  Batch batch{.offsets = {0, 0}};
  std::vector<Plane> planes;
  for (int p = 0; p < 2; ++p) {
    Pixels image{8, 12, 3, {}};
    Plane plane(8, std::vector<std::vector<double>>(12));
    for (int i = 0; i < 8 * 12 * 3; ++i) {
      image.values.push_back(float(std::sin(i * 0.9 + p)));
      plane[size_t(i / 36)][size_t(i / 3 % 12)].push_back(double(image.values.back()));
    }
    planes.push_back(plane);
    add_feature_rows(batch, "image", 6, 48, patchify(image, 4));
  }
  const Tensor rows = made->forward(to_device(batch, Device::cpu).input.modalities.at("image").tokens).value();
  for (size_t p = 0; p < 2; ++p) {
    const Plane want =
        layer(layer(planes[p], bench["part.convolutions.0.weight"]), bench["part.convolutions.1.weight"]);
    for (int64_t cell = 0; cell < 6; ++cell)
      for (int64_t o = 0; o < 5; ++o)
        EXPECT_NEAR(value_at(rows, (int64_t(p) * 6 + cell) * 5 + o),
                    want[size_t(cell / 3)][size_t(cell % 3)][size_t(o)], 1e-12);
  }
}

TEST(ConvPatches, CountsItsConvolutionsAndPlaces) {
  kit::Bench bench(DType::f32, DType::f32, Device::meta);
  bench.make<Embedding>("conv_patches", {.vocab_size = 1, .hidden_size = 128, .token_width = 0},
                        "{height: 32, position: learned}");
  // CCT-2/3x2 on 32 x 32 pixels: 3 x 3 x 3 to 64, 3 x 3 x 64 to 128, 64 places.
  EXPECT_EQ(bench.parameters().count(), 27 * 64 + 576 * 128 + 64 * 128);
}

}  // namespace
}  // namespace lithe
