// Learning-rate schedules.
#pragma once

#include <cstdint>
#include <string>

namespace lithe {

/// The course of the learning rate. Steps count from 1.
struct Schedule {
  std::string type = "constant";  // constant, linear, cosine, cosine_restarts, inverse_sqrt, wsd
  double peak = 0, floor = 0;
  int64_t warmup = 0, total = 0;
  double decay_ratio = 0.1;  // wsd
  int64_t restarts = 1;      // cosine_restarts: cycles after warm-up

  double at(int64_t step) const;
};

}  // namespace lithe
