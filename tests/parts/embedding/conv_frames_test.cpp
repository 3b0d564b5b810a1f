#include <gtest/gtest.h>

#include <cmath>

#include "lithe/data/features.h"
#include "lithe/nn/placed_embedding.h"
#include "lithe/objective/device_batch.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Convolution of k frames around every `step`-th, zeros outside, then x Phi(x).
Matrix layer(const Matrix& in, const Tensor& weight, const Tensor& bias, int64_t kernel, int64_t step) {
  Matrix out;
  const auto frames = int64_t(in.size()), channels = int64_t(in[0].size());
  for (int64_t t = 0; t < frames; t += step) {
    out.emplace_back();
    for (int64_t o = 0; o < weight.cols(); ++o) {
      double sum = value_at(bias, o);
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t at = t + k - kernel / 2;
        for (int64_t c = 0; c < channels && at >= 0 && at < frames; ++c)
          sum += in[size_t(at)][size_t(c)] * value_at(weight, (k * channels + c) * weight.cols() + o);
      }
      out.back().push_back(sum * 0.5 * std::erfc(-sum / std::sqrt(2.0)));
    }
  }
  return out;
}

TEST(ConvFrames, AreTwoConvolutionsWrittenOut) {
  for (const auto& [kernel, stride] : {std::pair<int64_t, int64_t>{3, 2}, {5, 3}}) {
    kit::Bench bench;
    const int64_t rows = 6;
    const auto made =
        bench.make<Embedding>("conv_frames", {.vocab_size = 1, .hidden_size = 5, .token_width = 0},
                              cat("{num_features: 4, rows: 6, kernel: ", kernel, ", frames_per_row: ", stride, "}"));
    EXPECT_EQ(made->placed()->rows(), rows);
    EXPECT_EQ(made->width(), 1 + 4 * stride);
    lithe::Batch batch{.offsets = {0, 0}};
    std::vector<Matrix> sounds;
    for (int s = 0; s < 2; ++s) {  // which do not see each other
      std::vector<float> numbers;
      Matrix frames(size_t(rows * stride));
      for (int64_t i = 0; i < rows * stride * 4; ++i) {
        numbers.push_back(float(std::sin(double(i) * 0.7 + s)));
        frames[size_t(i / 4)].push_back(double(numbers.back()));
      }
      sounds.push_back(frames);
      add_feature_rows(batch, "audio", rows, 4 * stride, numbers);
    }
    const Tensor got = made->forward(to_device(batch, Device::cpu).input.modalities.at("audio").tokens).value();
    for (size_t s = 0; s < 2; ++s) {
      const Matrix near = layer(sounds[s], bench["part.convolutions.0.weight"], bench["part.convolutions.0.bias"],
                                kernel, 1),
                   want = layer(near, bench["part.convolutions.1.weight"], bench["part.convolutions.1.bias"], kernel,
                                stride);
      ASSERT_EQ(int64_t(want.size()), rows);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < 5; ++c)
          EXPECT_NEAR(value_at(got, (int64_t(s) * rows + r) * 5 + c),
                      want[size_t(r)][size_t(c)] + value_at(bench["part.position.weight"], r * 5 + c), 1e-12);
    }
  }
}

TEST(ConvFrames, OfWhisperTinyHaveItsParameters) {
  kit::Bench bench(DType::f32, DType::f32, Device::meta);
  bench.make<Embedding>("conv_frames", {.vocab_size = 1, .hidden_size = 384, .token_width = 0},
                        "{num_features: 80, rows: 1500}");
  EXPECT_EQ(bench.parameters().count(), 3 * 80 * 384 + 384 + 3 * 384 * 384 + 384 + 1500 * 384);
}

TEST(ConvFrames, RefuseWhatHasNoMiddleAndNoWholeSounds) {
  kit::Bench bench;
  const Embedding::Args args{.vocab_size = 1, .hidden_size = 4, .token_width = 0};
  EXPECT_NE(kit::error_of([&] { bench.make<Embedding>("conv_frames", args, "{kernel: 4}"); }).find("odd"),
            std::string::npos);
  kit::Bench other;
  const auto made = other.make<Embedding>("conv_frames", args, "{num_features: 4, rows: 3}");
  lithe::Batch batch{.offsets = {0, 0}};
  add_feature_rows(batch, "audio", 4, 8, std::vector<float>(32));
  const Tensor tokens = to_device(batch, Device::cpu).input.modalities.at("audio").tokens;
  EXPECT_NE(kit::error_of([&] { made->forward(tokens); }).find("3 rows each, got 4"), std::string::npos);
}

}  // namespace
}  // namespace lithe
