// Attention: GFLOP/s of the forward and backward pass (visible pairs only) beside a naive composition,
// and GB/s of decoding beside a plain read of the same memory.
// bias: the same attention with biases by distance, and what each costs. pattern: T 8192 with windows, by mask and by
// tiles, in GFLOP/s of the tiles that are visited, whole ones. field: one sequence of T tokens with a causal window, 8
// heads of 64, in a process of its own, as a line of key=value pairs (for bench/peers/fields.sh).
// attention_bench [rounds] [forward|backward|decode|bias|pattern]
// attention_bench REPEATS field train|forward f32|bf16 T WINDOW
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "lithe/base/machine.h"
#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/attention/attention.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/int4_rows/int4_rows.h"

namespace {

using namespace lithe;  // a program, not a library
using namespace lithe::bench;
using namespace lithe::kernels;

Tensor randn(Shape shape, DType dtype, uint32_t purpose) {
  Tensor x = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, random_normal({.seed = 1, .purpose = purpose}, uint64_t(i)));
  return x;
}

/// What is timed, and what its time is divided into.
struct Case {
  std::string name;
  double amount;  // FLOPs or bytes of one run
  const char* unit;
  std::function<void()> run;
  std::vector<double> seconds;
};

struct Problem {
  int64_t batch, length, heads, head_dim;
  DType dtype;
  AttentionGradArgs grad;

  Problem(int64_t batch, int64_t length, int64_t heads, int64_t head_dim, DType dtype, int64_t window = 0,
          bool backward = true)
      : batch(batch), length(length), heads(heads), head_dim(head_dim), dtype(dtype) {
    const int64_t rows = batch * length, cols = heads * head_dim;
    AttentionArgs& a = grad.forward;
    a.q = randn({rows, cols}, dtype, 1);
    a.k = randn({rows, cols}, dtype, 2);
    a.v = randn({rows, cols}, dtype, 3);
    a.out = empty({rows, cols}, dtype);
    a.lse = empty({rows, heads}, DType::f32);
    a.heads = a.kv_heads = heads;
    a.head_dim = a.value_dim = head_dim;
    a.scale = 1 / std::sqrt(double(head_dim));
    a.mask.causal = true;
    a.mask.window = window;
    for (int64_t b = 0; b < batch; ++b) a.segments.push_back({b * length, length, b * length, length, {}, {}});
    attention(a);
    if (!backward) return;
    grad.dout = randn({rows, cols}, dtype, 4);
    grad.dq = empty({rows, cols}, dtype);
    grad.dk = empty({rows, cols}, dtype);
    grad.dv = empty({rows, cols}, dtype);
  }
  std::string name(const char* what) const {
    return cat(what, " ", dtype, " B", batch, " T", length, " h", heads, " d", head_dim);
  }
};

/// Numbers of a bias, small ones.
Tensor small(Shape shape, uint32_t purpose) {
  Tensor x = randn(shape, DType::f32, purpose);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, 0.1 * std::abs(value_at(x, i)));
  return x;
}

/// Adds a bias, with its gradient.
void add_bias(AttentionGradArgs& g, const std::string& kind) {
  AttentionArgs& a = g.forward;
  AttentionBias& b = a.bias;
  const int64_t N = a.q.dim(0), h = a.heads;
  if (kind == "table 129") b.table = small({129, h}, 5), g.dtable = zeros(b.table.shape(), DType::f32);
  if (kind == "slopes") b.rates = small({1, h}, 6);
  if (kind == "slopes, learned") b.rates = small({1, h}, 6), g.drates = zeros({1, h}, DType::f32);
  if (kind == "Gaussian by query") {
    b.rates = small({N, h}, 6), b.centres = small({N, h}, 7), b.squared = true;
    g.drates = zeros({N, h}, DType::f32), g.dcentres = zeros({N, h}, DType::f32);
  }
  if (kind == "Shaw 16" || kind == "Shaw 16, values")
    b.rows = small({N, h * 17}, 8), g.drows = zeros(b.rows.shape(), DType::f32);
  if (kind == "Shaw 16, values") a.shares = zeros({N, h * 17}, DType::f32), g.dshares = small({N, h * 17}, 9);
}

/// Tiles that a causal window visits, as a list that all heads share.
std::shared_ptr<const TileMask> window_tiles(const AttentionArgs& a, int64_t window) {
  auto v = std::make_shared<TileMask::Visits>();
  const int64_t T = a.segments[0].query_rows;
  v->first = {0};
  for (int64_t first = 0; first < T; first += TileMask::kQueries) {
    const int64_t last = std::min(first + TileMask::kQueries, T) - 1;
    for (int64_t t = std::max<int64_t>(0, first - window + 1) / TileMask::kKeys; t <= last / TileMask::kKeys; ++t) {
      TileMask::Rule rule{};
      for (int64_t j = 0; j < TileMask::kKeys; ++j)
        for (int64_t i = 0; i < TileMask::kQueries; ++i)
          rule[size_t(j)] |= uint32_t(t * TileMask::kKeys + j > first + i - window) << i;
      v->keys.push_back(int32_t(t));
      const bool whole = t * TileMask::kKeys > last - window;
      v->rule.push_back(whole ? -1 : int32_t(v->rules.size()));
      if (!whole) v->rules.push_back(rule);
    }
    v->first.push_back(int32_t(v->keys.size()));
  }
  auto tiles = std::make_shared<TileMask>();
  tiles->visits.assign(a.segments.size() * size_t(a.heads), v);
  return tiles;
}

/// The composition that the kernel replaces: per head, products over all pairs by gemm and a softmax over
/// the stored map.
void composed(const Problem& p) {
  const AttentionArgs& a = p.grad.forward;
  const int64_t T = p.length, d = p.head_dim;
  thread_local Tensor q, k, v, map, out;
  if (!q || q.dim(0) != T || q.dim(1) != d) {
    q = empty({T, d}, DType::f32), k = empty({T, d}, DType::f32), v = empty({T, d}, DType::f32);
    map = empty({T, T}, DType::f32), out = empty({T, d}, DType::f32);
  }
  const auto head_of = [&](const Tensor& from, const Tensor& to, int64_t b, int64_t h, bool back) {
    for (int64_t t = 0; t < T; ++t) {
      float* all = from.data<float>() + ((b * T + t) * p.heads + h) * d;
      float* one = to.data<float>() + t * d;
      std::memcpy(back ? all : one, back ? one : all, size_t(d) * sizeof(float));
    }
  };
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h) {
      head_of(a.q, q, b, h, false), head_of(a.k, k, b, h, false), head_of(a.v, v, b, h, false);
      gemm({.a = q, .b = k, .c = map, .transpose_b = true});
      float* m = map.data<float>();
      const float scale = float(a.scale);
      parallel_for(T, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          float* row = m + i * T;
          float most = row[0] * scale, sum = 0;
          for (int64_t j = 0; j <= i; ++j) most = std::max(most, row[j] * scale);
          for (int64_t j = 0; j <= i; ++j) sum += row[j] = std::exp(row[j] * scale - most);
          for (int64_t j = 0; j <= i; ++j) row[j] /= sum;
          for (int64_t j = i + 1; j < T; ++j) row[j] = 0;
        }
      });
      gemm({.a = map, .b = v, .c = out});
      head_of(a.out, out, b, h, true);
    }
}

/// One token of `batch` sequences with `past` keys each.
struct Decode {
  AttentionArgs args;
  double bytes = 0;
  Decode(int64_t batch, int64_t past, int64_t heads, int64_t kv_heads, int64_t head_dim, DType dtype, DType cached,
         int64_t page_rows) {
    const auto pages = [&] {
      PagedRows out;
      for (int64_t at = 0; at < past; at += page_rows) {
        const Int4Rows int4{kv_heads, head_dim};
        const int64_t rows = std::min(page_rows, past - at);
        out.pages.push_back(zeros({rows, cached == DType::u8 ? int4.bytes() : kv_heads * head_dim}, cached));
        if (cached == DType::i8) out.scales.push_back(zeros({rows, kv_heads}, DType::f32));
        if (cached == DType::u8) out.scales.push_back(zeros({rows, int4.scales()}, DType::bf16));
        bytes += double(out.pages.back().bytes() + (out.scales.empty() ? 0 : out.scales.back().bytes()));
      }
      if (cached == DType::u8) out.width = kv_heads * head_dim;
      return out;
    };
    args.q = randn({batch, heads * head_dim}, dtype, 1);
    args.out = empty({batch, heads * head_dim}, dtype);
    args.heads = heads, args.kv_heads = kv_heads, args.head_dim = args.value_dim = head_dim;
    args.scale = 1 / std::sqrt(double(head_dim));
    args.mask.causal = true;
    for (int64_t b = 0; b < batch; ++b) {
      const PagedRows keys = pages();
      args.segments.push_back({b, 1, 0, past, keys, pages()});
    }
  }
  /// Reads the same memory with all threads: the ceiling.
  void probe() const {
    for (const AttentionSegment& s : args.segments)
      for (const PagedRows* rows : {&s.keys, &s.values})
        for (const Tensor& t : rows->pages) {
          const auto* p = static_cast<const uint64_t*>(t.raw());
          parallel_for(t.bytes() / 8, 1 << 13, [&](int64_t begin, int64_t end, int) {
            uint64_t sum[16] = {};
            for (int64_t i = begin; i + 16 <= end; i += 16)
              for (int u = 0; u < 16; ++u) sum[u] += p[i + u];
            for (uint64_t x : sum) sink = sink + x;
          });
        }
  }
  static inline thread_local volatile uint64_t sink = 0;
};

int field(int repeats, bool backward, DType dtype, int64_t length, int64_t window) {
  const double at_start = double(peak_resident_bytes());
  Problem p(1, length, 8, 64, dtype, window, backward);
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const double start = now();
    attention(p.grad.forward);
    if (backward) attention_grad(p.grad);
    if (i > 0) times.push_back(now() - start);  // the first is a warm-up
  }
  const double middle = median(times), best = *std::min_element(times.begin(), times.end());
  const double peak = double(peak_resident_bytes()), mb = 1 << 20;
  std::printf(
      "lithe case=core pass=%s dtype=%s T=%ld window=%ld threads=%d tok/s=%.1f ms=%.2f min=%.2f peakRSS_MB=%.0f "
      "grownRSS_MB=%.0f\n",
      backward ? "train" : "forward", name_of(dtype), long(length), long(window), threads(), double(length) / middle,
      1e3 * middle, 1e3 * best, peak / mb, (peak - at_start) / mb);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 9;
  const std::string only = count > 2 ? words[2] : "";
  if (only == "field") {
    const std::string which = count > 6 ? words[3] : "", type = count > 6 ? words[4] : "";
    const int64_t length = count > 6 ? std::atoll(words[5]) : 0, window = count > 6 ? std::atoll(words[6]) : 0;
    if ((which != "train" && which != "forward") || (type != "f32" && type != "bf16") || length < 1 || window < 1 ||
        rounds < 1) {
      std::fprintf(stderr, "usage: attention_bench REPEATS field train|forward f32|bf16 T WINDOW\n");
      return 2;
    }
    return field(rounds, which == "train", type == "f32" ? DType::f32 : DType::bf16, length, window);
  }
  std::vector<Case> cases;
  std::vector<std::shared_ptr<void>> keep;
  const auto wanted = [&](const char* what) { return only.empty() || only == what; };
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t head_dim : {64, 32})
      for (int64_t length : {256, 512, 1024}) {
        if (!wanted("forward") && !wanted("backward")) break;
        const auto p = std::make_shared<Problem>(2048 / length, length, 8, head_dim, dtype);
        keep.push_back(p);
        if (wanted("forward"))
          cases.push_back(
              {p->name("forward "), cost(p->grad.forward).flops, "GFLOP/s", [p] { attention(p->grad.forward); }, {}});
        if (wanted("forward") && dtype == DType::f32 && length == 512)
          cases.push_back({p->name("composed"), cost(p->grad.forward).flops, "GFLOP/s", [p] { composed(*p); }, {}});
        if (wanted("backward"))
          cases.push_back({p->name("backward"), cost(p->grad).flops, "GFLOP/s", [p] { attention_grad(p->grad); }, {}});
      }
  const auto both = [&](const std::string& name, const std::shared_ptr<Problem>& p, double pairs) {
    keep.push_back(p);
    const double d = double(p->head_dim);
    cases.push_back({"forward  " + name, 4 * d * pairs, "GFLOP/s", [p] { attention(p->grad.forward); }, {}});
    cases.push_back({"backward " + name, 10 * d * pairs, "GFLOP/s", [p] { attention_grad(p->grad); }, {}});
  };
  if (only == "bias")
    for (DType dtype : {DType::f32, DType::bf16})
      for (const char* kind :
           {"plain", "slopes", "slopes, learned", "table 129", "Shaw 16", "Shaw 16, values", "Gaussian by query"}) {
        const auto p = std::make_shared<Problem>(2, 1024, 8, 64, dtype);
        add_bias(p->grad, kind);
        attention(p->grad.forward);
        both(cat(dtype, " T1024 d64 ", kind), p, cost(p->grad.forward).flops / (4 * 64));
      }
  if (only == "pattern")
    for (DType dtype : {DType::f32, DType::bf16})
      for (const char* kind : {"full", "window 256", "window 256 by tiles"}) {
        const auto p = std::make_shared<Problem>(1, 8192, 8, 64, dtype);
        AttentionArgs& a = p->grad.forward;
        const int64_t window = std::string(kind) == "full" ? 8192 : 256;
        const auto tiles = window_tiles(a, window);
        if (std::string(kind) == "window 256") a.mask.window = 256;
        if (std::string(kind) == "window 256 by tiles") a.tiles = tiles;
        attention(a);
        both(cat(dtype, " T8192 d64 ", kind), p, double(tiles->visits[0]->keys.size()) * 8 * 32 * 64);
      }
  struct Shape4 {
    int64_t batch, past, heads, kv_heads, head_dim;
  };
  if (wanted("decode"))
    for (const Shape4& s : {Shape4{1, 8192, 12, 12, 64}, Shape4{16, 512, 12, 12, 64}, Shape4{1, 16384, 32, 8, 128},
                            Shape4{8, 1024, 8, 1, 64}})
      for (DType dtype : {DType::f32, DType::bf16}) {
        const std::string name =
            cat(dtype, " B", s.batch, " S", s.past, " h", s.heads, "/", s.kv_heads, " d", s.head_dim);
        const auto add = [&](const std::string& what, DType cached, int64_t page_rows) {
          const auto d =
              std::make_shared<Decode>(s.batch, s.past, s.heads, s.kv_heads, s.head_dim, dtype, cached, page_rows);
          keep.push_back(d);
          cases.push_back({what + name, d->bytes, "GB/s", [d] { attention(d->args); }, {}});
          return d;
        };
        const auto d = add("decode   ", dtype, s.past);
        add("in pages ", dtype, kPageRows);
        add("of int8  ", DType::i8, kPageRows);
        add("of int4  ", DType::u8, kPageRows);
        cases.push_back({"read     " + name, d->bytes, "GB/s", [d] { d->probe(); }, {}});
      }
  for (int round = -1; round < rounds; ++round)
    for (Case& c : cases) {
      const double start = now();
      c.run();
      if (round >= 0) c.seconds.push_back(now() - start);
    }
  std::printf("threads %d, %s, %d interleaved rounds\n%-40s %10s %10s  unit\n", threads(), name_of(usable_isa()),
              rounds, "case", "median", "best");
  for (const Case& c : cases)
    std::printf("%-40s %10.1f %10.1f  %s\n", c.name.c_str(), c.amount / median(c.seconds) / 1e9,
                c.amount / *std::min_element(c.seconds.begin(), c.seconds.end()) / 1e9, c.unit);
}
