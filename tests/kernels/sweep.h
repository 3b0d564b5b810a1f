// Runs one check on every implementation that this machine can run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "lithe/base/threads.h"
#include "lithe/kernels/kernel.h"
#include "lithe/tensor/tensor.h"
#include "tests/support/tile_traps.h"

namespace lithe::kernels {

/// The instruction sets of this build that the machine has, best first. With LITHE_TRAP_TILES, amx too where it has all
/// but the tiles, whose instructions are then caught.
inline std::vector<Isa> usable_sets() {
  static const bool trapped = std::getenv("LITHE_TRAP_TILES") && machine_isa() == Isa::avx512bf16 &&
                              built_isas().front() == Isa::amx && testing_support::trap_tiles();
  if (trapped && machine_isa() < Isa::amx) assume_isa(Isa::amx), limit_isa(Isa::amx);
  static const std::vector<Isa> usable = [] {
    std::vector<Isa> sets = built_isas();
    std::erase_if(sets, [](Isa isa) { return !can_run(isa); });
    return sets;
  }();
  return usable;
}
/// The same and, last, emulated tiles: for families that have kernels on them.
inline std::vector<Isa> usable_sets_and_tiles() {
  std::vector<Isa> sets = usable_sets();
  sets.push_back(Isa::amx_emulated);
  return sets;
}

/// Calls f(name) under the reference and under each of `sets`.
template <class F>
void on_every_implementation(F&& f, const std::vector<Isa>& sets = usable_sets()) {
  const Isa best = usable_isa();
  const bool forced = reference_only();
  force_reference(true);
  f(std::string("ref"));
  force_reference(false);
  for (const Isa isa : sets) {
    limit_isa(isa);
    f(std::string(name_of(isa)));
  }
  limit_isa(best);
  force_reference(forced);
}

/// The same on usable_sets_and_tiles().
template <class F>
void on_every_implementation_and_tiles(F&& f) {
  on_every_implementation(f, usable_sets_and_tiles());
}

/// Sets the number of threads while it lives.
class WithThreads {
 public:
  explicit WithThreads(int n) : before_(threads()) { set_threads(n); }
  ~WithThreads() { set_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

/// Sizes around the widths of vectors and of cache lines.
constexpr int64_t kOddSizes[] = {1, 3, 17, 63, 64, 65, 1000};

constexpr double kF32 = 0x1p-24;  // relative rounding error of f32, in which bf16 and f32 are computed

/// Rows of a type and, as the same numbers in f64, what the exact result is computed from.
constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16};
inline DType wide(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
/// The rounding error of arithmetic beside rows of `type`.
inline double arithmetic(DType type) { return type == DType::f64 ? 0x1p-53 : kF32; }

inline double at(const Tensor& t, int64_t i) { return value_at(t, i); }
inline Tensor exact(const Tensor& t) { return t ? convert(t, DType::f64) : Tensor(); }
inline double largest_of(const Tensor& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) largest = std::max(largest, std::abs(at(x, i)));
  return largest;
}

}  // namespace lithe::kernels
