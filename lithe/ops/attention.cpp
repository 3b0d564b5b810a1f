#include "lithe/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/query_key_value.h"
#include "lithe/ops/token_map.h"

namespace lithe {
namespace {

kernels::AttentionArgs arguments(const Tensor& q, int64_t key_cols, int64_t value_cols, const AttendOptions& o) {
  check(o.heads > 0 && o.kv_heads > 0 && o.heads % o.kv_heads == 0, "attend", "heads (", o.heads,
        ") must be a multiple of key/value heads (", o.kv_heads, ")");
  check(q.cols() % o.heads == 0 && key_cols % o.kv_heads == 0 && value_cols % o.kv_heads == 0, "attend", "widths q ",
        q.cols(), ", k ", key_cols, ", v ", value_cols, " must be multiples of the heads ", o.heads, " and ",
        o.kv_heads);
  kernels::AttentionArgs args;
  args.heads = o.heads;
  args.kv_heads = o.kv_heads;
  args.head_dim = q.cols() / o.heads;
  args.value_dim = value_cols / o.kv_heads;
  check(key_cols / o.kv_heads == args.head_dim, "attend", "queries have ", args.head_dim, " channels a head, keys ",
        key_cols / o.kv_heads);
  args.scale = o.scale != 0 ? o.scale : 1 / std::sqrt(double(args.head_dim));
  args.mask = o.mask;
  args.head_masks = o.head_masks;
  args.tiles = o.tiles;
  if (o.bias.table.defined()) args.bias = o.bias.table.value();
  args.bias_first = o.bias.first;
  args.q = q;
  args.out = empty({q.rows(), args.heads * args.value_dim}, q.dtype(), q.device());
  return args;
}

}  // namespace

Var attend(const Var& q, const Var& k, const Var& v, const Sequences& queries, const Sequences& keys,
           const AttendOptions& options) {
  check(
      queries.count() == keys.count() && queries.rows() == q.rows() && keys.rows() == k.rows() && k.rows() == v.rows(),
      "attend", "q ", q.shape(), ", k ", k.shape(), ", v ", v.shape(), " do not fit ", queries.count(),
      " query sequences of ", queries.rows(), " rows and ", keys.count(), " key sequences of ", keys.rows(), " rows");
  auto args = arguments(q.value(), k.cols(), v.cols(), options);
  args.k = k.value();
  args.v = v.value();
  for (int64_t b = 0; b < queries.count(); ++b)
    args.segments.push_back({queries.offset(b), queries.length(b), keys.offset(b), keys.length(b), {}, {}});
  if (Tape::current()) args.lse = empty({q.rows(), options.heads}, wide_of(q.dtype()), q.device());
  kernels::attention(args);
  const Tensor out = args.out;
  const GradRef bias = options.bias.table.ref();
  return record("attend", {q, k, v, bias}, out,
                [args, q = q.ref(), k = k.ref(), v = v.ref(), bias](const Tensor& dy, Grads& g) {
                  const auto gradient = [&](kernels::AttentionGradArgs all) {
                    const auto into = g.into(bias);
                    all.dbias = into.to, all.accumulate_dbias = into.accumulate;
                    kernels::attention_grad(all);
                  };
                  query_key_value_gradients<kernels::AttentionGradArgs>(args, q, k, v, dy, g, gradient);
                });
}

Var attend_by_maps(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const AttendOptions& o,
                   const std::function<Var(const Var& map, int64_t b)>& change) {
  check(o.head_masks.empty() && !o.tiles && !o.bias.table.defined(), "attend",
        "explicit maps have one mask for all heads and no bias; leave attention_dropout out");
  const Var keys = repeat_heads(k, o.kv_heads, o.heads), values = repeat_heads(v, o.kv_heads, o.heads);
  std::vector<Var> parts;
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1);
    if (begin == end) continue;
    const Var map =
        change(attention_map(slice_rows(q, begin, end), slice_rows(keys, begin, end), o.heads, o.scale, o.mask), b);
    parts.push_back(
        mix_tokens(map, slice_rows(values, begin, end), Sequences::single(end - begin, q.device()), o.heads));
  }
  return concatenate_rows(parts);
}

Tensor attend_cached(const Tensor& q, const std::vector<KeyValues>& caches, const std::vector<int64_t>& keys,
                     const Sequences& queries, const AttendOptions& options) {
  check(int64_t(caches.size()) == queries.count() && caches.size() == keys.size() && !caches.empty(), "attend_cached",
        "one cache and one number of keys a sequence: ", queries.count(), ", got ", caches.size(), " and ",
        keys.size());
  const auto filled =
      std::find_if(caches.begin(), caches.end(), [](const KeyValues& cache) { return cache.keys.defined(); });
  check(filled != caches.end() && filled->values.defined(), "attend_cached", "no cache holds keys and values");
  auto args = arguments(q, filled->keys.cols(), filled->values.cols(), options);
  for (int64_t b = 0; b < queries.count(); ++b) {
    const KeyValues& cache = caches[size_t(b)];
    args.segments.push_back({queries.offset(b), queries.length(b), 0, keys[size_t(b)], cache.keys, cache.values});
  }
  kernels::attention(args);
  return args.out;
}

}  // namespace lithe
