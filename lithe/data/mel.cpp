#include "lithe/data/mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "lithe/base/error.h"
#include "lithe/data/fourier_frame.h"

namespace lithe {
namespace {

using MelKind = MelSettings::Kind;
using std::numbers::pi;

double slaney_mel(double hz) { return hz < 1000 ? hz * 3 / 200 : 15 + std::log(hz / 1000) * 27 / std::log(6.4); }
double slaney_hz(double mel) { return mel < 15 ? mel * 200 / 3 : 1000 * std::exp(std::log(6.4) / 27 * (mel - 15)); }
double kaldi_mel(double hz) { return 1127 * std::log(1 + hz / 700); }

int64_t transform_size(const MelSettings& s) {
  int64_t n = s.window();
  if (s.kind == MelKind::whisper) return n;
  for (n = 1; n < s.window();) n *= 2;
  return n;
}

// Triangles between neighbouring points, of the area of one bin a hertz.
std::vector<double> slaney_filters(const MelSettings& s, int64_t frequencies) {
  std::vector<double> points(size_t(s.bins + 2)), out(size_t(s.bins * frequencies));
  const double top = slaney_mel(double(s.rate) / 2);
  for (size_t i = 0; i < points.size(); ++i) points[i] = slaney_hz(top * double(i) / double(s.bins + 1));
  for (int64_t m = 0; m < s.bins; ++m)
    for (int64_t k = 0; k < frequencies; ++k) {
      const double hz = double(k) * double(s.rate) / double(transform_size(s)), left = points[size_t(m)],
                   middle = points[size_t(m + 1)], right = points[size_t(m + 2)];
      const double height = std::min((hz - left) / (middle - left), (right - hz) / (right - middle));
      out[size_t(m * frequencies + k)] = std::max(0.0, height) * 2 / (right - left);
    }
  return out;
}

// Triangles of height 1 in mels; the half rate itself is in none.
std::vector<double> kaldi_filters(const MelSettings& s, int64_t frequencies) {
  std::vector<double> out(size_t(s.bins * frequencies));
  const double low = kaldi_mel(20), width = (kaldi_mel(double(s.rate) / 2) - low) / double(s.bins + 1);
  for (int64_t m = 0; m < s.bins; ++m)
    for (int64_t k = 0; k + 1 < frequencies; ++k) {
      const double at = (kaldi_mel(double(k) * double(s.rate) / double(transform_size(s))) - low) / width - double(m);
      out[size_t(m * frequencies + k)] = std::max(0.0, std::min(at, 2 - at));
    }
  return out;
}

std::vector<double> window_of(const MelSettings& s) {
  std::vector<double> out(size_t(s.window()));
  const double n = double(s.window());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = s.kind == MelKind::whisper ? 0.5 - 0.5 * std::cos(2 * pi * double(i) / n)
                                        : std::pow(0.5 - 0.5 * std::cos(2 * pi * double(i) / (n - 1)), 0.85);
  return out;
}

}  // namespace

struct MelFeatures::Tables {
  MelSettings settings;
  FrameTransform transform;
  std::vector<double> window, filters;
  struct Span {
    int64_t begin, end;  // where a bin's weights are not zero
  };
  std::vector<Span> spans;

  explicit Tables(const MelSettings& s) : settings(s), transform(size_t(transform_size(s))), window(window_of(s)) {
    filters = s.kind == MelKind::whisper ? slaney_filters(s, frequencies()) : kaldi_filters(s, frequencies());
    for (int64_t m = 0; m < s.bins; ++m) {
      Span span{frequencies(), 0};
      for (int64_t k = 0; k < frequencies(); ++k)
        if (filters[size_t(m * frequencies() + k)] > 0) span = {std::min(span.begin, k), k + 1};
      spans.push_back(span);
    }
  }
  int64_t frequencies() const { return int64_t(transform.size()) / 2 + 1; }

  // Frame t as it is transformed.
  void take(std::span<const float> samples, int64_t t, const RandomKey& key, int64_t first,
            std::vector<double>& frame) const {
    const int64_t n = settings.window(), count = int64_t(samples.size());
    std::fill(frame.begin(), frame.end(), 0.0);
    if (settings.kind == MelKind::whisper) {
      for (int64_t i = 0; i < n; ++i) {
        int64_t at = std::abs(t * settings.hop() + i - n / 2);
        if (at >= count) at = 2 * (count - 1) - at;
        frame[size_t(i)] = double(samples[size_t(at)]) * window[size_t(i)];
      }
      return;
    }
    double mean = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = t * settings.hop() + i;
      frame[size_t(i)] = double(samples[size_t(at)]) * 32768;
      if (settings.dither > 0) frame[size_t(i)] += settings.dither * random_normal(key, uint64_t((first + t) * n + i));
      mean += frame[size_t(i)];
    }
    mean /= double(n);
    for (int64_t i = 0; i < n; ++i) frame[size_t(i)] -= mean;
    for (int64_t i = n - 1; i >= 0; --i)
      frame[size_t(i)] = (frame[size_t(i)] - 0.97 * frame[size_t(std::max<int64_t>(i - 1, 0))]) * window[size_t(i)];
  }
  // The bins' energies of a frame's power spectrum.
  void bin(const std::vector<double>& power, float* out) const {
    for (int64_t m = 0; m < settings.bins; ++m) {
      double sum = 0;
      const double* const weights = filters.data() + m * frequencies();
      for (int64_t k = spans[size_t(m)].begin; k < spans[size_t(m)].end; ++k) sum += weights[k] * power[size_t(k)];
      out[m] = float(settings.kind == MelKind::whisper
                         ? std::log10(std::max(sum, 1e-10))
                         : std::log(std::max(sum, double(std::numeric_limits<float>::epsilon()))));
    }
  }
};

int64_t mel_frames(const MelSettings& s, int64_t samples) {
  if (s.kind == MelKind::whisper) return samples > s.window() / 2 ? samples / s.hop() : 0;  // reflected at its ends
  return samples < s.window() ? 0 : 1 + (samples - s.window()) / s.hop();
}

MelFeatures::MelFeatures(const MelSettings& s) {
  check_usage(s.rate >= 1000 && s.rate % 200 == 0, "audio", "sample_rate ", s.rate,
              " has no whole frames of 25 and 10 ms; choose a multiple of 200 from 1000 on, as 16000");
  check_usage(s.bins >= 1 && s.bins <= transform_size(s) / 2, "audio", "num_mel_bins ", s.bins, " are more than the ",
              transform_size(s) / 2, " frequencies of a frame; lower them");
  tables_ = std::make_unique<Tables>(s);
}
MelFeatures::~MelFeatures() = default;

const std::vector<double>& MelFeatures::filters() const { return tables_->filters; }

std::vector<float> MelFeatures::operator()(std::span<const float> samples, const RandomKey& key, int64_t first) const {
  const Tables& t = *tables_;
  const MelSettings& s = t.settings;
  const int64_t frames = mel_frames(s, int64_t(samples.size())), frequencies = t.frequencies();
  check(frames > 0, "audio", "a sound of ", samples.size(), " samples at ", s.rate,
        " a second is too short for a frame");
  check(first == 0 || (s.kind == MelKind::kaldi && first % 2 == 0), "audio", "internal: frames from ", first, " on");
  std::vector<float> out(size_t(frames * s.bins));
  const size_t n = t.transform.size();
  std::vector<double> one(n), two(n), power(static_cast<size_t>(frequencies));
  std::vector<std::complex<double>> both(n), spectrum(n);
  for (int64_t frame = 0; frame < frames; frame += 2) {  // two real frames are one complex one
    const bool pair = frame + 1 < frames;
    t.take(samples, frame, key, first, one);
    if (pair) t.take(samples, frame + 1, key, first, two);
    for (size_t i = 0; i < n; ++i) both[i] = {one[i], pair ? two[i] : 0};
    t.transform(both.data(), spectrum.data());
    const auto part = [&](int64_t k, double sign) {
      const std::complex<double> a = spectrum[size_t(k)], b = std::conj(spectrum[k ? n - size_t(k) : 0]);
      return std::norm(a + sign * b) / 4;
    };
    for (int64_t k = 0; k < frequencies; ++k) power[size_t(k)] = part(k, 1);
    t.bin(power, out.data() + frame * s.bins);
    if (!pair) continue;
    for (int64_t k = 0; k < frequencies; ++k) power[size_t(k)] = part(k, -1);
    t.bin(power, out.data() + (frame + 1) * s.bins);
  }
  if (s.kind == MelKind::kaldi) return out;
  const float least = *std::max_element(out.begin(), out.end()) - 8;
  for (float& x : out) x = (std::max(x, least) + 4) / 4;
  return out;
}

}  // namespace lithe
