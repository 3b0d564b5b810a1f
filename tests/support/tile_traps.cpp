#include "tests/support/tile_traps.h"

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace lithe::testing_support {
namespace {

struct Tile {
  int rows = 0, row_bytes = 0;
  uint8_t data[16][64] = {};
};
struct State {
  bool configured = false;
  Tile tiles[8];
};
thread_local constinit State state;
std::atomic<long> done{0};

uint64_t reg(const ucontext_t* c, int number) {
  constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return uint64_t(c->uc_mcontext.gregs[kPlaces[number]]);
}

// An operand in memory: base plus displacement, and index times scale.
struct Address {
  uint64_t base = 0, index = 0;
  bool indexed = false;  // there is a byte for base and index
  int bytes = 0;         // of the instruction after ModRM
};
Address address(const ucontext_t* c, const uint8_t* modrm, bool x, bool b) {
  Address a;
  const int mod = *modrm >> 6, rm = *modrm & 7;
  const uint8_t* p = modrm + 1;
  int base = rm;
  if (rm == 4) {
    const int scale = *p >> 6, index = (*p >> 3 & 7) | (x ? 8 : 0);
    base = *p & 7;
    if (index != 4) a.index = reg(c, index) << scale;
    a.indexed = true;
    ++p;
  }
  if (mod == 0 && base == 5) {
    int32_t displacement;
    std::memcpy(&displacement, p, 4);
    p += 4;
    a.base = uint64_t(int64_t(displacement)) + (rm == 5 ? uint64_t(reinterpret_cast<uintptr_t>(p)) : 0);
  } else {
    a.base = reg(c, base | (b ? 8 : 0));
    if (mod == 1) a.base += uint64_t(int64_t(int8_t(*p++)));
    if (mod == 2) {
      int32_t displacement;
      std::memcpy(&displacement, p, 4);
      p += 4;
      a.base += uint64_t(int64_t(displacement));
    }
  }
  a.bytes = int(p - modrm) - 1;
  return a;
}

bool configure(const uint8_t* from) {
  if (from[0] != 1 || from[1] != 0) return false;
  for (int i = 2; i < 16; ++i)
    if (from[i]) return false;
  for (int i = 32; i < 48; ++i)
    if (from[i]) return false;
  for (int i = 56; i < 64; ++i)
    if (from[i]) return false;
  State next;
  next.configured = true;
  for (int i = 0; i < 8; ++i) {
    Tile& t = next.tiles[i];
    t.row_bytes = from[16 + 2 * i] | from[17 + 2 * i] << 8;
    t.rows = from[48 + i];
    if (t.row_bytes > 64 || t.rows > 16 || (t.rows == 0) != (t.row_bytes == 0)) return false;
  }
  state = next;
  return true;
}

float number(const uint8_t* bf16) {
  const uint32_t bits = uint32_t(bf16[0]) << 16 | uint32_t(bf16[1]) << 24;
  float x;
  std::memcpy(&x, &bits, 4);
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// Shapes of c += a b.
bool fit(int c, int a, int b) {
  const Tile &x = state.tiles[c], &y = state.tiles[a], &z = state.tiles[b];
  return c != a && c != b && a != b && x.rows && y.rows && z.rows && x.row_bytes % 4 == 0 && y.row_bytes % 4 == 0 &&
         z.row_bytes % 4 == 0 && x.rows == y.rows && x.row_bytes == z.row_bytes && y.row_bytes / 4 == z.rows;
}

[[gnu::target("fma")]] void dot_bf16(Tile& c, const Tile& a, const Tile& b) {
  float wide[2][16][16];
  for (int k = 0; k < b.rows; ++k)
    for (int n = 0; n < b.row_bytes / 4; ++n)
      for (int half = 0; half < 2; ++half) wide[half][k][n] = number(&b.data[k][4 * n + 2 * half]);
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      float even = 0, odd = 0, sum;
      for (int k = 0; k < a.row_bytes / 4; ++k) {
        even = flush(__builtin_fmaf(number(&a.data[m][4 * k]), wide[0][k][n], even));
        odd = flush(__builtin_fmaf(number(&a.data[m][4 * k + 2]), wide[1][k][n], odd));
      }
      std::memcpy(&sum, &c.data[m][4 * n], 4);
      sum = flush(flush(sum) + flush(even + odd));
      std::memcpy(&c.data[m][4 * n], &sum, 4);
    }
}

void dot_bytes(Tile& c, const Tile& a, const Tile& b, bool a_signed, bool b_signed) {
  const auto wide = [](uint8_t x, bool with_sign) { return with_sign ? int64_t(int8_t(x)) : int64_t(x); };
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      uint32_t sum;
      std::memcpy(&sum, &c.data[m][4 * n], 4);
      for (int k = 0; k < a.row_bytes / 4; ++k)
        for (int j = 0; j < 4; ++j)
          sum += uint32_t(wide(a.data[m][4 * k + j], a_signed) * wide(b.data[k][4 * n + j], b_signed));
      std::memcpy(&c.data[m][4 * n], &sum, 4);
    }
}

// Carries out the instruction at `p`; its length, or 0 when it is none or an error.
int execute(const ucontext_t* c, const uint8_t* p) {
  if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || p[2] >> 7 || p[2] >> 2 & 1) return 0;  // VEX, map 0F38, W0, 128
  const bool r = !(p[1] & 0x80), x = !(p[1] & 0x40), b = !(p[1] & 0x20);
  const int v = ~(p[2] >> 3) & 15, prefix = p[2] & 3, mod = p[4] >> 6, dst = p[4] >> 3 & 7, rm = p[4] & 7;
  if (r) return 0;  // tiles 8 to 15 do not exist
  if (p[3] == 0x49 && mod == 3) {
    if (v) return 0;
    if (prefix == 0 && p[4] == 0xc0) {
      state = {};
      return 5;
    }
    if (prefix != 3 || rm || !state.configured) return 0;
    std::memset(state.tiles[dst].data, 0, sizeof state.tiles[dst].data);
    return 5;
  }
  if (p[3] == 0x49) {
    if (v || prefix != 0 || dst) return 0;
    const Address a = address(c, p + 4, x, b);
    return configure(reinterpret_cast<const uint8_t*>(a.base + a.index)) ? 5 + a.bytes : 0;
  }
  if (!state.configured) return 0;
  if (p[3] == 0x4b) {
    const Address a = address(c, p + 4, x, b);
    if (v || mod == 3 || !a.indexed || prefix == 0) return 0;
    Tile& t = state.tiles[dst];
    if (!t.rows) return 0;
    if (prefix != 2) std::memset(t.data, 0, sizeof t.data);
    for (int i = 0; i < t.rows; ++i) {
      auto* row = reinterpret_cast<uint8_t*>(a.base + uint64_t(i) * a.index);
      if (prefix == 2)
        std::memcpy(row, t.data[i], size_t(t.row_bytes));
      else
        std::memcpy(t.data[i], row, size_t(t.row_bytes));
    }
    return 5 + a.bytes;
  }
  if (mod != 3 || b || v > 7 || !fit(dst, rm, v)) return 0;
  Tile& to = state.tiles[dst];
  if (p[3] == 0x5c && prefix == 2) {
    dot_bf16(to, state.tiles[rm], state.tiles[v]);
    return 5;
  }
  if (p[3] != 0x5e) return 0;
  dot_bytes(to, state.tiles[rm], state.tiles[v], prefix & 2, prefix == 1 || prefix == 3);
  return 5;
}

void on_illegal(int signal, siginfo_t*, void* context) {
  auto* c = static_cast<ucontext_t*>(context);
  greg_t& at = c->uc_mcontext.gregs[REG_RIP];
  const int length = execute(c, reinterpret_cast<const uint8_t*>(at));
  if (!length) {
    ::signal(signal, SIG_DFL);  // the instruction runs again, and ends the program
    return;
  }
  at += length;
  done.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool trap_tiles() {
  struct sigaction action {};
  action.sa_sigaction = on_illegal;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGILL, &action, nullptr) == 0;
}
long trapped_tiles() { return done; }

}  // namespace lithe::testing_support

#else

namespace lithe::testing_support {
bool trap_tiles() { return false; }
long trapped_tiles() { return 0; }
}  // namespace lithe::testing_support

#endif
