// What was measured, on what machine, and its file bench.json.
#pragma once

#include "lithe/base/files.h"
#include "lithe/bench/ceilings.h"
#include "lithe/kernels/kernel.h"

namespace lithe::bench {

/// One measurement in one round.
struct Sample {
  double seconds = 0;                 // of one run
  double compute = 0, bandwidth = 0;  // the two ceilings that bound it, probed before and after, per second
};

/// The middle and the quartiles.
struct Spread {
  double median = 0, low = 0, high = 0;
};

/// A kernel, or one use of a model.
struct Measurement {
  std::string group;    // kernel, train, prefill, decode, encode
  std::string name;     // of the kernel, or the sizes of the use
  std::string variant;  // which model; empty for kernels
  std::string unit;     // what a run makes: tokens, sequences; empty for kernels
  double amount = 1;    // how many of these
  kernels::Cost cost;   // of one run, by the kernels' own count
  Ceiling compute = Ceiling::f32, memory = Ceiling::read;
  int64_t peak_bytes = 0;       // of tensors, in training; 0: not measured
  std::vector<Sample> samples;  // by round
  std::vector<Sample> control;  // of the first variant: once more in the same rounds

  Spread seconds() const;
  /// More time goes to the bytes than to the operations, at the ceilings.
  bool memory_bound() const;
  /// Operations and bytes a second, of the median time.
  double achieved_flops() const;
  double achieved_bytes() const;
  /// FLOPs a byte.
  double intensity() const;
  /// The ceilings of the samples, in the middle.
  double compute_ceiling() const;
  double memory_ceiling() const;
  /// min(compute ceiling, intensity * bandwidth): FLOP/s.
  double attainable() const;
  /// By sample: the least time by the ceilings over the time. Above 1 where data stay in a cache.
  std::vector<double> shares() const;
  /// The median of shares().
  double share() const;
  /// How it is called in messages and tables.
  std::string label() const;
};

struct CeilingSamples {
  Ceiling ceiling;
  std::vector<double> values;  // per second, by round
};

/// What two results must have in common to be compared.
struct Setting {
  std::string cpu, instruction_set, build_type, precision;  // precision: as asked for
  int64_t logical_cpus = 0, threads = 0;
};

struct Result {
  Setting setting;
  std::string version, commit, compiler, huge_pages;
  int64_t memory = 0;        // bytes of the machine
  int64_t rounds = 0;        // asked for
  double interruptions = 0;  // times a second that the machine gave a processor to somebody else
  bool complete = true;
  std::vector<CeilingSamples> ceilings;
  std::vector<Measurement> measurements;
  std::vector<std::string> skipped;  // why something was not measured
};

/// The setting and the build of this process; `precision` as asked for.
Result empty_result(const std::string& precision);

std::string to_json_text(const Result& result);
/// Reads a file of to_json_text(); fails on anything else, naming the key.
Result read_result(const Path& file);

Spread spread_of(const std::vector<double>& values);

}  // namespace lithe::bench
