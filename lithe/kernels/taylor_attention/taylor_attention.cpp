#include "lithe/kernels/taylor_attention/taylor_attention.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/kernels/attention/cpu.h"
#include "lithe/kernels/checks.h"
#include "lithe/kernels/taylor_attention/cpu.h"
#include "lithe/kernels/taylor_attention/reference.h"

namespace lithe::kernels {
namespace {

const char* name_of(TaylorKind kind) {
  static const char* names[] = {"full", "diag", "split"};
  return names[int(kind)];
}

void check_columns(const char* op, const Named& x, const TaylorArgs& a, Shape shape, DType type) {
  check(x.tensor && x.tensor.shape() == shape && x.tensor.dtype() == type, op, x.name, " must be ", type, shape, " of ",
        a.heads, " heads, got ", x.tensor);
}

// Ranges of rows, none in two of them. How many rows they have.
int64_t check_apart(const char* op, const char* rows_name, std::vector<std::pair<int64_t, int64_t>> covered) {
  int64_t rows = 0;
  std::sort(covered.begin(), covered.end());
  for (size_t i = 0; i < covered.size(); ++i) {
    rows += covered[i].second - covered[i].first;
    check(i == 0 || covered[i - 1].second <= covered[i].first, op, "two segments share ", rows_name, " ",
          covered[i].first);
  }
  return rows;
}

// The rows and the keys that the segments cover, each once.
std::pair<int64_t, int64_t> check_args(const char* op, const TaylorArgs& a) {
  check_rows(op, {"q", a.q});
  check(a.heads > 0 && a.head_dim > 0 && a.value_dim > 0, op, "heads, head_dim and value_dim must be positive, got ",
        a.heads, ", ", a.head_dim, " and ", a.value_dim);
  const DType type = a.q.dtype();
  check_rows(op, {"k", a.k});
  const bool own = std::all_of(a.segments.begin(), a.segments.end(), [](const auto& s) { return s.own_keys(); });
  const int64_t queries = a.q.rows(), keys = own ? queries : a.k.rows();
  check_columns(op, {"q", a.q}, a, {queries, a.heads * a.head_dim}, type);
  check_columns(op, {"k", a.k}, a, {keys, a.heads * a.head_dim}, type);
  check_columns(op, {"v", a.v}, a, {keys, a.heads * a.value_dim}, type);
  check_columns(op, {"out", a.out}, a, {queries, a.heads * a.value_dim}, type);
  check_columns(op, {"sums", a.sums}, a, {queries, a.heads * taylor_sums(a.kind)}, wide_of(type));
  check_alias(op, {"out", a.out}, {}, {{"q", a.q}, {"k", a.k}, {"v", a.v}});
  std::vector<std::pair<int64_t, int64_t>> rows, all_keys;
  for (const TaylorSegment& s : a.segments) {
    check(s.row >= 0 && s.rows >= 0 && s.row + s.rows <= a.q.rows(), op, "a segment has rows [", s.row, ",",
          s.row + s.rows, "), outside of q ", a.q.shape());
    check(s.past >= 0 && (s.state || s.past == 0), op, "a segment has ", s.past,
          " rows before it and no state of them");
    const int64_t key_end = s.first_key() + s.key_count();
    check(s.first_key() >= 0 && key_end <= keys, op, "a segment has keys [", s.first_key(), ",", key_end,
          "), outside of k ", a.k.shape());
    check(s.own_keys() || !a.causal, op, "keys of another text have no causal form");
    check(s.own_keys() || (s.state ? s.rows == 0 || s.keys == 0 : s.rows == 0 || s.keys > 0), op, "a segment has ",
          s.rows, " rows and ", s.keys, " keys of another text; ",
          s.state ? "with a state it has the ones or the others" : "without a state it needs keys");
    check(!s.state || s.own_keys() || s.rows == 0 || s.past > 0, op, "rows read a state of no keys");
    if (s.state) {
      const Shape wanted{a.heads, taylor_state(a.kind, a.head_dim, a.value_dim)};
      check(a.causal || !s.own_keys(), op, "a state continues causal sums only");
      check(s.state.shape() == wanted && s.state.dtype() == wide_of(type), op, "a state must be ", wide_of(type),
            wanted, " for ", name_of(a.kind), ", got ", s.state.dtype(), s.state.shape());
    }
    if (s.rows > 0) rows.push_back({s.row, s.row + s.rows});
    if (s.key_count() > 0) all_keys.push_back({s.first_key(), key_end});
  }
  return {check_apart(op, "row", std::move(rows)), check_apart(op, "key", std::move(all_keys))};
}

// Rows that a segment with a state takes at once: beyond these, reading the state costs less than more tiles.
int64_t chunk_of(const TaylorArgs& a) {
  return std::max<int64_t>(kBlock, (taylor_features(a.kind, a.head_dim) + kKeyTile - 1) / kKeyTile * kKeyTile);
}

/// Hands out parts of the workspace, whole cache lines.
struct Carver {
  int64_t floats = 0;
  int64_t take(int64_t n) {
    const int64_t at = floats;
    floats += (n + 15) / 16 * 16;
    return at;
  }
};

TaylorSpace lay_out(const TaylorArgs& a, bool gradient) {
  const auto line = [](int64_t n) { return (n + 15) / 16 * 16; };
  const int64_t qk = line(a.head_dim), vd = line(a.value_dim), squares = a.kind != TaylorKind::full;
  int64_t keys = kKeyTile;
  if (gradient)
    for (const TaylorSegment& s : a.segments) keys = std::max(keys, s.key_count());
  Carver c;
  TaylorSpace s{};
  s.q = c.take(a.head_dim * kPanel);
  s.q2 = c.take(squares * a.head_dim * kPanel);
  s.x = c.take(kKeyTile * kPanel);
  s.z = c.take(squares * kKeyTile * kPanel);
  s.g = c.take((gradient || a.kind == TaylorKind::split) * kKeyTile * kPanel);
  s.stats = c.take(6 * kPanel);
  s.k = c.take(keys * qk);
  s.k2 = c.take(squares * keys * qk);
  s.v = c.take(keys * vd);
  if (gradient) {
    s.dout = c.take(a.value_dim * kPanel);
    s.q_rows = c.take(kPanel * qk);
    s.q2_rows = c.take(squares * kPanel * qk);
    s.dout_rows = c.take(kPanel * vd);
    s.dq = c.take(a.head_dim * kPanel);
    s.dq2 = c.take(squares * a.head_dim * kPanel);
    s.dk = c.take(keys * qk);
    s.dk2 = c.take(squares * keys * qk);
    s.dv = c.take(keys * vd);
  } else {
    s.sums = c.take(taylor_sums(a.kind) * (a.value_dim + 1) * kPanel);
    s.features = c.take(kTaylorRows * line(taylor_features(a.kind, a.head_dim)));
    s.values = c.take(kTaylorRows * (a.value_dim + 1));
  }
  s.floats = c.floats;
  return s;
}

const char* refuse(const TaylorCall& call) { return call.dtype == DType::f64 ? "f64 runs on the reference" : nullptr; }
void reference(const TaylorCall& call) {
  dispatch_float(call.dtype, [&]<class T>() { ref::taylor_attention<T>(*call.args); });
}
void reference_grad(const TaylorCall& call) {
  dispatch_float(call.dtype, [&]<class T>() { ref::taylor_attention_grad<T>(*call.grad_args); });
}

void run(const char* op, const TaylorArgs& a, const TaylorGradArgs* g) {
  const auto at = [](const Tensor& x, int64_t row) -> void* {
    return x && x.raw() ? static_cast<char*>(x.raw()) + row * x.cols() * size_of(x.dtype()) : nullptr;
  };
  std::vector<TaylorSpan> spans;
  std::vector<TaylorTask> tasks;
  for (const TaylorSegment& s : a.segments)
    if (s.rows > 0 || s.key_count() > 0) {
      const int64_t key = s.first_key();
      spans.push_back({at(a.q, s.row), at(a.k, key), at(a.v, key), g ? at(g->dout, s.row) : nullptr, at(a.out, s.row),
                       g ? at(g->dq, s.row) : nullptr, g ? at(g->dk, key) : nullptr, g ? at(g->dv, key) : nullptr,
                       static_cast<float*>(at(a.sums, s.row)), static_cast<float*>(at(s.state, 0)), s.rows,
                       s.key_count(), s.past, s.own_keys()});
    }
  // A thread takes neighbours, and heads are of equal work where segments need not be.
  for (int64_t head = 0; head < a.heads; ++head)
    for (size_t i = 0; i < spans.size(); ++i) {
      const int64_t step = g || spans[i].state ? spans[i].rows : kBlock;
      if (spans[i].rows == 0) tasks.push_back({int64_t(i), head, 0, 0});
      for (int64_t begin = 0; begin < spans[i].rows; begin += step)
        tasks.push_back({int64_t(i), head, begin, std::min(begin + step, spans[i].rows)});
    }
  TaylorCall call{.args = &a,
                  .grad_args = g,
                  .kind = a.kind,
                  .dtype = a.q.dtype(),
                  .heads = a.heads,
                  .head_dim = a.head_dim,
                  .value_dim = a.value_dim,
                  .features = taylor_features(a.kind, a.head_dim),
                  .state_floats = taylor_state(a.kind, a.head_dim, a.value_dim),
                  .chunk = chunk_of(a),
                  .scale = float(a.scale),
                  .causal = a.causal,
                  .spans = spans.data(),
                  .tasks = tasks.data(),
                  .count = int64_t(tasks.size()),
                  .space = lay_out(a, g != nullptr),
                  .workspace = nullptr};
  // On meta tensors too, so that the planned peak is the real one.
  const MemoryScope scope(MemoryClass::workspace);
  const bool vectors = call.dtype != DType::f64 && !reference_only();
  const Tensor workspace = empty({vectors ? threads() * call.space.floats : 0}, DType::f32, a.q.device());
  call.workspace = static_cast<float*>(workspace.raw());
  if (g)
    run_kernel<TaylorCall>(op, a.q.is_meta(),
                           {LITHE_CPU_LIST(taylor_backward, refuse), {"ref", Isa::generic, nullptr, reference_grad}},
                           call);
  else
    run_kernel<TaylorCall>(op, a.q.is_meta(),
                           {LITHE_CPU_LIST(taylor_forward, refuse), {"ref", Isa::generic, nullptr, reference}}, call);
}

// Multiply-adds of a pair in one product of queries and keys, the squares' included; pairs of a head.
double pairs_of(const TaylorArgs& a) {
  double pairs = 0;
  for (const TaylorSegment& s : a.segments)
    for (int64_t from = 0, step = s.state ? chunk_of(a) : std::max<int64_t>(s.rows, 1); from < s.rows; from += step) {
      const double rows = double(std::min(step, s.rows - from));
      pairs += a.causal ? rows * (rows + 1) / 2 : rows * double(s.key_count());
    }
  return pairs;
}
double product_of(const TaylorArgs& a) { return double(a.head_dim) * (a.kind == TaylorKind::full ? 1 : 2); }

// Sums of weights below the floor; split fails where one is no divisor.
template <class W>
int64_t examine(const TaylorArgs& a) {
  const W* sums = a.sums.data<W>();
  const int64_t terms = taylor_sums(a.kind);
  int64_t below = 0;
  for (const TaylorSegment& s : a.segments)
    for (int64_t i = s.row * a.heads * terms; i < (s.row + s.rows) * a.heads * terms; ++i) {
      if (a.kind == TaylorKind::diag) below += sums[i] < W(kTaylorFloor);
      if (a.kind != TaylorKind::split || std::isnan(sums[i]) || std::isfinite(W(1) / sums[i])) continue;
      const int64_t order = i % terms, head = i / terms % a.heads, row = i / terms / a.heads;
      fail("taylor_attention", "the weights of order ", order, " of row ", row, ", head ", head, " sum to ",
           double(sums[i]), ", and split divides by that; use mode full, whose sums are at least 1/2 a token");
    }
  return below;
}

}  // namespace

// Pairs are weighed in tiles; a state is read and added to by every row.
Cost cost(const TaylorArgs& a) {
  double state_rows = 0, state_bytes = 0;
  for (const TaylorSegment& s : a.segments)
    if (s.state) {
      state_rows +=
          s.own_keys() ? double(s.rows) * (s.past > 0 || s.rows > chunk_of(a) ? 2 : 1) : double(s.rows + s.keys);
      state_bytes += 2 * double(s.state.bytes());
    }
  const double values = double(a.value_dim) * double(taylor_sums(a.kind));
  return {
      2 * double(a.heads) *
          (pairs_of(a) * (product_of(a) + values) + state_rows * double(taylor_state(a.kind, a.head_dim, a.value_dim))),
      bytes_of({a.q, a.k, a.v, a.out, a.sums}) + state_bytes};
}

// The products again (twice for split), dout . v, dv, and two for each product of queries and keys.
Cost cost(const TaylorGradArgs& g) {
  const TaylorArgs& a = g.forward;
  const double again = a.kind == TaylorKind::split ? 2 : 1;
  return {2 * double(a.heads) * pairs_of(a) * ((2 + again) * product_of(a) + (1 + again) * double(a.value_dim)),
          bytes_of({a.q, a.k, a.v, a.out, a.sums, g.dout, g.dq, g.dk, g.dv})};
}

static Cost cost(const TaylorCall& call) { return call.grad_args ? cost(*call.grad_args) : cost(*call.args); }

int64_t taylor_attention(const TaylorArgs& a) {
  const char* op = "taylor_attention";
  check_args(op, a);
  run(op, a, nullptr);
  if (a.kind == TaylorKind::full || a.q.is_meta()) return 0;
  return a.sums.dtype() == DType::f64 ? examine<double>(a) : examine<float>(a);
}

void taylor_attention_grad(const TaylorGradArgs& g) {
  const char* op = "taylor_attention_grad";
  const TaylorArgs& a = g.forward;
  const auto [rows, keys] = check_args(op, a);
  check(rows == a.q.rows() && keys == a.k.rows(), op, "the segments must cover all ", a.q.rows(), " rows of q and ",
        a.k.rows(), " of k, they cover ", rows, " and ", keys);
  for (const TaylorSegment& s : a.segments) check(!s.state, op, "rows that continue a state have no gradient");
  check_like(op, {"dout", g.dout}, {"out", a.out});
  check_like(op, {"dq", g.dq}, {"q", a.q});
  check_like(op, {"dk", g.dk}, {"k", a.k});
  check_like(op, {"dv", g.dv}, {"v", a.v});
  run(op, a, &g);
}

}  // namespace lithe::kernels
