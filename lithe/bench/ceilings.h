// What this machine can do at most: multiply-adds from registers, bytes from memory and from caches, with the threads
// in use.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "lithe/tensor/tensor.h"

namespace lithe::bench {

/// f32, bf16, int8: operations a second (a multiply-add is 2) in the widest vectors or on the tiles that kernels may
/// use. read, copy: bytes a second from memory in huge pages; copy counts both directions and stores around the caches.
/// l2, l3: bytes a second read from a cache.
enum class Ceiling { f32, bf16, int8, read, copy, l2, l3 };
inline constexpr std::array kCeilings{Ceiling::f32,  Ceiling::bf16, Ceiling::int8, Ceiling::read,
                                      Ceiling::copy, Ceiling::l2,   Ceiling::l3};
const char* name_of(Ceiling ceiling);
/// By name_of(), if there is one.
std::optional<Ceiling> ceiling_named(const std::string& name);
constexpr bool is_compute(Ceiling c) { return c <= Ceiling::int8; }

class Ceilings {
 public:
  /// Takes 256 MiB to read and copy.
  Ceilings();
  /// False where the processor has no such instruction or does not say how large the cache is.
  bool has(Ceiling ceiling) const;
  /// `ceiling`, or f32 where the processor has no instruction for that type.
  Ceiling best(Ceiling ceiling) const { return has(ceiling) ? ceiling : Ceiling::f32; }
  /// Measures it, in a few milliseconds: per second.
  double probe(Ceiling ceiling) const;

 private:
  Tensor from_, to_;
  int64_t l2_ = 0, l3_ = 0;  // bytes that one thread reads again and again
};

/// f32 multiply-adds: GFLOP/s.
double multiply_add_gflops();
/// GB/s of reading all of x once with all threads.
double read_gbs(const Tensor& x);

}  // namespace lithe::bench
