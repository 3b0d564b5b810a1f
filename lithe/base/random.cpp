#include "lithe/base/random.h"

#include <Random123/philox.h>

#include <cmath>

namespace lithe {

std::array<uint32_t, 4> random_block(const RandomKey& key, uint64_t block) {
  // The key holds (seed, layer, purpose) mixed; the counter holds (block, step), so that the
  // streams of different steps never overlap.
  const uint64_t mixed = key.seed * 0x9E3779B97F4A7C15ull ^ (uint64_t(key.layer) << 32 | key.purpose);
  r123::Philox4x32 generator;
  const r123::Philox4x32::ctr_type counter = {
      {uint32_t(block), uint32_t(block >> 32), uint32_t(key.step), uint32_t(key.step >> 32)}};
  const r123::Philox4x32::key_type k = {{uint32_t(mixed), uint32_t(mixed >> 32)}};
  const auto words = generator(counter, k);
  return {words[0], words[1], words[2], words[3]};
}

uint32_t random_u32(const RandomKey& key, uint64_t element) { return random_block(key, element / 4)[element % 4]; }

namespace {
uint64_t random_u64(const RandomKey& key, uint64_t element) {
  const auto block = random_block(key, element / 2);
  const int at = element % 2 ? 2 : 0;
  return uint64_t(block[at]) << 32 | block[at + 1];
}
}  // namespace

double random_uniform(const RandomKey& key, uint64_t element) {
  return double(random_u64(key, element) >> 11) * 0x1.0p-53;
}

double random_normal(const RandomKey& key, uint64_t element) {
  const auto block = random_block(key, element / 2);
  const double u = (double(block[0]) * 0x1.0p32 + double(block[1]) + 0.5) * 0x1.0p-64;  // (0, 1)
  const double angle = 6.283185307179586476925 * (double(block[2]) * 0x1.0p32 + double(block[3])) * 0x1.0p-64;
  const double radius = std::sqrt(-2 * std::log(u));
  return radius * (element % 2 ? std::sin(angle) : std::cos(angle));
}

uint64_t random_below(const RandomKey& key, uint64_t element, uint64_t bound) {
  return uint64_t((__uint128_t(random_u64(key, element)) * bound) >> 64);
}

}  // namespace lithe
