#include "lithe/parallel/ring_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/threads.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

constexpr int kRing = 20201;

// What goes on to the next rank; what comes from the one before has `rows` rows.
Tensor passed_on(const Tensor& x, int64_t rows, const Group& ranks) {
  const Tensor out = empty({rows, x.cols()}, x.dtype(), x.device());
  MessageMeter::waits(1, std::max(x.bytes(), out.bytes()));
  if (x.is_meta() || !ranks.with) return out;
  const auto sent = ranks.with->send(bytes_of(x), (ranks.rank + 1) % ranks.size, kRing);
  receive_tensor(out, ranks, (ranks.rank + ranks.size - 1) % ranks.size, kRing);
  sent->wait();
  return out;
}

void fill(const Tensor& x, double value) {
  for (int64_t i = 0; i < x.numel() && !x.is_meta(); ++i) set_value(x, i, value);
}

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

struct Ring {
  RowsOfRanks counts;
  Sequences mine;
  AttendOptions options;
  Group ranks;
  int64_t head_dim = 0, value_dim = 0;

  // The rank whose block is here after `step` steps.
  int owner(int step) const { return (ranks.rank - step + ranks.size) % ranks.size; }
  int64_t rows(int step) const { return total(counts[size_t(owner(step))]); }
  bool seen(int step) const { return !options.mask.causal || owner(step) <= ranks.rank; }

  // What the queries take from that block alone: out and lse.
  kernels::AttentionArgs attend(int step, const Tensor& q, const Tensor& k, const Tensor& v) const {
    kernels::AttentionArgs a = arguments(step, q, k, v);
    a.out = zeros({q.rows(), options.heads * value_dim}, q.dtype(), q.device());
    a.lse = empty({q.rows(), options.heads}, wide_of(q.dtype()), q.device());
    fill(a.lse, -std::numeric_limits<double>::infinity());
    if (!a.segments.empty()) kernels::attention(a);
    return a;
  }

  kernels::AttentionArgs arguments(int step, const Tensor& q, const Tensor& k, const Tensor& v) const {
    kernels::AttentionArgs a;
    a.q = q, a.k = k, a.v = v;
    a.heads = options.heads, a.kv_heads = options.kv_heads;
    a.head_dim = head_dim, a.value_dim = value_dim;
    a.scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(head_dim));
    a.softcap = options.softcap;
    a.mask.causal = options.mask.causal && step == 0;
    int64_t key = 0;
    for (int64_t b = 0; b < mine.count(); ++b) {
      const int64_t keys = counts[size_t(owner(step))][size_t(b)];
      if (keys > 0 && mine.length(b) > 0) a.segments.push_back({mine.offset(b), mine.length(b), key, keys, {}, {}});
      key += keys;
    }
    return a;
  }
};

// out and lse, which have what queries took from other blocks, take that of one more: each by its share of the sum of
// exponentials.
template <class T>
void join_block(const Tensor& out, const Tensor& lse, const Tensor& block, const Tensor& block_lse, int64_t heads) {
  const int64_t width = out.cols() / heads;
  T *y = out.data<T>(), *l = lse.data<T>();
  const T *x = block.data<T>(), *m = block_lse.data<T>();
  parallel_for(out.rows() * heads, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const T most = std::max(l[i], m[i]);
      if (most == -std::numeric_limits<T>::infinity()) continue;
      const T old = std::exp(l[i] - most), more = std::exp(m[i] - most), sum = old + more;
      l[i] = most + std::log(sum);
      for (int64_t c = i * width; c < (i + 1) * width; ++c) y[c] = (y[c] * old + x[c] * more) / sum;
    }
  });
}

// out = sum over blocks of w block with w = exp(block_lse - lse): the gradients of a block and of its block_lse.
template <class T>
void part_of_block(const Tensor& out, const Tensor& lse, const Tensor& dout, const Tensor& block,
                   const Tensor& block_lse, const Tensor& dblock, const Tensor& dblock_lse) {
  const int64_t width = out.cols() / lse.cols();
  const T *y = out.data<T>(), *l = lse.data<T>(), *dy = dout.data<T>(), *x = block.data<T>(), *m = block_lse.data<T>();
  T *dx = dblock.data<T>(), *dm = dblock_lse.data<T>();
  parallel_for(lse.numel(), 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const T w = m[i] == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(m[i] - l[i]);
      T sum = 0;
      for (int64_t c = i * width; c < (i + 1) * width; ++c) {
        dx[c] = w * dy[c];
        sum += dx[c] * (x[c] - y[c]);
      }
      dm[i] = sum;
    }
  });
}

Tensor converted(const Tensor& x, DType type) { return cast(x, type).value(); }

}  // namespace

RowsOfRanks rows_of_ranks(const Sequences& mine, const Group& ranks) {
  std::vector<int64_t> own;
  for (int64_t b = 0; b < mine.count(); ++b) own.push_back(mine.length(b));
  RowsOfRanks out(static_cast<size_t>(ranks.size), own);
  if (mine.positions().is_meta()) return out;
  if (ranks.with) out = gather(*ranks.with, own);
  for (size_t r = 0; r < out.size(); ++r)
    check(out[r].size() == own.size(), "ranks", "rank ", r, " has another number of sequences than rank ", ranks.rank);
  return out;
}

// spec: hpc.parallel | training | keys and values of a sequence on many ranks, around a ring | TB 6.4.9
Var ring_attend(const Var& q, const Var& k, const Var& v, const Sequences& mine, const RowsOfRanks& rows,
                const AttendOptions& options, const Group& ranks) {
  check_usage(options.head_masks.empty() && !options.tiles && !options.bias.defined() &&
                  !options.values.table.defined() && options.mask.window == 0,
              "ring_attend", "has heads, a scale, a cap and the mask causal; leave biases, windows and tiles out");
  const DType wide = wide_of(q.dtype());
  const Device device = q.device();
  const Ring ring{rows, mine, options, ranks, q.cols() / options.heads, v.cols() / options.kv_heads};
  const int64_t width = options.heads * ring.value_dim;
  Tensor out = zeros({q.rows(), width}, wide, device);
  const Tensor lse = empty({q.rows(), options.heads}, wide, device);
  fill(lse, -std::numeric_limits<double>::infinity());
  {
    Tensor keys = k.value(), values = v.value();
    for (int step = 0; step < ranks.size; ++step) {
      if (ring.seen(step)) {
        const kernels::AttentionArgs a = ring.attend(step, q.value(), keys, values);
        const Tensor block = converted(a.out, wide);
        if (!out.is_meta() && wide == DType::f64) join_block<double>(out, lse, block, a.lse, options.heads);
        if (!out.is_meta() && wide == DType::f32) join_block<float>(out, lse, block, a.lse, options.heads);
      }
      if (step + 1 == ranks.size) break;
      keys = passed_on(keys, ring.rows(step + 1), ranks);
      values = passed_on(values, ring.rows(step + 1), ranks);
    }
  }
  out = converted(out, q.dtype());
  return record("ring_attend", {q, k, v}, out, [=](const Tensor& dy, Grads& g) {
    const Tensor dout = converted(dy, wide), all = converted(out, wide);
    const Tensor dq = zeros(q.shape(), wide, device);
    Tensor keys = k.value(), values = v.value();
    Tensor dk = zeros(k.shape(), wide, device), dv = zeros(v.shape(), wide, device);
    for (int step = 0; step < ranks.size; ++step) {
      if (ring.seen(step)) {
        kernels::AttentionGradArgs a;
        a.forward = ring.attend(step, q.value(), keys, values);
        const Tensor block = converted(a.forward.out, wide), dblock = empty(block.shape(), wide, device);
        a.dlse = empty(lse.shape(), wide, device);
        if (!dq.is_meta() && wide == DType::f64)
          part_of_block<double>(all, lse, dout, block, a.forward.lse, dblock, a.dlse);
        if (!dq.is_meta() && wide == DType::f32)
          part_of_block<float>(all, lse, dout, block, a.forward.lse, dblock, a.dlse);
        a.dout = converted(dblock, q.dtype());
        a.dq = dq, a.dk = dk, a.dv = dv;
        a.accumulate_dq = a.accumulate_dk = a.accumulate_dv = true;
        if (!a.forward.segments.empty()) kernels::attention_grad(a);
      }
      const int64_t rows = ring.rows((step + 1) % ranks.size);
      if (step + 1 < ranks.size) {
        keys = passed_on(keys, rows, ranks);
        values = passed_on(values, rows, ranks);
      }
      dk = passed_on(dk, rows, ranks);  // at last to where they belong
      dv = passed_on(dv, rows, ranks);
    }
    g.give(q.ref(), converted(dq, q.dtype()));
    g.give(k.ref(), converted(dk, k.dtype()));
    g.give(v.ref(), converted(dv, v.dtype()));
  });
}

}  // namespace lithe
