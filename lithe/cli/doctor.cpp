
#include <chrono>
#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/tile_support.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

double best_seconds(const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double gemm_rate(DType type) {
  const int64_t n = 1024;
  const Tensor a = zeros({n, n}, type), b = zeros({n, n}, type), c = zeros({n, n}, type);
  return 2.0 * double(n * n * n) / best_seconds([&] { kernels::gemm({.a = a, .b = b, .c = c}); }) * 1e-9;
}

int run(bool json) {
  const Machine m = machine();
  const BuildInfo& b = build_info();
  const Tensor x = zeros({int64_t(1) << 25}, DType::f32), y = zeros({int64_t(1) << 25}, DType::f32);
  const double copy = 2.0 * double(x.bytes()) / best_seconds([&] { kernels::add({.a = x, .out = y}); }) * 1e-9;
  const double f32 = gemm_rate(DType::f32), bf16 = gemm_rate(DType::bf16);
  std::vector<std::string> built;
  for (const kernels::Isa isa : kernels::built_isas()) built.emplace_back(kernels::name_of(isa));
  if (json) {
    std::cout << dump(Json({{"version", b.version},
                            {"commit", b.commit},
                            {"compiler", b.compiler},
                            {"build", b.build_type},
                            {"cpu", m.cpu},
                            {"logical_cpus", m.logical_cpus},
                            {"threads", threads()},
                            {"instruction_set", kernels::name_of(kernels::usable_isa())},
                            {"built_instruction_sets", built},
                            {"memory_bytes", m.memory},
                            {"memory_limit_bytes", m.memory_limit},
                            {"huge_pages", m.huge_pages},
                            {"gemm_f32_gflops", f32},
                            {"gemm_bf16_gflops", bf16},
                            {"copy_gb_per_s", copy}}),
                      2)
              << "\n";
    return 0;
  }
  std::printf("lithe            %s (%s), %s, %s\n", b.version.c_str(), b.commit.c_str(), b.compiler.c_str(),
              b.build_type.c_str());
  std::printf("cpu              %s, %d logical\n", m.cpu.c_str(), m.logical_cpus);
  std::printf("threads          %d (affinity, cgroup and OMP_NUM_THREADS considered)\n", threads());
  std::printf("instruction set  %s (vector kernels are built for %s)\n", kernels::name_of(kernels::usable_isa()),
              join(built).c_str());
  std::printf("memory           %s%s\n", format_bytes(double(m.memory)).c_str(),
              m.memory_limit ? cat(", limited to ", format_bytes(double(m.memory_limit))).c_str() : "");
  std::printf("huge pages       %s%s\n", m.huge_pages.c_str(),
              m.huge_pages == "never" ? " (set to madvise or always for 5-25 % more bandwidth)" : "");
  std::printf("matrix products  %.0f GFLOP/s f32, %.0f bf16\n", f32, bf16);
  std::printf("memory copy      %.1f GB/s (read and write counted)\n", copy);
  if (kernels::machine_isa() < kernels::built_isas().back())
    std::puts(
        "note             none of these runs here: all kernels are the scalar references, many times slower; build "
        "with -DLITHE_INSTRUCTION_SETS=all");
#if !defined(__aarch64__)
  if (kernels::machine_isa() < kernels::Isa::avx2)
    std::puts("note             no AVX2: kernels run in their portable form, several times slower");
#endif
  if (kernels::usable_isa() == kernels::Isa::amx_emulated)
    std::puts("note             tiles are emulated, for tests: products in bf16 and 8 bits are many times slower");
  else if (kernels::processor_has_tiles() && kernels::machine_isa() == kernels::Isa::avx512bf16)
    std::puts(
        "note             the processor has AMX tiles, which this program does not use: LITHE_ISA says so, the system "
        "refuses them (Linux needs 5.16), or the compiler did not know them");
  if (kernels::machine_isa() < kernels::Isa::avx512bf16)
    std::puts("note             no bf16 instructions: train.precision bf16 saves memory here, not time");
  if (b.build_type != "Release")
    std::printf("note             this is a %s build; Release is faster\n", b.build_type.c_str());
  return 0;
}

}  // namespace

Command add_doctor(CommandLine& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print as JSON");
  add_threads_option(app);
  app.footer("Example: lithe doctor");
  return [json] { return run(*json); };
}

}  // namespace lithe
