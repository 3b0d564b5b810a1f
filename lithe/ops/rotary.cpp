#include "lithe/ops/rotary.h"

#include <algorithm>
#include <cmath>

#include "lithe/kernels/rope/rope.h"
#include "lithe/ops/attention.h"

namespace lithe {

std::vector<double> rotary_frequencies(double base, int64_t d, const RotaryScaling& how) {
  const auto length = double(how.original_max_position_embeddings);
  // yarn: channels between those that make beta_fast and beta_slow turns change gradually.
  const auto channel_of = [&](double turns) {
    return double(d) * std::log(length / (turns * 2 * M_PI)) / (2 * std::log(base));
  };
  std::vector<double> out;
  for (int64_t c = 0; c < d / 2; ++c) {
    const double plain = std::pow(base, -2.0 * double(c) / double(d)), slow = plain / how.factor;
    if (how.scaling == "linear") {
      out.push_back(slow);
    } else if (how.scaling == "llama3") {
      const double turns = length * plain / (2 * M_PI);
      const double kept =
          std::clamp((turns - how.low_freq_factor) / (how.high_freq_factor - how.low_freq_factor), 0.0, 1.0);
      out.push_back((1 - kept) * slow + kept * plain);
    } else if (how.scaling == "yarn") {
      const double fast = channel_of(how.beta_fast), slowest = channel_of(how.beta_slow);
      const double first = std::max(how.truncate ? std::floor(fast) : fast, 0.0);
      double last = std::min(how.truncate ? std::ceil(slowest) : slowest, double(d - 1));
      if (first == last) last += 0.001;
      const double divided = std::clamp((double(c) - first) / (last - first), 0.0, 1.0);
      out.push_back(divided * slow + (1 - divided) * plain);
    } else if (how.scaling == "factors") {
      out.push_back(plain / how.frequency_factors[size_t(c)]);
    } else {
      out.push_back(plain);
    }
  }
  return out;
}

Var rotate(const Var& x, const Tensor& positions, const Rotation& how) {
  const auto args = [=](const Tensor& from, const Tensor& to, bool inverse, bool accumulate) {
    return kernels::RopeArgs{.x = from,
                             .positions = positions,
                             .out = to,
                             .head_dim = how.head_dim,
                             .base = how.base,
                             .interleaved = how.interleaved,
                             .inverse = inverse,
                             .accumulate = accumulate,
                             .rotary_dim = how.rotary_dim,
                             .frequencies = how.frequencies};
  };
  Tensor out = empty_like(x.value());
  kernels::rope(args(x.value(), out, false, false));
  return record("rotate", {x}, out, [=, x = x.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::rope(args(dy, dx.to, true, dx.accumulate));
  });
}

Var rotate(const Var& x, const Tensor& positions, int64_t head_dim, double base, bool interleaved) {
  return rotate(x, positions, Rotation{.head_dim = head_dim, .base = base, .interleaved = interleaved});
}

}  // namespace lithe
