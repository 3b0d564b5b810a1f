#include "lithe/ops/token_map.h"

#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

// The leading [length, length] block of a head's map [T, T].
Tensor leading(const Tensor& map, int64_t length) {
  if (length == map.cols()) return map;
  const Tensor out = empty({length, length}, map.dtype(), map.device());
  kernels::block_copy(
      {.x = map, .out = out, .blocks = 1, .rows = length, .cols = length, .x_row = map.cols(), .out_row = length});
  return out;
}

Tensor cast_to(const Tensor& x, DType type) {
  if (x.dtype() == type) return x;
  const Tensor out = empty(x.shape(), type, x.device());
  kernels::add({.a = x, .out = out});
  return out;
}

// qh kh^T of head-major rows [heads*T, d_h]: [heads*T, T].
Tensor products(const Tensor& qh, const Tensor& kh, int64_t heads) {
  const int64_t tokens = qh.rows() / heads;
  const Tensor out = empty({heads * tokens, tokens}, wide_of(qh.dtype()), qh.device());
  const bool rowwise = !training();
  for (int64_t h = 0; h < heads; ++h) {
    const auto head = [&](const Tensor& t) { return t.slice(h * tokens, (h + 1) * tokens); };
    kernels::gemm({.a = head(qh), .b = head(kh), .c = head(out), .transpose_b = true, .rowwise = rowwise});
  }
  return out;
}

void check_heads(const Shape& q, const Shape& k, bool one_type, int64_t heads) {
  check(heads >= 1 && q == k && one_type && q[-1] % heads == 0, "attention_map",
        "q and k must be of one shape [T, heads*d_h] and dtype with ", heads, " heads, got ", q, " and ", k);
}

}  // namespace

Tensor head_products(const Tensor& q, const Tensor& k, int64_t heads) {
  check_heads(q.shape(), k.shape(), q.dtype() == k.dtype(), heads);
  return products(head_major(q, heads), head_major(k, heads), heads);
}

Var attention_map(const Var& q, const Var& k, int64_t heads, double scale, const kernels::AttentionMask& mask) {
  check_heads(q.shape(), k.shape(), q.dtype() == k.dtype(), heads);
  const int64_t tokens = q.rows();
  if (scale == 0) scale = 1 / std::sqrt(double(q.cols() / heads));
  const Tensor qh = head_major(q.value(), heads), kh = head_major(k.value(), heads);
  const Tensor logits = products(qh, kh, heads),
               map = logits.dtype() == q.dtype() ? logits : empty(logits.shape(), q.dtype(), q.device());
  kernels::token_map({.logits = logits, .map = map, .scale = scale, .mask = mask});
  return record("attention_map", {q, k}, map, [=, q = q.ref(), k = k.ref()](const Tensor& dy, Grads& g) {
    const MemoryScope workspace(MemoryClass::workspace);
    const Tensor wide = cast_to(dy, wide_of(map.dtype())),
                 dlogits = empty(map.shape(), wide_of(map.dtype()), map.device());
    kernels::token_map_grad({.map = map, .dmap = wide, .dlogits = dlogits, .scale = scale, .mask = mask});
    const Tensor d = cast_to(dlogits, map.dtype());
    const auto gradient = [&](const GradRef& of, const Tensor& other, bool transposed) {
      if (!g.wants(of)) return;
      const Tensor out = empty(other.shape(), other.dtype(), other.device());
      for (int64_t h = 0; h < heads; ++h) {
        const auto head = [&](const Tensor& t) { return t.slice(h * tokens, (h + 1) * tokens); };
        kernels::gemm({.a = head(d), .b = head(other), .c = head(out), .transpose_a = transposed});
      }
      const auto into = g.into(of);
      to_token_major(out, into.to, heads, into.accumulate);
    };
    gradient(q, kh, false);
    gradient(k, qh, true);
  });
}

Var masked_map(const Var& map, const kernels::AttentionMask& mask) {
  const Tensor out = empty_like(map.value());
  check(map.dtype() == wide_of(map.dtype()), "masked_map", "needs f32 or f64, got ", map.dtype());
  kernels::token_map({.logits = map.value(), .map = out, .kind = kernels::MapKind::plain, .mask = mask});
  return record("masked_map", {map}, out, [mask, out, map = map.ref()](const Tensor& dy, Grads& g) {
    const Tensor d = empty_like(dy);
    kernels::token_map_grad({.map = out, .dmap = dy, .dlogits = d, .kind = kernels::MapKind::plain, .mask = mask});
    g.give(map, d);
  });
}

Var mix_tokens(const Var& map, const Var& x, const Sequences& sequences, int64_t heads) {
  const int64_t tokens = map.cols();
  check(heads >= 1 && map.rows() == heads * tokens && x.cols() % heads == 0 && map.dtype() == x.dtype() &&
            x.rows() == sequences.rows(),
        "mix_tokens", "map must be [heads*T,T] and x [N, heads*c] of one dtype, got ", map.dtype(), map.shape(),
        " and ", x.dtype(), x.shape(), " with ", heads, " heads and ", sequences.rows(), " rows in sequences");
  for (int64_t b = 0; b < sequences.count(); ++b)
    check(sequences.length(b) <= tokens, "mix_tokens", "sequence ", b, " has ", sequences.length(b),
          " tokens, the map covers ", tokens);
  const int64_t n = x.rows();
  const bool rowwise = !training();
  const Tensor weights = map.value(), xh = head_major(x.value(), heads), out = empty_like(x.value());
  // f(the map's block, rows of the head-major tensors) for every head and sequence.
  const auto each_block = [=](auto&& f) {
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t b = 0; b < sequences.count(); ++b)
        if (sequences.length(b) > 0)
          f(h * tokens, sequences.length(b), h * n + sequences.offset(b), h * n + sequences.offset(b + 1));
  };
  {
    const Tensor mixed = empty(xh.shape(), xh.dtype(), xh.device());
    each_block([&](int64_t row, int64_t length, int64_t begin, int64_t end) {
      kernels::gemm({.a = leading(weights.slice(row, row + tokens), length),
                     .b = xh.slice(begin, end),
                     .c = mixed.slice(begin, end),
                     .rowwise = rowwise});
    });
    to_token_major(mixed, out, heads);
  }
  return record("mix_tokens", {map, x}, out, [=, map = map.ref(), x = x.ref()](const Tensor& dy, Grads& g) {
    const Tensor dyh = head_major(dy, heads);
    if (g.wants(x)) {
      const Tensor dxh = empty(xh.shape(), xh.dtype(), xh.device());
      each_block([&](int64_t row, int64_t length, int64_t begin, int64_t end) {
        kernels::gemm({.a = leading(weights.slice(row, row + tokens), length),
                       .b = dyh.slice(begin, end),
                       .c = dxh.slice(begin, end),
                       .transpose_a = true});
      });
      const auto into = g.into(x);
      to_token_major(dxh, into.to, heads, into.accumulate);
    }
    if (!g.wants(map)) return;
    const MemoryScope workspace(MemoryClass::workspace);
    const DType wide = wide_of(weights.dtype());
    const Tensor total = zeros(weights.shape(), wide, weights.device());  // over the sequences, in f32
    each_block([&](int64_t row, int64_t length, int64_t begin, int64_t end) {
      const Tensor to = total.slice(row, row + tokens);
      const bool whole = length == tokens;
      const Tensor block = whole ? to : empty({length, length}, wide, to.device());
      kernels::gemm({.a = dyh.slice(begin, end),
                     .b = xh.slice(begin, end),
                     .c = block,
                     .transpose_b = true,
                     .accumulate = whole});
      if (!whole)
        kernels::block_copy({.x = block,
                             .out = to,
                             .blocks = 1,
                             .rows = length,
                             .cols = length,
                             .x_row = length,
                             .out_row = tokens,
                             .accumulate = true});
    });
    const auto into = g.into(map);
    kernels::add({.a = total, .b = into.accumulate ? into.to : Tensor(), .out = into.to});
  });
}

Tensor mix_cached(const Tensor& map, const Tensor& x, int64_t past) {
  check(past < map.rows() && past < x.rows(), "mix_cached", "row ", past, " is beyond the map ", map.shape(),
        " or the rows ", x.shape());
  const Tensor out = empty({1, x.cols()}, x.dtype(), x.device());
  const Tensor row = map.slice(past, past + 1).reshape({map.cols(), 1}).slice(0, past + 1).reshape({1, past + 1});
  kernels::gemm({.a = cast_to(row, x.dtype()), .b = x.slice(0, past + 1), .c = out, .rowwise = true});
  return out;
}

}  // namespace lithe
