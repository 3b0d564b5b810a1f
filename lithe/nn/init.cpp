#include "lithe/nn/init.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/random.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"

namespace lithe {

void InitConfig::fields(Fields& f) {
  f("type", type, "distribution of the weight matrices",
    one_of({"normal", "truncated_normal", "xavier_uniform", "xavier_normal", "lipschitz"}));
  f("std", std,
    "standard deviation of embedding tables and of the types normal and truncated_normal (which is cut at two standard "
    "deviations)",
    at_least(0));
  f("gain", gain,
    "factor on the Xavier bound (uniform) or standard deviation (normal); lipschitz: the largest singular value c of a "
    "matrix",
    at_least(0));
  f("literal", literal, "xavier_normal: variance eta^2 as printed in TB 6.84, instead of eta^2/3 (E16)");
  f("scale_residual_outputs", scale_residual_outputs,
    "normal, truncated_normal: divide the standard deviation of matrices that write to the residual stream by sqrt(2 "
    "layers), as GPT-2");
  f("depth", depth,
    "further gain by depth, for L layers and layer l: none; power: a L^b (TB 6.85); scaled: a / l^b (TB 6.86); "
    "deepnorm: (8L)^(-1/4) except for queries and keys",
    one_of({"none", "power", "scaled", "deepnorm"}));
  f("depth_a", depth_a, "power, scaled: a", at_least(0));
  f("depth_b", depth_b, "power, scaled: b");
}

// spec: init.depth_power | initialiser | gain a L^b for all sub-layers; deepnorm preset | TB 6.85
// spec: init.depth_scaled | initialiser | gain a / l^b by layer index l | TB 6.86
double depth_gain(const InitConfig& config, InitRole role, int64_t layer, int64_t layers) {
  if (layer < 0 || role == InitRole::embedding || role == InitRole::zeros || role == InitRole::ones) return 1;
  if (config.depth == "power") return config.depth_a * std::pow(double(layers), config.depth_b);
  if (config.depth == "scaled") return config.depth_a / std::pow(double(layer + 1), config.depth_b);
  // (8N)^(-1/4) on FFN, value and output weights; queries and keys keep gain 1.
  if (config.depth == "deepnorm") return role == InitRole::query_key ? 1 : std::pow(8.0 * double(layers), -0.25);
  return 1;
}

namespace {

// The largest singular value of x [n, m] by power iteration from fixed random numbers.
template <class T>
double largest_singular_value(const T* x, int64_t n, int64_t m, const RandomKey& key) {
  constexpr int kLeast = 30, kMost = 1000;
  std::vector<double> v(static_cast<size_t>(m)), u(static_cast<size_t>(n));
  const auto normalise = [](std::vector<double>& of) {
    double sum = 0;
    for (const double each : of) sum += each * each;
    const double norm = std::sqrt(sum);
    if (norm > 0)
      for (double& each : of) each /= norm;
    return norm;
  };
  for (int64_t j = 0; j < m; ++j) v[size_t(j)] = random_normal(key, uint64_t(j));
  normalise(v);
  double sigma = 0, before = -1;
  for (int i = 0; i < kLeast || (i < kMost && sigma - before > 1e-6 * sigma); ++i) {
    before = sigma;
    parallel_for(n, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < m; ++c) sum += double(x[r * m + c]) * v[size_t(c)];
        u[size_t(r)] = sum;
      }
    });
    normalise(u);
    parallel_for(m, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) v[size_t(c)] = 0;
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = begin; c < end; ++c) v[size_t(c)] += double(x[r * m + c]) * u[size_t(r)];
    });
    sigma = normalise(v);
  }
  return sigma;
}

// spec: init.lipschitz | initialiser | Xavier, scaled to a largest singular value of at most c | TB 6.3.2(2)
// Power iteration comes from below, so that one scaling may leave a little too much.
void bound_singular_value(const Tensor& x, double most, const RandomKey& key) {
  dispatch_float(x.dtype(), [&]<class T>() {
    T* values = x.data<T>();
    for (;;) {
      const double sigma = largest_singular_value(values, x.rows(), x.cols(), key);
      if (sigma <= most || sigma == 0) return;
      const double factor = most / sigma;
      for (int64_t i = 0; i < x.numel(); ++i) values[i] = T(double(values[i]) * factor);
      if (sigma <= most * (1 + 1e-3)) return;
    }
  });
}

}  // namespace

// spec: init.xavier_uniform | initialiser | U(-eta, eta), eta = gain sqrt(6/(d_in+d_out)) | TB 6.82-6.83
// spec: init.xavier_normal | initialiser | normal of variance eta^2/3, or eta^2 when literal | TB 6.84
void initialise(const Tensor& x, const InitConfig& config, InitRole role, const std::string& name, uint64_t seed,
                int64_t layer, int64_t layers) {
  if (x.is_meta()) return;
  const RandomKey key{.seed = seed, .purpose = purpose_of(name)};
  const auto fill = [&](auto&& value) {
    dispatch_float(x.dtype(), [&]<class T>() {
      T* out = x.data<T>();
      parallel_for(x.numel(), 4096, [&](int64_t begin, int64_t end, int) {
        constexpr int64_t kHeard = 1 << 16;  // numbers between two looks at the signals
        for (int64_t i = begin; i < end && !stop_signal();)
          for (const int64_t heard = std::min(end, i + kHeard); i < heard; ++i) out[i] = T(value(uint64_t(i)));
      });
    });
    check_not_stopped("model", "its weights were not made");
  };
  const auto normal = [&](double deviation) { fill([&](uint64_t i) { return deviation * random_normal(key, i); }); };
  const double gain = depth_gain(config, role, layer, layers);
  if (role == InitRole::zeros) return fill([](uint64_t) { return 0.0; });
  if (role == InitRole::ones) return fill([](uint64_t) { return 1.0; });
  if (role == InitRole::embedding) return normal(config.std);
  if (config.type == "normal" || config.type == "truncated_normal") {
    const bool shrink = role == InitRole::residual_output && config.scale_residual_outputs && layers > 0;
    const double deviation = config.std * gain / (shrink ? std::sqrt(2.0 * double(layers)) : 1);
    if (config.type == "normal") return normal(deviation);
    return fill([&](uint64_t i) {
      double z = random_normal(key, i);
      for (uint64_t draw = 1; std::abs(z) > 2; ++draw) z = random_normal(key, i + (draw << 40));
      return deviation * z;
    });
  }
  const bool bounded = config.type == "lipschitz";
  const double eta = (bounded ? 1 : config.gain) * gain * std::sqrt(6.0 / double(x.rows() + x.cols()));
  if (bounded) {
    fill([&](uint64_t i) { return eta * (2 * random_uniform(key, i) - 1); });
    return bound_singular_value(x, config.gain, {.seed = seed, .purpose = purpose_of(name + ".singular")});
  }
  if (config.type == "xavier_uniform") return fill([&](uint64_t i) { return eta * (2 * random_uniform(key, i) - 1); });
  normal(config.literal ? eta : eta / std::sqrt(3.0));
}

}  // namespace lithe
