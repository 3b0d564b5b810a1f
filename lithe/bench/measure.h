// Timing many things in rounds: each is measured once a round, beside the ceilings that bound it.
#pragma once

#include <functional>

#include "lithe/bench/result.h"

namespace lithe::bench {

struct Case {
  Measurement what;
  std::function<void()> run;
  std::function<void()> prepare = {};  // not timed; before every sample, or before every run
  bool prepare_each_run = false;
  int64_t runs_at_most = 1000;  // of one sample
  bool control = false;         // measured a second time in each round
};

/// Runs every case once, then `rounds` rounds. Cases of one group and name are variants: they are measured one after
/// another, and the first changes from round to round. A sample is the fastest of as many runs as `seconds` hold, one
/// at least, between two probes of its ceilings. When a signal asks to stop, what is unfinished is left out and
/// `result.complete` is false. Adds ceilings where `with_ceilings`, and the cases that have samples.
void measure(std::vector<Case> cases, const Ceilings& ceilings, int64_t rounds, double seconds, bool with_ceilings,
             Result& result);

}  // namespace lithe::bench
