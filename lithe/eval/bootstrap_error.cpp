#include "lithe/eval/bootstrap_error.h"

#include <cmath>
#include <numeric>

#include "lithe/base/threads.h"
#include "lithe/eval/python_random.h"

namespace lithe {

ZeroShotMetric bootstrapped(const std::string& name, size_t n, int64_t resamples,
                            const std::function<double(const std::vector<size_t>&)>& statistic) {
  std::vector<size_t> all(n);
  std::iota(all.begin(), all.end(), size_t(0));
  ZeroShotMetric out{.name = name, .value = statistic(all), .stderr_ = {}};
  if (n < 2) return out;
  constexpr int64_t kOfOneSeed = 1000;
  const int64_t chunk = std::min(kOfOneSeed, resamples);
  std::vector<double> values(size_t(resamples / chunk * chunk));
  parallel_for(resamples / chunk, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<size_t> drawn(n);
    for (int64_t seed = begin; seed < end; ++seed) {
      PythonRandom random{uint32_t(seed)};
      for (int64_t i = 0; i < chunk; ++i) {
        for (size_t& one : drawn) one = size_t(random.uniform() * double(n));
        values[size_t(seed * chunk + i)] = statistic(drawn);
      }
    }
  });
  const double count = double(values.size()), mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  out.stderr_ = std::sqrt(squares / (count - 1));
  return out;
}

}  // namespace lithe
