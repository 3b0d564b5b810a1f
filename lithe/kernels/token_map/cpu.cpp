#include "lithe/kernels/token_map/token_map.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

struct Seen {
  int64_t begin, end;
};
// As ref::visible_keys with as many keys as queries.
[[gnu::always_inline]] inline Seen seen_columns(int64_t tokens, const AttentionMask& mask, int64_t i) {
  Seen seen{0, tokens};
  if (mask.window > 0) {
    seen.begin = i - mask.window + 1 > 0 ? i - mask.window + 1 : 0;
    seen.end = i + mask.window < tokens ? i + mask.window : tokens;
  }
  if (mask.causal && i + 1 < seen.end) seen.end = i + 1;
  return seen;
}

template <class T>
[[gnu::always_inline]] inline void put_zeros(T* to, int64_t n) {
  each(n, [&](int64_t j, auto lanes) { store(to + j, Vec{}, lanes); });
}

template <class T>
void make_map(const TokenMapArgs& a) {
  const int64_t tokens = cols_of(a.map);
  const float* logits = pointer<const float>(a.logits);
  T* map = pointer<T>(a.map);
  const bool softmax = a.kind == MapKind::softmax;
  const float scale = float(a.scale);
  const AttentionMask mask = a.mask;
  parallel(rows_of(a.map), grain_of_rows(tokens * 16), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t row = begin; row < end; ++row) {
      const Seen seen = seen_columns(tokens, mask, row % tokens);
      const int64_t n = seen.end - seen.begin;
      const float* x = logits + row * tokens + seen.begin;
      T* out = map + row * tokens + seen.begin;
      if (!softmax) {
        each(n, [&](int64_t j, auto lanes) { store(out + j, scale * load(x + j, lanes), lanes); });
      } else {
        Vec most = splat(-__builtin_inff());
        each(n, [&](int64_t j, auto lanes) {
          most = max(keep(scale * load(x + j, lanes), lanes, -__builtin_inff()), most);
        });
        const float top = max(most);
        const float sum_of =
            sum(total(n, [&](int64_t j, auto lanes) { return exp(scale * load(x + j, lanes) - top); }));
        const float factor = 1 / sum_of;
        each(n, [&](int64_t j, auto lanes) { store(out + j, exp(scale * load(x + j, lanes) - top) * factor, lanes); });
      }
      put_zeros(map + row * tokens, seen.begin);
      put_zeros(map + row * tokens + seen.end, tokens - seen.end);
    }
  });
}

template <class T>
void make_grad(const TokenMapGradArgs& a) {
  const int64_t tokens = cols_of(a.map);
  const T* map = pointer<const T>(a.map);
  const float* dmap = pointer<const float>(a.dmap);
  float* dlogits = pointer<float>(a.dlogits);
  const bool softmax = a.kind == MapKind::softmax;
  const float scale = float(a.scale);
  const AttentionMask mask = a.mask;
  parallel(rows_of(a.map), grain_of_rows(tokens * 12), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t row = begin; row < end; ++row) {
      const Seen seen = seen_columns(tokens, mask, row % tokens);
      const int64_t n = seen.end - seen.begin, at = row * tokens + seen.begin;
      if (softmax) {
        const float mean = sum(
            total(n, [&](int64_t j, auto lanes) { return load(map + at + j, lanes) * load(dmap + at + j, lanes); }));
        each(n, [&](int64_t j, auto lanes) {
          store(dlogits + at + j, load(map + at + j, lanes) * (load(dmap + at + j, lanes) - mean) * scale, lanes);
        });
      } else {
        each(n, [&](int64_t j, auto lanes) { store(dlogits + at + j, load(dmap + at + j, lanes) * scale, lanes); });
      }
      put_zeros(dlogits + row * tokens, seen.begin);
      put_zeros(dlogits + row * tokens + seen.end, tokens - seen.end);
    }
  });
}

template <class T>
void copy(const BlockCopyArgs& a) {
  const T* x = pointer<const T>(a.x);
  T* out = pointer<T>(a.out);
  const BlockCopyArgs* args = &a;
  const int64_t rows = a.rows, cols = a.cols, xb = a.x_block, xr = a.x_row, ob = a.out_block, orow = a.out_row;
  const bool accumulate = args->accumulate;
  parallel(a.blocks * rows, grain_of_rows(cols * 2 * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + i / rows * xb + i % rows * xr;
      T* to = out + i / rows * ob + i % rows * orow;
      if (accumulate)
        each(cols, [&](int64_t c, auto lanes) { store(to + c, load(to + c, lanes) + load(from + c, lanes), lanes); });
      else
        __builtin_memcpy(static_cast<void*>(to), from, size_t(cols) * sizeof(T));
    }
  });
}

}  // namespace

void token_map(const TokenMapArgs& a) {
  by_type(a.map.dtype(), [&]<class T>() { make_map<T>(a); });
}
void token_map_grad(const TokenMapGradArgs& a) {
  by_type(a.map.dtype(), [&]<class T>() { make_grad<T>(a); });
}
void block_copy(const BlockCopyArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { copy<T>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
