// Sounds and their log-mel frames, against values by numpy (tools/oracles/make_audio_golden.py), and hostile files.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/data/fourier_frame.h"
#include "lithe/data/mel.h"
#include "lithe/data/sound.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

const Json& golden() {
  static const Json all = parse_json(read_file("tests/golden/audio.json", uint64_t(1) << 22), "audio.json");
  return all;
}

// The sound of the golden values.
std::vector<float> mix(int64_t count, double rate) {
  std::vector<float> out;
  uint32_t state = 12345;
  for (int64_t t = 0; t < count; ++t) {
    state = (1103515245U * state + 12345U) % 0x80000000U;
    const double s = double(t) / rate, noise = double(state) / double(0x80000000U) - 0.5;
    out.push_back(float(0.3 * std::sin(2 * std::numbers::pi * 440 * s) +
                        0.2 * std::sin(2 * std::numbers::pi * (200 + 1400 * s) * s) + 0.05 * noise));
  }
  return out;
}

// A WAV file of 16-bit samples, or of f32 numbers.
std::string wav(const std::vector<float>& samples, int rate = 16000, int channels = 1, bool floats = false) {
  const auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += char(value >> (8 * i) & 0xff);
    return out;
  };
  std::string data;
  const int width = floats ? 4 : 2;
  for (const float x : samples)
    data += floats ? number(std::bit_cast<uint32_t>(x), 4) : number(uint16_t(int16_t(std::lround(x * 32768))), 2);
  return "RIFF" + number(36 + data.size(), 4) + "WAVEfmt " + number(16, 4) + number(floats ? 3 : 1, 2) +
         number(uint64_t(channels), 2) + number(uint64_t(rate), 4) + number(uint64_t(rate * channels * width), 4) +
         number(uint64_t(channels * width), 2) + number(uint64_t(8 * width), 2) + "data" + number(data.size(), 4) +
         data;
}

class SoundFiles : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  std::string write(const std::string& bytes) const {
    const Path file = scratch_.path() / "sound.wav";
    write_file(file, bytes);
    return file.string();
  }
};

// oracle: app.st_single
TEST(MelFeatures, HaveTheReferencesNumbers) {
  for (const std::string name : {"whisper", "whisper_8k", "kaldi", "kaldi_8k"}) {
    const Json& want = golden()[name];
    const MelSettings settings{
        .kind = name.starts_with("kaldi") ? MelSettings::Kind::kaldi : MelSettings::Kind::whisper,
        .rate = want["rate"],
        .bins = want["bins"]};
    const std::vector<float> got = MelFeatures(settings)(mix(want["samples"], want["rate"]));
    ASSERT_EQ(int64_t(got.size()), want["frames"].get<int64_t>() * settings.bins) << name;
    EXPECT_EQ(mel_frames(settings, want["samples"]), want["frames"].get<int64_t>());
    for (size_t i = 0; i < want["rows"].size(); ++i)
      for (int64_t m = 0; m < settings.bins; ++m)
        EXPECT_NEAR(got[size_t(want["rows"][i].get<int64_t>() * settings.bins + m)],
                    want["values"][i][size_t(m)].get<double>(), 1e-5)
            << name << " row " << want["rows"][i] << " bin " << m;
  }
}

TEST(Resampled, IsTheSumOfItsDefinition) {
  for (const std::string name : {"resample_up", "resample_down", "resample_slower"}) {
    const Json& want = golden()[name];
    const std::vector<float> got = resampled(mix(want["samples"], 16000), want["from"], want["to"]);
    ASSERT_EQ(got.size(), want["values"].size()) << name;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want["values"][i].get<double>(), 2e-7) << name << i;
  }
  EXPECT_EQ(resampled({1, 2, 3}, 8000, 8000), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(resampled_count(3, 8000, 16000), 6);
  EXPECT_EQ(resampled_count(10, 9, 10), 12);
}

TEST(FrameTransform, IsTheSumOfWaves) {
  for (const size_t n : {1, 2, 7, 12, 25, 400}) {
    std::vector<std::complex<double>> x(n), y(n);
    for (size_t t = 0; t < n; ++t) x[t] = {std::sin(double(t * t)), std::cos(double(3 * t))};
    FrameTransform(n).operator()(x.data(), y.data());
    for (size_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (size_t t = 0; t < n; ++t)
        sum += x[t] * std::polar(1.0, -2 * std::numbers::pi * double(k * t % n) / double(n));
      EXPECT_NEAR(std::abs(y[k] - sum), 0, 1e-11) << n << " " << k;
    }
  }
}

TEST_F(SoundFiles, AreReadAsOneChannel) {
  const std::vector<float> samples{0, 0.5, -0.5, 0.25};
  const Sound one = read_sound(write(wav(samples, 8000)));
  EXPECT_EQ(one.rate, 8000);
  EXPECT_EQ(one.samples, samples);
  EXPECT_EQ(read_sound(write(wav(samples, 8000, 2))).samples, (std::vector<float>{0.25, -0.125}));
  EXPECT_EQ(read_sound(write(wav(samples, 8000, 1, true))).samples, samples);
  EXPECT_EQ(read_sound_head(write(wav(samples, 8000, 2))).samples, 2);
}

TEST_F(SoundFiles, ThatAreDamagedAreRefusedInALine) {
  const std::vector<float> samples = mix(500, 16000);
  const std::string good = wav(samples);
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = write(bytes);
    std::string why;
    try {
      read_sound(path);
    } catch (const Error& error) {
      why = error.what();
    }
    EXPECT_NE(why.find(path), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    return why;
  };
  EXPECT_NE(refusal(good.substr(0, 300)).find("is cut"), std::string::npos);
  EXPECT_NE(refusal("").find("no sound"), std::string::npos);
  EXPECT_NE(refusal("once upon a time there was a file").find("no sound"), std::string::npos);
  EXPECT_NE(refusal("RIFF....WAVEfmt ").find("no sound"), std::string::npos);
  EXPECT_NE(refusal(wav({})).find("no samples"), std::string::npos);
  EXPECT_FALSE(refusal(wav(samples, 16000, 0)).empty());
  EXPECT_FALSE(refusal(wav(samples, 16000, 250)).empty());
  EXPECT_NE(refusal(wav(samples, 1)).find("samples a second"), std::string::npos);
  std::vector<float> broken = samples;
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(refusal(wav(broken, 16000, 1, true)).find("sample 7 is not finite"), std::string::npos);
  EXPECT_THROW(read_sound((scratch_.path() / "none.wav").string()), Error);
}

// Any change of a byte reads, or is refused by an Error.
TEST_F(SoundFiles, WithOneByteChangedNeverCrash) {
  const std::string good = wav(mix(40, 16000));
  for (size_t i = 0; i < 60; ++i)
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = char(bytes[i] ^ change);
      try {
        read_sound(write(bytes));
      } catch (const Error&) {
      }
    }
}

}  // namespace
}  // namespace lithe
