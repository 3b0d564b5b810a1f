// The specification of lithe/kernels/token_map/token_map.h: sums in double whatever the storage.
#pragma once

#include <cmath>
#include <limits>

#include "lithe/kernels/attention/reference.h"
#include "lithe/kernels/token_map/token_map.h"

namespace lithe::kernels::ref {

inline Visible seen_columns(int64_t tokens, const AttentionMask& mask, int64_t i) {
  return visible_keys({.query_rows = tokens, .key_rows = tokens}, mask, i);
}

template <class W, class T>
void token_map(const TokenMapArgs& a) {
  const W* logits = a.logits.data<W>();
  T* map = a.map.data<T>();
  const int64_t tokens = a.map.cols();
  for (int64_t row = 0; row < a.map.rows(); ++row, logits += tokens, map += tokens) {
    const Visible seen = seen_columns(tokens, a.mask, row % tokens);
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = seen.begin; j < seen.end; ++j) most = std::max(most, a.scale * double(logits[j]));
    for (int64_t j = seen.begin; j < seen.end; ++j) sum += std::exp(a.scale * double(logits[j]) - most);
    for (int64_t j = 0; j < tokens; ++j) {
      const double logit = a.scale * double(logits[j]);
      const bool shown = j >= seen.begin && j < seen.end;
      map[j] = T(!shown ? 0.0 : a.kind == MapKind::plain ? logit : std::exp(logit - most) / sum);
    }
  }
}

template <class W, class T>
void token_map_grad(const TokenMapGradArgs& a) {
  const T* map = a.map.data<T>();
  const W* dmap = a.dmap.data<W>();
  W* dlogits = a.dlogits.data<W>();
  const int64_t tokens = a.map.cols();
  for (int64_t row = 0; row < a.map.rows(); ++row, map += tokens, dmap += tokens, dlogits += tokens) {
    const Visible seen = seen_columns(tokens, a.mask, row % tokens);
    double mean = 0;
    for (int64_t j = seen.begin; j < seen.end; ++j) mean += double(map[j]) * double(dmap[j]);
    for (int64_t j = 0; j < tokens; ++j) {
      const bool shown = j >= seen.begin && j < seen.end;
      const double d = double(dmap[j]);
      dlogits[j] = W(!shown ? 0.0 : a.scale * (a.kind == MapKind::plain ? d : double(map[j]) * (d - mean)));
    }
  }
}

template <class T>
void block_copy(const BlockCopyArgs& a) {
  for (int64_t b = 0; b < a.blocks; ++b)
    for (int64_t r = 0; r < a.rows; ++r) {
      const T* x = a.x.data<T>() + b * a.x_block + r * a.x_row;
      T* out = a.out.data<T>() + b * a.out_block + r * a.out_row;
      for (int64_t c = 0; c < a.cols; ++c) out[c] = a.accumulate ? T(double(out[c]) + double(x[c])) : x[c];
    }
}

}  // namespace lithe::kernels::ref
