// Attention: GFLOP/s of the forward and backward pass (visible pairs only) beside a naive composition,
// and GB/s of decoding beside a plain read of the same memory.
// attention_bench [rounds] [forward|backward|decode]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/attention/attention.h"
#include "lithe/kernels/gemm/gemm.h"

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

  Problem(int64_t batch, int64_t length, int64_t heads, int64_t head_dim, DType dtype)
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
    for (int64_t b = 0; b < batch; ++b) a.segments.push_back({b * length, length, b * length, length, {}, {}});
    grad.dout = randn({rows, cols}, dtype, 4);
    grad.dq = empty({rows, cols}, dtype);
    grad.dk = empty({rows, cols}, dtype);
    grad.dv = empty({rows, cols}, dtype);
    attention(a);
  }
  std::string name(const char* what) const {
    return cat(what, " ", dtype, " B", batch, " T", length, " h", heads, " d", head_dim);
  }
};

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
        out.pages.push_back(zeros({std::min(page_rows, past - at), kv_heads * head_dim}, cached));
        if (cached == DType::i8) out.scales.push_back(zeros({out.pages.back().dim(0), kv_heads}, DType::f32));
        bytes += double(out.pages.back().bytes() + (cached == DType::i8 ? out.scales.back().bytes() : 0));
      }
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

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 9;
  const std::string only = count > 2 ? words[2] : "";
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
