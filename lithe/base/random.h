// Counter-based random numbers: a pure function of (seed, step, layer, purpose, element).
// Philox 4x32-10 (Salmon et al. 2011) from Random123; nothing here has state.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lithe {

/// Names one stream of random numbers. Streams with any differing field are independent.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t layer = 0;
  uint32_t purpose = 0;  // see purpose_of
};

/// A stable 32-bit number for the name of a purpose ("dropout.ffn", a parameter's name): FNV-1a.
constexpr uint32_t purpose_of(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

/// Four 32-bit words: block `block` of the stream. Element i of a stream is word i%4 of block i/4.
std::array<uint32_t, 4> random_block(const RandomKey& key, uint64_t block);

/// Uniform 32-bit word number `element` of the stream.
uint32_t random_u32(const RandomKey& key, uint64_t element);

/// Uniform in [0, 1), 53 bits, from words 2*element and 2*element+1.
double random_uniform(const RandomKey& key, uint64_t element);

/// Standard normal, by Box-Muller from one block per pair of elements.
double random_normal(const RandomKey& key, uint64_t element);

/// Uniform integer in [0, bound), without modulo bias (64-bit multiply of 64 random bits).
uint64_t random_below(const RandomKey& key, uint64_t element, uint64_t bound);

}  // namespace lithe
