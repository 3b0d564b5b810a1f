// Draws of Python's random.Random.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace lithe {

class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed);
  /// The places, below `population`, that sample(range(population), count) of Python 3.11 and later draws.
  std::vector<int64_t> sample(int64_t population, int64_t count);
  /// random(): in [0, 1), of 53 bits.
  double uniform();

 private:
  std::mt19937 engine_;
  int64_t below(int64_t n);
};

}  // namespace lithe
