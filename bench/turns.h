// What a benchmark does under bench/peers/turns.py.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lithe/bench/timing.h"

namespace lithe::bench {

struct TurnCase {
  std::string line;                 // PROGRAM key=value ... count=N
  std::function<double()> seconds;  // of one run
};

/// Prints the cases, then times each as it is asked: "CASE REPEATS" from standard input, the median of the seconds to
/// standard output.
inline void take_turns(const std::vector<TurnCase>& cases) {
  for (const TurnCase& one : cases) std::printf("%s\n", one.line.c_str());
  std::printf("\n");
  std::fflush(stdout);
  size_t index = 0;
  for (int repeats = 0; std::scanf("%zu %d", &index, &repeats) == 2 && index < cases.size() && repeats > 0;) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(cases[index].seconds());
    std::printf("%.6f\n", median(times));
    std::fflush(stdout);
  }
}

}  // namespace lithe::bench
