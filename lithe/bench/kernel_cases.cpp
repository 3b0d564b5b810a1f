#include "lithe/bench/bench.h"
#include "lithe/kernels/cases.h"

namespace lithe::bench {
namespace {

Ceiling ceiling_of(kernels::Compute compute, DType type) {
  if (compute == kernels::Compute::int8) return Ceiling::int8;
  return compute == kernels::Compute::products && type == DType::bf16 ? Ceiling::bf16 : Ceiling::f32;
}

}  // namespace

std::vector<Case> kernel_cases(const std::vector<DType>& dtypes, const Ceilings& ceilings) {
  const MemoryScope memory(MemoryClass::workspace);
  std::vector<Case> out;
  for (const DType type : dtypes) {
    kernels::KernelCases cases(type, type == dtypes.front());
    for (const auto add_cases : kernels::kAddCases) add_cases(cases);
    for (kernels::KernelCase& c : cases.cases) {
      Measurement m{.group = "kernel", .name = std::move(c.name), .cost = c.cost};
      m.compute = ceilings.best(ceiling_of(c.compute, type));
      m.memory = c.traffic == kernels::Traffic::copy ? Ceiling::copy : Ceiling::read;
      out.push_back({.what = std::move(m), .run = std::move(c.run)});
    }
  }
  return out;
}

}  // namespace lithe::bench
