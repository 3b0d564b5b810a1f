#include "lithe/bench/result.h"

#include <algorithm>

#include "lithe/base/machine.h"
#include "lithe/bench/timing.h"

namespace lithe::bench {
namespace {

template <class F>
double median_of(const std::vector<Sample>& samples, F&& value) {
  std::vector<double> values;
  for (const Sample& s : samples) values.push_back(value(s));
  return values.empty() ? 0 : median(std::move(values));
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75)};
}

Spread Measurement::seconds() const {
  std::vector<double> values;
  for (const Sample& s : samples) values.push_back(s.seconds);
  return spread_of(values);
}

double Measurement::compute_ceiling() const {
  return median_of(samples, [](const Sample& s) { return s.compute; });
}
double Measurement::memory_ceiling() const {
  return median_of(samples, [](const Sample& s) { return s.bandwidth; });
}
bool Measurement::memory_bound() const { return cost.bytes * compute_ceiling() > cost.flops * memory_ceiling(); }
double Measurement::achieved_flops() const { return cost.flops / seconds().median; }
double Measurement::achieved_bytes() const { return cost.bytes / seconds().median; }
double Measurement::intensity() const { return cost.flops / cost.bytes; }
double Measurement::attainable() const { return std::min(compute_ceiling(), intensity() * memory_ceiling()); }

std::vector<double> Measurement::shares() const {
  std::vector<double> out;
  for (const Sample& s : samples) out.push_back(std::max(cost.flops / s.compute, cost.bytes / s.bandwidth) / s.seconds);
  return out;
}

double Measurement::share() const { return spread_of(shares()).median; }

std::string Measurement::label() const {
  return (group == "kernel" ? "" : group + " ") + name + (variant.empty() ? "" : " of " + variant);
}

Result empty_result(const std::string& precision) {
  const Machine m = machine();
  const BuildInfo& b = build_info();
  Result r;
  r.setting = {.cpu = m.cpu,
               .instruction_set = kernels::name_of(kernels::usable_isa()),
               .build_type = b.build_type,
               .precision = precision,
               .logical_cpus = m.logical_cpus,
               .threads = threads()};
  r.version = b.version, r.commit = b.commit, r.compiler = b.compiler;
  r.huge_pages = m.huge_pages, r.memory = m.memory;
  return r;
}

}  // namespace lithe::bench
