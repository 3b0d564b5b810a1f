#include "lithe/kernels/cases.h"
#include "lithe/kernels/attention/attention.h"

namespace lithe::kernels {
namespace {

void add_whole(KernelCases& c) {
  constexpr int64_t batch = 4, length = 512, heads = 12, size = 64, rows = batch * length, columns = heads * size;
  AttentionGradArgs g;
  AttentionArgs& a = g.forward;
  a.q = c.part(c.x, {rows, columns}), a.k = c.part(c.u, {rows, columns});
  a.v = c.x.reshape({c.x.numel()}).slice(rows * columns, 2 * rows * columns).reshape({rows, columns});
  a.out = empty({rows, columns}, c.type, c.device), a.lse = empty({rows, heads}, DType::f32, c.device);
  a.heads = a.kv_heads = heads, a.head_dim = a.value_dim = size, a.scale = 1 / std::sqrt(double(size));
  a.mask.causal = true;
  for (int64_t i = 0; i < batch; ++i) a.segments.push_back({i * length, length, i * length, length, {}, {}});
  g.dout = a.v;
  for (Tensor* t : {&g.dq, &g.dk, &g.dv}) *t = empty({rows, columns}, c.type, c.device);
  const std::string sizes = cat(" ", batch, "x", length, " ", c.type);
  c.add("attention" + sizes, cost(a), Compute::products, Traffic::read, [a] { attention(a); });
  c.add("attention backward" + sizes, cost(g), Compute::products, Traffic::read, [g] { attention_grad(g); });
  attention(a);
}

// A token of each of 8 sequences, after 2048.
void add_decoding(KernelCases& c) {
  AttentionArgs one;
  one.heads = 16, one.kv_heads = 16, one.head_dim = one.value_dim = 64, one.scale = 0.125, one.mask.causal = true;
  constexpr int64_t past = 2048, width = 16 * 64;
  const Shape cache{KernelCases::rows * KernelCases::columns / width, width};
  const Tensor keys = c.x.reshape(cache), values = c.u.reshape(cache);
  for (int64_t i = 0; i < cache[0] / past; ++i)
    one.segments.push_back(
        {i, 1, 0, past, keys.slice(i * past, (i + 1) * past), values.slice(i * past, (i + 1) * past)});
  const int64_t sequences = int64_t(one.segments.size());
  one.q = c.part(c.x, {sequences, width}), one.out = empty({sequences, width}, c.type, c.device);
  c.add(cat("attention decode ", sequences, "x", past, " ", c.type), cost(one), Compute::products, Traffic::read,
        [one] { attention(one); });
}

}  // namespace

void add_cases_attention(KernelCases& c) {
  add_whole(c);
  add_decoding(c);
}

}  // namespace lithe::kernels
