#include "lithe/kernels/attention/attention.h"

#include <algorithm>

#include "lithe/kernels/attention/plan.h"
#include "lithe/kernels/attention/reference.h"

namespace lithe::kernels {
namespace {

struct Shown {
  const Tensor& x;
};
std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  if (!shown.x) return out << "none";
  return out << shown.x.dtype() << shown.x.shape();
}

std::string describe(const AttentionArgs& a) {
  return cat("q ", Shown{a.q}, ", k ", Shown{a.k}, ", v ", Shown{a.v}, ", out ", Shown{a.out}, ", lse ", Shown{a.lse},
             "; heads ", a.heads, ", kv_heads ", a.kv_heads, ", head_dim ", a.head_dim, ", value_dim ", a.value_dim);
}

// The checks format their message only when they fail: decoding calls this for every layer and token.
template <class... Args>
void require(bool rule, const char* operation, const AttentionArgs& a, const Args&... message) {
  if (!rule) [[unlikely]]
    fail(operation, message..., "; got ", describe(a));
}

/// A matrix of `cols` columns on the device of `like`.
bool is_matrix(const Tensor& x, int64_t cols, const Tensor& like) {
  return x.shape().rank() == 2 && x.dim(1) == cols && x.device() == like.device();
}

struct ShownPages {
  const PagedRows& rows;
};
std::ostream& operator<<(std::ostream& out, const ShownPages& shown) {
  if (!shown.rows.defined()) return out << "none";
  return out << shown.rows.pages.size() << " x " << Shown{shown.rows.pages[0]};
}

/// Pages of rows of `size` numbers of `type` a head for `rows` rows, with scales where they are integers.
bool are_pages(const PagedRows& x, int64_t rows, int64_t size, DType type, const AttentionArgs& a) {
  const int64_t numbers = a.kv_heads * size;
  const PageRow row = page_row(type, numbers, a.kv_heads);
  if (x.scales.size() != (row.scales ? x.pages.size() : 0) || (x.defined() && x.cols() != numbers)) return false;
  for (size_t i = 0; i < x.pages.size(); ++i) {
    const Tensor& page = x.pages[i];
    const bool last = i + 1 == x.pages.size();
    if (!is_matrix(page, row.cols, a.q) || page.dtype() != type) return false;
    if (!last && (page.dim(0) != x.page_rows() || page.dim(0) % kPageRows != 0)) return false;
    if (row.scales && (!is_matrix(x.scales[i], row.scales, a.q) || x.scales[i].dim(0) != page.dim(0) ||
                       x.scales[i].dtype() != row.scale_type))
      return false;
    rows -= page.dim(0);
  }
  return rows <= 0;
}

void check_own_keys(const char* op, const AttentionArgs& a, size_t i, DType type) {
  const AttentionSegment& s = a.segments[i];
  require(are_pages(s.keys, s.key_rows, a.head_dim, type, a) && are_pages(s.values, s.key_rows, a.value_dim, type, a),
          op, a, "segment ", i, " with ", s.key_rows, " key rows has keys ", ShownPages{s.keys}, " and values ",
          ShownPages{s.values}, "; they must be ", type,
          " pages [rows, kv_heads*head_dim] and [rows, kv_heads*value_dim] for all key rows, ",
          "all but the last with the same multiple of ", kPageRows,
          " rows, with scales [rows, kv_heads] where i8, rows in 4 bits with theirs where u8");
}

void check_segments(const char* op, const AttentionArgs& a) {
  const DType own = key_type(a);
  const bool known = own == DType::i8 || own == DType::u8 || own == DType::bf16 || own == DType::f32;
  require(known || own == a.q.dtype(), op, a, "keys must have the dtype of q, or be f32, bf16, i8 or u8; are ", own);
  const int64_t queries = a.q.dim(0), keys = a.k ? a.k.dim(0) : 0, values = a.v ? a.v.dim(0) : 0;
  std::vector<std::pair<int64_t, int64_t>> covered;
  covered.reserve(a.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const AttentionSegment& s = a.segments[i];
    require(s.query_row >= 0 && s.query_rows >= 0 && s.query_row + s.query_rows <= queries, op, a, "segment ", i,
            " has query rows [", s.query_row, ",", s.query_row + s.query_rows, "), outside of q");
    require(s.key_rows >= 0, op, a, "segment ", i, " has ", s.key_rows, " key rows");
    require(s.keys.defined() == s.values.defined(), op, a, "segment ", i,
            " must have both its own keys and values, or neither");
    if (s.keys.defined() && s.key_rows > 0) {
      check_own_keys(op, a, i, own);
    } else if (!s.keys.defined()) {
      require(s.key_rows == 0 || own == a.q.dtype(), op, a, "segment ", i, " has keys of the dtype of q, others ", own);
      require(s.key_row >= 0 && s.key_row + s.key_rows <= std::min(keys, values), op, a, "segment ", i,
              " has key rows [", s.key_row, ",", s.key_row + s.key_rows, "), outside of k or v");
    }
    if (s.query_rows > 0) covered.push_back({s.query_row, s.query_row + s.query_rows});
  }
  if (!std::is_sorted(covered.begin(), covered.end())) std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    require(covered[i - 1].second <= covered[i].first, op, a, "two segments share query row ", covered[i].first);
}

void check_tiles(const char* op, const AttentionArgs& a) {
  const auto& visits = a.tiles->visits;
  require(visits.size() == a.segments.size() * size_t(a.heads), op, a, "tiles are for ", visits.size(),
          " segments and heads, not ", a.segments.size() * size_t(a.heads));
  const TileMask::Visits* last = nullptr;
  for (size_t i = 0; i < visits.size(); ++i) {
    const TileMask::Visits* v = visits[i].get();
    const AttentionSegment& s = a.segments[i / size_t(a.heads)];
    const auto rows = [&](int64_t n, int64_t of) { return size_t((n + of - 1) / of); };
    if (!v) continue;
    require(v->first.size() == rows(s.query_rows, TileMask::kQueries) + 1 &&
                size_t(v->first.back()) == v->keys.size() && (v->rule.empty() || v->rule.size() == v->keys.size()),
            op, a, "tiles of segment ", i / size_t(a.heads), " do not fit its ", s.query_rows, " queries");
    if (v == last && i % size_t(a.heads) != 0) continue;  // of the head before
    last = v;
    const auto tiles = int32_t(rows(s.key_rows, TileMask::kKeys));
    for (size_t t = 0; t + 1 < v->first.size(); ++t)
      for (int32_t n = v->first[t]; n < v->first[t + 1]; ++n) {
        const int32_t key = v->keys[size_t(n)], rule = v->rule.empty() ? -1 : v->rule[size_t(n)];
        require(key >= 0 && key < tiles && (n == v->first[t] || v->keys[size_t(n) - 1] < key) &&
                    rule < int32_t(v->rules.size()),
                op, a, "tiles of segment ", i / size_t(a.heads), " must ascend within its ", tiles, " tiles of keys");
      }
  }
}

void check_bias(const char* op, const AttentionArgs& a) {
  const AttentionBias& b = a.bias;
  const DType type = wide_of(a.q.dtype());
  const int64_t queries = a.q.dim(0);
  const auto is = [&](const Tensor& x, int64_t cols) {
    return x.shape().rank() == 2 && x.dim(1) > 0 && (cols ? x.dim(1) == cols : x.dim(1) % a.heads == 0) &&
           x.device() == a.q.device() && x.dtype() == type;
  };
  require(!b.table || (is(b.table, a.heads) && b.table.dim(0) >= 1), op, a, "a bias table must be [W, heads] in ", type,
          ", is ", Shown{b.table});
  require(!b.rows || (is(b.rows, 0) && b.rows.dim(0) == queries), op, a, "a bias by query must be [N, heads*R] in ",
          type, ", is ", Shown{b.rows});
  if (b.columns) {
    int64_t keys = 0;
    for (const AttentionSegment& s : a.segments) keys = std::max(keys, s.key_row + s.key_rows);
    require(is(b.columns, 0) && b.columns.dim(0) >= keys, op, a, "a bias by key must be [", keys,
            " or more, heads*C] in ", type, ", is ", Shown{b.columns});
  }
  require(!b.rates || (is(b.rates, a.heads) && (b.rates.dim(0) == 1 || b.rates.dim(0) == queries)), op, a,
          "rates of a bias must be [1, heads] or [N, heads] in ", type, ", are ", Shown{b.rates});
  require(!b.centres || (b.rates && is(b.centres, a.heads) && b.centres.dim(0) == queries), op, a,
          "centres of a bias must be [N, heads] in ", type, " and have rates, are ", Shown{b.centres});
  if (b.pairs) {
    require(b.pairs.shape().rank() == 1 && b.pairs.dtype() == type && b.pairs.device() == a.q.device() &&
                b.pair_offsets.size() == a.segments.size() &&
                (b.pair_heads.empty() || int64_t(b.pair_heads.size()) == a.heads),
            op, a, "a bias by pairs must be [P] in ", type, " with an offset a segment, and a flag a head or none; is ",
            Shown{b.pairs}, " with ", b.pair_offsets.size(), " and ", b.pair_heads.size());
    require(!b.pairs_multiply || !b.multiplies_weights, op, a, "pairs multiply logits or weights, not both");
    for (size_t s = 0; s < a.segments.size(); ++s)
      require(b.pair_offsets[s] >= 0 &&
                  b.pair_offsets[s] + a.segments[s].query_rows * a.segments[s].key_rows <= b.pairs.numel(),
              op, a, "the pairs of segment ", s, " lie beyond the ", b.pairs.numel(), " that there are");
  }
  require(!a.shares || (is(a.shares, 0) && a.shares.dim(0) == queries), op, a, "shares must be [N, heads*U] in ", type,
          ", are ", Shown{a.shares});
}

void check_turn(const char* op, const AttentionArgs& a) {
  const auto pairs = int64_t(a.turn->frequencies.size());
  require(2 * pairs <= a.head_dim, op, a, "keys turn in ", pairs, " pairs of channels, more than head_dim has");
  for (const AttentionSegment& s : a.segments)
    require(s.key_position >= 0 && (s.key_rows == 0 || s.keys.defined()), op, a,
            "keys that turn must be a segment's own, from a position of at least 0; the first has ", s.key_position);
}

void check_args(const char* op, const AttentionArgs& a) {
  require(a.q && a.out, op, a, "q and out are needed");
  require(a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0, op, a, "heads must be a multiple of kv_heads");
  require(a.head_dim > 0 && a.value_dim > 0, op, a, "head_dim and value_dim must be positive");
  require(a.mask.window >= 0, op, a, "window must not be negative, is ", a.mask.window);
  require(a.softcap >= 0, op, a, "softcap must not be negative, is ", a.softcap);
  require(is_matrix(a.q, a.heads * a.head_dim, a.q), op, a, "q must be [N, heads*head_dim]");
  require(is_matrix(a.out, a.heads * a.value_dim, a.q) && a.out.dim(0) == a.q.dim(0), op, a,
          "out must be [N, heads*value_dim]");
  require(!a.k || is_matrix(a.k, a.kv_heads * a.head_dim, a.q), op, a, "k must be [S, kv_heads*head_dim]");
  require(!a.v || is_matrix(a.v, a.kv_heads * a.value_dim, a.q), op, a, "v must be [S, kv_heads*value_dim]");
  const DType type = a.q.dtype();
  require(type == DType::f64 || type == DType::f32 || type == DType::bf16, op, a, "q must be f64, f32 or bf16");
  require((!a.k || a.k.dtype() == type) && (!a.v || a.v.dtype() == type) && a.out.dtype() == type, op, a,
          "q, k, v and out must have one dtype");
  require(!a.lse || (is_matrix(a.lse, a.heads, a.q) && a.lse.dim(0) == a.q.dim(0) &&
                     a.lse.dtype() == (type == DType::f64 ? type : DType::f32)),
          op, a, "lse must be [N, heads] in f32 (f64 for f64)");
  require(a.head_masks.empty() || int64_t(a.head_masks.size()) == a.heads, op, a, "there are ", a.head_masks.size(),
          " head_masks; give one a query head, or none");
  if (a.tiles) check_tiles(op, a);
  check_bias(op, a);
  check_segments(op, a);
  if (a.turn) check_turn(op, a);
}

void check_args(const AttentionGradArgs& g) {
  const char* op = "attention_grad";
  const AttentionArgs& a = g.forward;
  check_args(op, a);
  require(a.k && a.v, op, a, "k and v are needed");
  require(a.lse.defined(), op, a, "lse of the forward pass is needed");
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const AttentionSegment& s : a.segments) {
    require(!s.keys.defined(), op, a, "segments with their own keys (decode caches) have no gradient");
    if (s.key_rows > 0) covered.push_back({s.key_row, s.key_row + s.key_rows});
  }
  std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    require(covered[i - 1].second <= covered[i].first, op, a, "two segments share key row ", covered[i].first,
            "; the gradient needs keys that belong to one segment");
  const DType type = a.q.dtype();
  require(g.dout && g.dout.shape() == a.out.shape() && g.dout.dtype() == type, op, a, "dout must be like out, is ",
          Shown{g.dout});
  const auto gradient_of = [&](const char* name, const Tensor& d, const Tensor& x) {
    require(d && d.shape() == x.shape() && (d.dtype() == type || (type == DType::bf16 && d.dtype() == DType::f32)), op,
            a, name, " must have the shape of ", name + 1, " and its dtype (or f32), is ", Shown{d});
  };
  gradient_of("dq", g.dq, a.q);
  gradient_of("dk", g.dk, a.k);
  gradient_of("dv", g.dv, a.v);
  const auto of_bias = [&](const char* name, const Tensor& d, const Tensor& x) {
    require(!d || (x && d.shape() == x.shape() && d.dtype() == x.dtype()), op, a, name, " must be like ", name + 1,
            ", is ", Shown{d});
  };
  of_bias("dtable", g.dtable, a.bias.table);
  of_bias("drows", g.drows, a.bias.rows);
  of_bias("dcolumns", g.dcolumns, a.bias.columns);
  of_bias("drates", g.drates, a.bias.rates);
  of_bias("dcentres", g.dcentres, a.bias.centres);
  of_bias("dshares", g.dshares, a.shares);
  of_bias("dlse", g.dlse, a.lse);
}

/// Pairs that the tiles of one segment and head name and its mask shows.
int64_t visited_pairs(const ref::Place& at) {
  const TileMask::Visits* visits = at.a.tiles->visits[size_t(at.segment * at.a.heads + at.head)].get();
  static const TileMask::Visits kNone{};
  const TileMask::Visits& v = visits ? *visits : kNone;
  int64_t pairs = 0;
  for (int64_t i = 0; i < at.rows().query_rows; ++i) {
    const ref::Visible seen = at.visible(i);
    const auto tile = size_t(i / TileMask::kQueries);
    if (!visits) pairs += seen.end - seen.begin;
    if (!visits) continue;
    for (int32_t n = v.first[tile]; n < v.first[tile + 1]; ++n) {
      const int64_t key = v.keys[size_t(n)] * TileMask::kKeys, begin = std::max(seen.begin, key),
                    end = std::min(seen.end, key + TileMask::kKeys);
      const int32_t rule = v.rule.empty() ? -1 : v.rule[size_t(n)];
      if (rule < 0)
        pairs += std::max<int64_t>(0, end - begin);
      else
        for (int64_t j = begin; j < end; ++j)
          pairs += v.rules[size_t(rule)][size_t(j - key)] >> (i % TileMask::kQueries) & 1;
    }
  }
  return pairs;
}

/// Pairs of a query and a key that it sees by the mask, over all segments, for one head: the mean of all.
double visible_pairs(const AttentionArgs& a) {
  double pairs = 0;
  if (a.tiles) {
    for (size_t i = 0; i < a.tiles->visits.size(); ++i)
      pairs += double(visited_pairs(ref::Place{a, int64_t(i) / a.heads, int64_t(i) % a.heads})) / double(a.heads);
    return pairs;
  }
  if (!a.head_masks.empty()) {
    AttentionArgs one = a;
    one.head_masks.clear();
    for (const AttentionMask& mask : a.head_masks) {
      one.mask = mask;
      pairs += visible_pairs(one) / double(a.heads);
    }
    return pairs;
  }
  for (const AttentionSegment& s : a.segments) {
    if (!a.mask.causal && a.mask.window == 0) {
      pairs += double(s.query_rows) * double(s.key_rows);
      continue;
    }
    for (int64_t i = 0; i < s.query_rows; ++i) {
      const ref::Visible keys = ref::visible_keys(s, a.mask, i);
      pairs += double(keys.end - keys.begin);
    }
  }
  return pairs;
}

// Rows that the segments cover; their operands count once each.
struct Rows {
  double queries = 0, keys = 0;
  explicit Rows(const AttentionArgs& a) {
    for (const AttentionSegment& s : a.segments) {
      queries += double(s.query_rows);
      keys += double(s.key_rows);
    }
  }
};

double key_bytes(const AttentionArgs& a, double rows) {
  const DType type = key_type(a);
  const auto bytes = [&](int64_t size) { return page_row(type, a.kv_heads * size, a.kv_heads).bytes(); };
  return rows * double(bytes(a.head_dim) + bytes(a.value_dim));
}

double query_bytes(const AttentionArgs& a, double rows) {
  const double lse = a.lse ? double(size_of(a.lse.dtype())) : 0;
  return rows * double(a.heads) * (double(a.head_dim + a.value_dim) * double(size_of(a.q.dtype())) + lse);
}

const char* refuse(const AttentionCall& call) {
  if (call.dtype == DType::f64) return "f64 runs on the reference";
  if (!(call.scale > 0)) return "the scale is not positive";
  return nullptr;
}

const char* refuse_tiles(const AttentionCall& call) {
  const auto fits = [](int64_t width) { return width % kTileWidth == 0 && width <= kWidestOnTiles; };
  if (call.dtype != DType::bf16 || call.key_dtype != DType::bf16) return "tiles multiply bf16";
  if (!fits(call.head_dim) || !fits(call.value_dim)) return "heads are not whole steps of 32 up to 256 wide";
  if (call.turn.frequencies) return "keys are turned by vectors";
  if (!call.grad_args && !call.tiles) return "few queries read keys faster by vectors";
  return refuse(call);
}

// The tasks of few queries, after those on matrix tiles. Which way a query goes depends on its own segment.
void decode_by_vectors(const AttentionCall& call) {
  AttentionCall rest = call;
  rest.only_decodes = true;
  run_kernel<AttentionCall>("attention", false, {LITHE_CPU_LIST(attention_forward, refuse)}, rest);
}

// Gradients of rows that no segment covers.
void clear_uncovered(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> covered) {
  std::sort(covered.begin(), covered.end());
  covered.push_back({x.dim(0), x.dim(0)});
  int64_t at = 0;
  for (const auto& [begin, end] : covered) {
    if (at < begin) fill_zero(x.slice(at, begin));
    at = std::max(at, end);
  }
}

void run_reference(const AttentionCall& call) {
  dispatch_float(call.dtype, [&]<class T>() { ref::attention<T>(*call.args); });
}

void run_reference_grad(const AttentionCall& call) {
  dispatch_float(call.dtype, [&]<class T>() { ref::attention_grad<T>(*call.grad_args); });
}

}  // namespace

PageRow page_row(DType type, int64_t numbers, int64_t heads) {
  if (type != DType::u8) return {type, DType::f32, numbers, type == DType::i8 ? heads : 0};
  const Int4Rows int4{heads, numbers / heads};
  return {type, DType::bf16, int4.bytes(), int4.scales()};
}

bool TileMask::Visits::sees(int64_t query, int64_t key) const {
  const auto tile = size_t(query / kQueries);
  const auto begin = keys.begin() + first[tile], end = keys.begin() + first[tile + 1],
             at = std::lower_bound(begin, end, key / kKeys);
  if (at == end || *at != key / kKeys) return false;
  const int32_t of = rule.empty() ? -1 : rule[size_t(at - keys.begin())];
  return of < 0 || (rules[size_t(of)][size_t(key % kKeys)] >> (query % kQueries) & 1);
}

Cost cost(const AttentionArgs& a) {
  const Rows rows(a);
  const double turned = a.turn ? 6.0 * double(a.turn->frequencies.size()) * double(a.kv_heads) * rows.keys : 0;
  return {2.0 * visible_pairs(a) * double(a.heads) * double(a.head_dim + a.value_dim) + turned,
          query_bytes(a, rows.queries) + key_bytes(a, rows.keys)};
}

// Five products: the logits again, dout . v, dq, dk and dv.
Cost cost(const AttentionGradArgs& g) {
  const AttentionArgs& a = g.forward;
  const Rows rows(a);
  const double item = double(size_of(a.q.dtype()));
  const auto written = [](const Tensor& d, bool add) { return double(d.bytes()) * (add ? 2 : 1); };
  return {2.0 * visible_pairs(a) * double(a.heads) * double(3 * a.head_dim + 2 * a.value_dim),
          query_bytes(a, rows.queries) + key_bytes(a, rows.keys) + rows.queries * double(a.heads * a.value_dim) * item +
              written(g.dq, g.accumulate_dq) + written(g.dk, g.accumulate_dk) + written(g.dv, g.accumulate_dv)};
}

static Cost cost(const AttentionCall& call) { return call.grad_args ? cost(*call.grad_args) : cost(*call.args); }

// spec: attn.qkv | core | softmax attention of queries to keys and values, grouped heads, any value width | TB
// Eq 6.19-6.20
//
// spec: attn.dot_single | core | attention without projections: queries, keys and values are the rows | TB
// Eq 6.17-6.18
//
// spec: mask.causal | core | a key is seen up to the query's position; hidden tiles are skipped | TB 6.1.7
void attention(const AttentionArgs& args) {
  check_args("attention", args);
  const AttentionPlan plan(args);
  AttentionCall call = plan.call();
  call.decode = decode_by_vectors;
  run_kernel<AttentionCall>("attention", args.q.is_meta(),
                            {LITHE_TILE_LIST(attention_tiles, refuse_tiles),
                             LITHE_CPU_LIST(attention_forward, refuse),
                             {"ref", Isa::generic, nullptr, run_reference}},
                            call);
}

void attention_grad(const AttentionGradArgs& args) {
  check_args(args);
  std::vector<std::pair<int64_t, int64_t>> queries, keys;
  for (const AttentionSegment& s : args.forward.segments) {
    queries.push_back({s.query_row, s.query_row + s.query_rows});
    keys.push_back({s.key_row, s.key_row + s.key_rows});
  }
  if (!args.accumulate_dq) clear_uncovered(args.dq, queries);
  if (!args.accumulate_dk) clear_uncovered(args.dk, keys);
  if (!args.accumulate_dv) clear_uncovered(args.dv, keys);
  const AttentionPlan plan(args);
  run_kernel<AttentionCall>("attention_grad", args.forward.q.is_meta(),
                            {LITHE_TILE_LIST(attention_tiles_backward, refuse_tiles),
                             LITHE_CPU_LIST(attention_backward, refuse),
                             {"ref", Isa::generic, nullptr, run_reference_grad}},
                            plan.call());
}

}  // namespace lithe::kernels
