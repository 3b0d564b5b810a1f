#include "lithe/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
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
  args.softcap = o.softcap;
  args.mask = o.mask;
  args.head_masks = o.head_masks;
  args.tiles = o.tiles;
  if (o.values.table.defined()) {
    check(o.values.table.cols() == args.value_dim, "attend", "values by distance ", o.values.table.shape(),
          " must have the ", args.value_dim, " channels of a head's values");
    args.shares = empty({q.rows(), o.heads * o.values.table.rows()}, wide_of(q.dtype()), q.device());
    args.shares_first = o.values.first;
  }
  args.q = q;
  return args;
}

// A query and head a row.
Tensor by_heads(const Tensor& x, int64_t rows) { return x.reshape({rows, x.numel() / rows}); }

// out += shares table, of values by distance.
void add_distance_values(const kernels::AttentionArgs& args, const Tensor& table) {
  const int64_t rows = args.q.rows() * args.heads;
  if (rows == 0) return;
  const Tensor add = empty({rows, args.value_dim}, args.shares.dtype(), args.q.device());
  kernels::gemm({.a = by_heads(args.shares, rows), .b = table, .c = add, .rowwise = !training()});
  kernels::add({.a = args.out, .b = add.reshape(args.out.shape()), .out = args.out});
}

// Of shares; those of the table are added to it.
Tensor distance_gradients(const kernels::AttentionArgs& args, const Var& table, const Tensor& dy, Grads& g) {
  const int64_t rows = args.q.rows() * args.heads;
  const Tensor dshares = empty(args.shares.shape(), args.shares.dtype(), dy.device());
  Tensor wide = dy;
  if (dy.dtype() != args.shares.dtype()) {
    wide = empty(dy.shape(), args.shares.dtype(), dy.device());
    kernels::add({.a = dy, .out = wide});
  }
  if (rows == 0) return dshares;
  kernels::gemm({.a = by_heads(wide, rows), .b = table.value(), .c = by_heads(dshares, rows), .transpose_b = true});
  if (!g.wants(table.ref())) return dshares;
  if (const auto into = g.into(table.ref()))
    kernels::gemm({.a = by_heads(args.shares, rows),
                   .b = by_heads(wide, rows),
                   .c = into.to,
                   .transpose_a = true,
                   .accumulate = into.accumulate});
  return dshares;
}

// Where the gradients of a bias go.
struct GradientsOf {
  GradRef table, rows, columns, rates, centres;
  explicit GradientsOf(const LogitBias& b)
      : table(b.table.ref()),
        rows(b.rows.ref()),
        columns(b.columns.ref()),
        rates(b.rates.ref()),
        centres(b.centres.ref()) {}
  void put(kernels::AttentionGradArgs& all, Grads& g) const {
    const auto to = [&g](const GradRef& x, Tensor& d, bool& accumulate) {
      const auto into = g.into(x);
      d = into.to, accumulate = into.accumulate;
    };
    to(table, all.dtable, all.accumulate_dtable);
    to(rows, all.drows, all.accumulate_drows);
    to(columns, all.dcolumns, all.accumulate_dcolumns);
    to(rates, all.drates, all.accumulate_drates);
    to(centres, all.dcentres, all.accumulate_dcentres);
  }
};

struct Operands {
  Var q, k, v;  // k and v: undefined where segments have their own
};
struct Attended {
  Var out, lse;
};

// attention() on the tape; lse is made where it is asked for.
Attended attend_on_tape(kernels::AttentionArgs args, const Operands& x, const LogitBias& bias, const Var& table,
                        bool with_lse) {
  args.bias = bias.values();
  args.q = x.q.value();
  args.out = empty({args.q.rows(), args.heads * args.value_dim}, args.q.dtype(), args.q.device());
  if (with_lse || Tape::current())
    args.lse = empty({args.q.rows(), args.heads}, wide_of(args.q.dtype()), args.q.device());
  kernels::attention(args);
  if (args.shares) add_distance_values(args, table.value());
  if (!recording()) return {args.out, args.lse};
  std::vector<Tensor> outs{args.out};
  if (with_lse) outs.push_back(args.lse);
  const std::vector<Var> made =
      record_many("attend", {x.q, x.k, x.v, bias.table, bias.rows, bias.columns, bias.rates, bias.centres, table}, outs,
                  [args, q = x.q.ref(), k = x.k.ref(), v = x.v.ref(), bias = GradientsOf(bias), table](
                      const std::vector<Tensor>& dys, Grads& g) {
                    const Tensor dy = dys[0] ? dys[0] : zeros(args.out.shape(), args.out.dtype(), args.out.device());
                    query_key_value_gradients<kernels::AttentionGradArgs>(
                        args, q, k, v, dy, g, [&](kernels::AttentionGradArgs all) {
                          bias.put(all, g);
                          if (args.shares) all.dshares = distance_gradients(args, table, dy, g);
                          if (dys.size() > 1) all.dlse = dys[1];
                          kernels::attention_grad(all);
                        });
                  });
  return {made[0], with_lse ? made[1] : Var()};
}

// y = x exp(a - b), a head's channels alike: x [N, heads*c], a and b [N, heads] in the wide type.
Var times_exp(const Var& x, const Var& a, const Var& b) {
  const int64_t rows = a.value().numel(), c = rows ? x.value().numel() / rows : 0;
  const Tensor y = empty(x.shape(), x.dtype(), x.device()), factor = empty(a.shape(), a.dtype(), a.device());
  const auto each_row = [rows](DType dtype, auto f) {
    dispatch_float(dtype, [&]<class T>() {
      parallel_for(rows, 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) f.template operator()<T>(i);
      });
    });
  };
  if (!y.is_meta()) {
    // A row that sees nothing has weights of 0 both ways.
    for (int64_t i = 0; i < rows; ++i) {
      const double d = value_at(a.value(), i) - value_at(b.value(), i);
      set_value(factor, i, std::isnan(d) ? 0 : std::exp(d));
    }
    each_row(x.dtype(), [&]<class T>(int64_t i) {
      const T* from = x.value().data<T>() + i * c;
      T* to = y.data<T>() + i * c;
      const double by = value_at(factor, i);
      for (int64_t k = 0; k < c; ++k) to[k] = T(double(from[k]) * by);
    });
  }
  return record("times_exp", {x, a, b}, y, [=, x = x.ref(), a = a.ref(), b = b.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x), da = g.into(a), db = g.into(b);
    if (dy.is_meta()) return;
    each_row(dy.dtype(), [&]<class T>(int64_t i) {
      const T *d = dy.data<T>() + i * c, *out = y.data<T>() + i * c;
      double sum = 0;
      for (int64_t k = 0; k < c; ++k) sum += double(d[k]) * double(out[k]);
      if (da) set_value(da.to, i, (da.accumulate ? value_at(da.to, i) : 0) + sum);
      if (db) set_value(db.to, i, (db.accumulate ? value_at(db.to, i) : 0) - sum);
      if (!dx) return;
      for (int64_t k = i * c; k < (i + 1) * c; ++k)
        set_value(dx.to, k, (dx.accumulate ? value_at(dx.to, k) : 0) + double(dy.data<T>()[k]) * value_at(factor, i));
    });
  });
}

// log of the sum of exponentials of several, all of one shape; -inf where all are.
Var log_sum_exp(const std::vector<Var>& parts) {
  const Tensor y = empty(parts[0].shape(), parts[0].dtype(), parts[0].device());
  std::vector<Tensor> values;
  std::vector<GradRef> inputs;
  for (const Var& part : parts) values.push_back(part.value()), inputs.push_back(part.ref());
  for (int64_t i = 0; !y.is_meta() && i < y.numel(); ++i) {
    double most = value_at(values[0], i), sum = 0;
    for (const Tensor& x : values) most = std::max(most, value_at(x, i));
    for (const Tensor& x : values) sum += std::isfinite(most) ? std::exp(value_at(x, i) - most) : 0;
    set_value(y, i, sum > 0 ? most + std::log(sum) : most);
  }
  if (!recording()) return y;
  return record_many("log_sum_exp", inputs, {y}, [=](const std::vector<Tensor>& dys, Grads& g) {
    for (size_t n = 0; n < inputs.size(); ++n) {
      if (!g.wants(inputs[n])) continue;
      const auto dx = g.into(inputs[n]);
      for (int64_t i = 0; !y.is_meta() && i < y.numel(); ++i) {
        const double share = std::exp(value_at(values[n], i) - value_at(y, i));
        set_value(dx.to, i, (dx.accumulate ? value_at(dx.to, i) : 0) + (share > 0 ? value_at(dys[0], i) * share : 0));
      }
    }
  })[0];
}

// A softmax for each round, joined by their sums of exponentials.
Var attend_in_rounds(kernels::AttentionArgs args, const Operands& x, const LogitBias& bias) {
  check_usage(!args.shares, "attention", "attention in rounds has no values by distance; leave one out");
  std::vector<Attended> rounds;
  std::vector<Var> sums;
  for (const auto& tiles : bias.rounds) {
    args.tiles = tiles;
    rounds.push_back(attend_on_tape(args, x, {}, {}, true));
    sums.push_back(rounds.back().lse);
  }
  const Var all = log_sum_exp(sums);
  Var out;
  for (const Attended& round : rounds) {
    const Var part = times_exp(round.out, round.lse, all);
    out = out.defined() ? add(out, part) : part;
  }
  return out;
}

// Two passes in place of a map: the weights without the prior, and those of it alone.
Var attend_mixed(const kernels::AttentionArgs& args, const Operands& x, const LogitBias& bias) {
  check_usage(!args.shares, "attention", "a prior that mixes with weights has no values by distance; leave one out");
  Operands alone = x;
  alone.q = Var(zeros(args.q.shape(), args.q.dtype(), args.q.device()));
  const Var content = attend_on_tape(args, x, {}, {}, false).out,
            prior = attend_on_tape(args, alone, bias, {}, false).out;
  const int64_t rows = content.rows(), width = content.cols() / args.heads;  // of the values in use
  const Var share =
      reshape(spread_heads(reshape(bias.share, {rows * args.heads, 1}), width), {rows, args.heads * width});
  return add(content, mul(cast(share, content.dtype()), add(prior, content, 1, -1)));
}

Var attend_by(kernels::AttentionArgs args, const Operands& x, const AttendOptions& o) {
  if (o.bias.use == LogitBias::Use::rounds) return attend_in_rounds(std::move(args), x, o.bias);
  if (o.bias.use == LogitBias::Use::mix) return attend_mixed(args, x, o.bias);
  return attend_on_tape(std::move(args), x, o.bias, o.values.table, false).out;
}

}  // namespace

kernels::AttentionBias LogitBias::values() const {
  return {.table = value_or_none(table),
          .rows = value_or_none(rows),
          .first = first,
          .columns = value_or_none(columns),
          .rates = value_or_none(rates),
          .centres = value_or_none(centres),
          .squared = squared,
          .pairs = pairs,
          .pair_offsets = pair_offsets,
          .pair_heads = pair_heads,
          .pairs_multiply = pairs_multiply,
          .multiplies_weights = use == Use::multiply};
}

LogitBias join(const LogitBias& a, const LogitBias& b, int64_t heads) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const auto clash = [](const Var& x, const Var& y) { return x.defined() && y.defined(); };
  // One number a key or query is of every distance.
  const auto by_distance = [heads](const LogitBias& x) {
    return x.table.defined() || (x.rows.defined() && x.rows.cols() > heads) ||
           (x.columns.defined() && x.columns.cols() > heads);
  };
  check_usage(a.use == LogitBias::Use::add && b.use == LogitBias::Use::add && !clash(a.table, b.table) &&
                  !clash(a.rows, b.rows) && !clash(a.columns, b.columns) && !clash(a.rates, b.rates) &&
                  !(a.pairs.defined() && b.pairs.defined()) &&
                  (!by_distance(a) || !by_distance(b) || a.first == b.first),
              "attention", "the position and the field both change the weights by distance; leave one of them out");
  const auto one = [](const Var& x, const Var& y) { return x.defined() ? x : y; };
  LogitBias both = a.rates.defined() ? a : b;
  both.first = by_distance(a) ? a.first : b.first;
  const LogitBias& with = a.pairs.defined() ? a : b;
  both.pairs = with.pairs, both.pair_offsets = with.pair_offsets, both.pair_heads = with.pair_heads;
  both.pairs_multiply = with.pairs_multiply;
  both.table = one(a.table, b.table), both.rows = one(a.rows, b.rows), both.columns = one(a.columns, b.columns);
  return both;
}

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
  return attend_by(std::move(args), {q, k, v}, options);
}

LogitBias presence_bias(const Var& log_presence, int64_t heads) {
  return {.columns = spread_heads(log_presence, heads)};
}

// Attention whose values are the rows of the identity gives the weights themselves, whatever the options are.
Var attention_received(const Var& q, const Var& k, const Sequences& sequences, AttendOptions o) {
  const DType wide = wide_of(q.dtype());
  const auto ones = [&](int64_t n) {
    const Tensor out = empty({1, n}, wide, q.device());
    for (int64_t i = 0; i < n && !out.is_meta(); ++i) set_value(out, i, 1);
    return Var(out);
  };
  o.values = {};
  std::vector<Var> parts;
  int64_t longest = 0;
  for (int64_t b = 0; b < sequences.count(); ++b) longest = std::max(longest, sequences.length(b));
  const Tensor identity = zeros({sequences.rows(), o.kv_heads * longest}, wide, q.device());
  for (int64_t b = 0; b < sequences.count() && !identity.is_meta(); ++b)
    for (int64_t i = 0; i < sequences.length(b); ++i)
      for (int64_t h = 0; h < o.kv_heads; ++h)
        set_value(identity, ((sequences.offset(b) + i) * o.kv_heads + h) * longest + i, 1);
  const Var weights =
      attend(cast(q, wide), cast(k, wide), Var(identity), sequences, sequences, o);  // [N, heads*longest]
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1);
    if (begin == end) continue;
    const Var of_heads = linear(ones(end - begin), slice_rows(weights, begin, end));  // [1, heads*longest]
    const Var sums = linear(ones(o.heads), reshape(of_heads, {o.heads, longest}));
    const Var of_keys = slice_rows(reshape(sums, {longest, 1}), 0, end - begin);
    parts.push_back(scale(of_keys, 1 / double(o.heads * (end - begin))));
  }
  return concatenate_rows(parts);
}

Var attend_by_maps(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const AttendOptions& o,
                   const std::function<Var(const Var& map, int64_t b)>& change) {
  check(o.head_masks.empty() && !o.tiles && !o.bias.defined() && !o.values.table.defined() && o.softcap == 0, "attend",
        "explicit maps have one mask for all heads, no bias and no cap; leave out attention_dropout, or the objective "
        "that "
        "reads attention weights");
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
  check(!options.turn || options.key_positions.size() == caches.size(), "attend_cached",
        "keys that turn need the position of the first in each of ", caches.size(), " caches, got ",
        options.key_positions.size());
  args.turn = options.turn;
  args.segments.reserve(caches.size());
  int64_t row = 0;  // of a bias by key
  for (int64_t b = 0; b < queries.count(); ++b) {
    const KeyValues& cache = caches[size_t(b)];
    // A sequence that has ended keeps nothing.
    args.segments.push_back({queries.offset(b), queries.length(b), cache.keys.defined() ? row : 0, keys[size_t(b)],
                             cache.keys, cache.values, options.turn ? options.key_positions[size_t(b)] : 0});
    row += keys[size_t(b)];
  }
  return attend_by(std::move(args), {q, {}, {}}, options).value();
}

}  // namespace lithe
