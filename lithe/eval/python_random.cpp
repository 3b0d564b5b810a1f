#include "lithe/eval/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "lithe/base/error.h"

namespace lithe {
namespace {

/// The state that init_by_array() of the Mersenne Twister makes of one word, in the form that std::mt19937 takes.
struct KeyedState {
  uint32_t key;
  using result_type = uint32_t;
  template <class Iterator>
  void generate(Iterator begin, Iterator) {
    constexpr uint32_t kWords = 624;
    uint32_t state[kWords] = {19650218u};
    for (uint32_t i = 1; i < kWords; ++i) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    uint32_t at = 1;
    const auto step = [&](uint32_t factor, auto&& change) {
      state[at] = change((state[at] ^ ((state[at - 1] ^ (state[at - 1] >> 30)) * factor)));
      if (++at == kWords) state[0] = state[kWords - 1], at = 1;
    };
    for (uint32_t i = 0; i < kWords; ++i) step(1664525u, [&](uint32_t x) { return x + key; });
    for (uint32_t i = 1; i < kWords; ++i) step(1566083941u, [&](uint32_t x) { return x - at; });
    state[0] = 0x80000000u;
    std::copy(state, state + kWords, begin);
  }
};

}  // namespace

PythonRandom::PythonRandom(uint32_t seed) {
  KeyedState state{seed};
  engine_.seed(state);
}

int64_t PythonRandom::below(int64_t n) {
  const int bits = std::bit_width(uint64_t(n));
  check(n > 0 && bits <= 32, "eval", "draws are of 1 to 2^32 - 1 places, got ", n);
  while (true)
    if (const int64_t drawn = int64_t(uint32_t(engine_()) >> (32 - bits)); drawn < n) return drawn;
}

double PythonRandom::uniform() {
  const uint64_t high = uint32_t(engine_()) >> 5, low = uint32_t(engine_()) >> 6;
  return double((high << 26) + low) * 0x1p-53;
}

std::vector<int64_t> PythonRandom::sample(int64_t population, int64_t count) {
  check_usage(count >= 0 && count <= population, "eval", count, " examples cannot be drawn of ", population,
              " documents; lower num_fewshot, or name a larger fewshot_split");
  std::vector<int64_t> out;
  // A list that shrinks where it is shorter than a set of what is drawn would be.
  int64_t set_size = 21;
  if (count > 5) set_size += int64_t(std::pow(4, std::ceil(std::log(double(count * 3)) / std::log(4.0))));
  if (population <= set_size) {
    std::vector<int64_t> pool(size_t(population), 0);
    std::iota(pool.begin(), pool.end(), int64_t(0));
    for (int64_t i = 0; i < count; ++i) {
      const auto at = size_t(below(population - i));
      out.push_back(pool[at]);
      pool[at] = pool[size_t(population - i - 1)];
    }
    return out;
  }
  std::set<int64_t> drawn;
  while (int64_t(out.size()) < count)
    if (const int64_t at = below(population); drawn.insert(at).second) out.push_back(at);
  return out;
}

}  // namespace lithe
