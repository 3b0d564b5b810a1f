// A comparison from its file to its result: read, refuse what is unfair, match the budget, train, score, time, write.
//   DIR/runs/<variant>/seed-<n>/        one run directory for each training
//   DIR/runs/<variant>/seed-<n>.log     what a run said that was a process of its own
//   DIR/budget.json                     what match: time measured, so that a continued comparison keeps its steps
//   DIR/rounds.json                     the rounds of timing so far
//   DIR/comparison.{json,md,html}       the result, also of a comparison that was stopped
#pragma once

#include "lithe/compare/result.h"
#include "lithe/compare/side_by_side.h"

namespace lithe::compare {

struct Request {
  Path experiment, out;
  bool plan_only = false;  // resolve, check and cost the variants; train nothing
  Launcher launcher = {};  // of runs that are not done yet
  std::string only = {};   // "VARIANT/SEED": train and score this run, and no more
};

/// Does what is not done yet. A comparison that a signal stopped has status stopped and continues with the same
/// request. Errors: usage for unfair or wrong experiments, else as training's.
Comparison compare(const Request& request);

}  // namespace lithe::compare
