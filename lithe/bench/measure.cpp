#include "lithe/bench/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/bench/timing.h"

namespace lithe::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Turn {
  size_t at = 0;  // of the case
  bool control = false;
};

// The fastest run of a sample: other programs only lengthen them. The slice ends by the clock on the wall, whatever
// `now` counts.
double time_of(const Case& c, double slice) {
  double best = std::numeric_limits<double>::infinity();
  int64_t runs = 0;
  const auto start = Clock::now();
  do {
    if (c.prepare && (runs == 0 || c.prepare_each_run)) c.prepare();
    best = std::min(best, seconds(c.run));
  } while (++runs < c.runs_at_most && std::chrono::duration<double>(Clock::now() - start).count() < slice);
  // A clock that did not move: the shortest time it can tell.
  return std::max(best, 1e-9);
}

// How often this process had to give up a processor before it wanted to.
int64_t forced_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

std::vector<std::vector<Turn>> turns_of(const std::vector<Case>& cases) {
  std::vector<std::vector<Turn>> groups;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Measurement& m = cases[i].what;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<Turn>& turns) {
      const Measurement& first = cases[turns[0].at].what;
      return first.group == m.group && first.name == m.name;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Turn>{});
    group->push_back({i, false});
    if (cases[i].control) group->push_back({i, true});
  }
  return groups;
}

}  // namespace

void measure(std::vector<Case> cases, const Ceilings& ceilings, int64_t rounds, double slice, bool with_ceilings,
             Result& result) {
  if (with_ceilings)
    for (const Ceiling c : kCeilings)
      if (ceilings.has(c)) result.ceilings.push_back({c, {}});
  for (CeilingSamples& c : result.ceilings) ceilings.probe(c.ceiling);
  for (Case& c : cases) {
    if (stop_signal()) break;
    log_debug("warms up ", c.what.label());
    if (c.prepare) c.prepare();
    c.run();
  }
  const auto start = Clock::now();
  const int64_t switches = forced_switches();
  const std::vector<std::vector<Turn>> groups = turns_of(cases);
  for (int64_t round = 0; round < rounds && !stop_signal(); ++round) {
    if (round == 0 || round == rounds / 2) log_info("bench: round ", round + 1, " of ", rounds);
    for (CeilingSamples& c : result.ceilings) c.values.push_back(ceilings.probe(c.ceiling));
    for (const std::vector<Turn>& turns : groups)
      for (size_t i = 0; i < turns.size() && !stop_signal(); ++i) {
        const Turn& turn = turns[(i + size_t(round)) % turns.size()];
        Case& c = cases[turn.at];
        Sample sample;
        sample.compute = ceilings.probe(c.what.compute);
        sample.bandwidth = ceilings.probe(c.what.memory);
        sample.seconds = time_of(c, slice);
        // The machine may have changed its state in between.
        sample.compute = (sample.compute + ceilings.probe(c.what.compute)) / 2;
        sample.bandwidth = (sample.bandwidth + ceilings.probe(c.what.memory)) / 2;
        (turn.control ? c.what.control : c.what.samples).push_back(sample);
      }
  }
  result.interruptions =
      double(forced_switches() - switches) / std::chrono::duration<double>(Clock::now() - start).count();
  result.complete = !stop_signal();
  std::erase_if(result.ceilings, [](const CeilingSamples& c) { return c.values.empty(); });
  for (Case& c : cases)
    if (!c.what.samples.empty()) result.measurements.push_back(std::move(c.what));
}

}  // namespace lithe::bench
