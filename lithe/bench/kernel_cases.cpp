#include <cmath>
#include <memory>

#include "lithe/base/threads.h"
#include "lithe/bench/bench.h"
#include "lithe/kernels/attention/attention.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/hadamard/hadamard.h"
#include "lithe/kernels/norm/norm.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/quantized_product/quantized_product.h"
#include "lithe/kernels/rope/rope.h"
#include "lithe/kernels/taylor_attention/taylor_attention.h"

namespace lithe::bench {
namespace {

using kernels::Activation;
using kernels::activation;
using kernels::activation_grad;
using kernels::ActivationArgs;
using kernels::ActivationGradArgs;
using kernels::adamw;
using kernels::AdamWArgs;
using kernels::add;
using kernels::AddArgs;
using kernels::AttentionArgs;
using kernels::AttentionGradArgs;
using kernels::Cost;
using kernels::cross_entropy;
using kernels::CrossEntropyArgs;
using kernels::cumulative_softmax;
using kernels::CumulativeSoftmaxArgs;
using kernels::gated;
using kernels::GatedArgs;
using kernels::gather;
using kernels::GatherArgs;
using kernels::GemmArgs;
using kernels::hadamard;
using kernels::HadamardArgs;
using kernels::norm;
using kernels::norm_grad;
using kernels::NormArgs;
using kernels::NormGradArgs;
using kernels::NormKind;
using kernels::PackedFormat;
using kernels::PackedMatrix;
using kernels::QuantizedProductArgs;
using kernels::QuantizedTensors;
using kernels::rope;
using kernels::RopeArgs;
using kernels::scatter_add;
using kernels::ScatterAddArgs;
using kernels::softmax;
using kernels::SoftmaxArgs;
using kernels::TaylorArgs;
using kernels::TaylorKind;

// Rows of the kernels that pass over memory: 64 MiB in f32, beyond most caches.
constexpr int64_t kRows = 8192, kColumns = 2048;
constexpr int64_t kWeights = int64_t(96) << 20;  // bytes of weights that products of few rows take in turn

Tensor filled(Shape shape, DType type) {
  const Tensor x = empty(shape, type);
  const auto number = [](int64_t i) { return (uint64_t(i) * 0x9e3779b97f4a7c15u) >> 40; };  // below 2^24
  parallel_for(x.numel(), 1 << 16, [&](int64_t begin, int64_t end, int) {
    if (type == DType::u8 || type == DType::i8)
      for (int64_t i = begin; i < end; ++i) static_cast<int8_t*>(x.raw())[i] = int8_t(int(number(i) % 255) - 127);
    else
      dispatch_float(type, [&]<class T>() {
        T* data = x.data<T>();
        for (int64_t i = begin; i < end; ++i) data[i] = T(float(number(i)) * 0x1p-24f - 0.5f);
      });
  });
  return x;
}

Tensor ids_below(int64_t count, int64_t bound) {
  const Tensor ids = empty({count}, DType::i32);
  for (int64_t i = 0; i < count; ++i) ids.data<int32_t>()[i] = int32_t(i * 7919 % bound);
  return ids;
}

// The same data serve all kernels of a type: `x` and `u` are only read, `y` and `z` only written, whatever stands in
// them.
struct Data {
  DType type;
  Tensor x, u, y, z, vector, vector_grad, row_numbers, row_scales, ids;
  explicit Data(DType t) : type(t) {
    x = filled({kRows, kColumns}, t), u = filled({kRows, kColumns}, t);
    y = zeros({kRows, kColumns}, t), z = zeros({kRows, kColumns}, t);
    vector = filled({kColumns}, DType::f32), vector_grad = zeros({kColumns}, DType::f32);
    row_numbers = zeros({kRows}, DType::f32), row_scales = filled({kRows}, DType::f32);
    ids = ids_below(kRows, kRows);
  }
  // The first numbers of one of them in another shape.
  Tensor part(const Tensor& all, Shape shape) const {
    return all.reshape({all.numel()}).slice(0, shape.numel()).reshape(shape);
  }
};

class Builder {
 public:
  Builder(const Ceilings& ceilings, std::vector<Case>& out) : ceilings_(ceilings), out_(out) {}

  /// A kernel whose data come from memory and go there: bound by copying where it writes a third or more. cost() counts
  /// each operand once; those in `updated` are read and written, so they pass twice.
  template <class Args, class Kernel>
  void pass(const std::string& name, DType type, Ceiling memory, Kernel kernel, const Args& args,
            const std::vector<Tensor>& updated = {}) {
    Cost moved = cost(args);
    for (const Tensor& t : updated) moved.bytes += double(t.bytes());
    add(cat(name, " ", type), moved, Ceiling::f32, memory, [=] { kernel(args); });
  }
  void add(const std::string& name, Cost cost, Ceiling compute, Ceiling memory, std::function<void()> run) {
    Measurement m{.group = "kernel", .name = name, .cost = cost};
    m.compute = ceilings_.best(compute), m.memory = memory;
    out_.push_back({.what = std::move(m), .run = std::move(run)});
  }

 private:
  const Ceilings& ceilings_;
  std::vector<Case>& out_;
};

Ceiling products_of(DType type) { return type == DType::bf16 ? Ceiling::bf16 : Ceiling::f32; }

void add_products(Builder& b, const Data& d) {
  struct Sizes {
    int64_t M, K, N;
  };
  for (const Sizes s : {Sizes{1024, 1024, 1024}, {2048, 768, 3072}, {512, 512, 8192}, {16384, 256, 256}}) {
    const GemmArgs args{.a = d.part(d.x, {s.M, s.K}), .b = d.part(d.u, {s.K, s.N}), .c = d.part(d.y, {s.M, s.N})};
    b.add(cat("gemm ", s.M, "x", s.K, "x", s.N, " ", d.type), cost(args), products_of(d.type), Ceiling::read,
          [=] { gemm(args); });
  }
  const GemmArgs gradient{.a = d.part(d.x, {2048, 768}),
                          .b = d.part(d.u, {2048, 3072}),
                          .c = zeros({768, 3072}, DType::f32),
                          .transpose_a = true};
  b.add(cat("gemm of a gradient ", d.type), cost(gradient), products_of(d.type), Ceiling::read,
        [=] { gemm(gradient); });
  // Few rows, the weights packed as in generation: they come from memory, and their bytes are what counts.
  constexpr int64_t K = 2048, N = 4096;
  PackedMatrix shape{.format = d.type == DType::bf16 ? PackedFormat::bf16 : PackedFormat::f32,
                     .outputs = N,
                     .inputs = K,
                     .by_rows = false,
                     .name = "weights"};
  const auto weights = std::make_shared<std::vector<PackedMatrix>>();
  for (const Tensor& all : {d.x, d.u})
    for (int64_t i = 0; i + K * N <= all.numel(); i += K * N) {
      weights->push_back(shape);
      weights->back().data = all.reshape({all.numel()}).slice(i, i + K * N);
    }
  for (const int64_t rows : {1, 8}) {
    GemmArgs args{
        .a = d.part(d.u, {rows, K}), .c = zeros({rows, N}, d.type), .rowwise = true, .packed = &weights->front()};
    b.add(cat("gemm ", rows, "x", K, "x", N, " ", d.type), cost(args), products_of(d.type), Ceiling::read,
          [=, next = size_t(0)]() mutable {
            args.packed = &(*weights)[next++ % weights->size()];
            gemm(args);
          });
  }
}

void add_integer_products(Builder& b) {
  constexpr int64_t K = 2048, N = 8192;
  for (const PackedFormat format : {PackedFormat::int8, PackedFormat::int4}) {
    PackedMatrix m;
    m.format = format, m.outputs = N, m.inputs = K, m.group = format == PackedFormat::int4 ? 32 : 0, m.name = "weights";
    pack(m, m.group ? QuantizedTensors{filled({N, K / 2}, DType::u8), filled({N, K / m.group}, DType::bf16)}
                    : QuantizedTensors{filled({N, K}, DType::i8), filled({N}, DType::f32)});
    const auto matrices = std::make_shared<std::vector<PackedMatrix>>();
    for (int64_t bytes = 0; bytes < kWeights; bytes += m.bytes()) {
      matrices->push_back(m);
      if (bytes) matrices->back().data = clone(m.data);
    }
    for (const int64_t rows : {1, 8, 512}) {
      QuantizedProductArgs args{
          .x = filled({rows, K}, DType::f32), .w = &(*matrices)[0], .y = zeros({rows, N}, DType::f32)};
      b.add(cat("product ", rows, "x", K, "x", N, " ", name_of(format)), cost(args), Ceiling::int8, Ceiling::read,
            [=, next = size_t(0)]() mutable {
              args.w = &(*matrices)[next++ % matrices->size()];
              quantized_product(args);
            });
    }
  }
}

void add_attention(Builder& b, const Data& d) {
  constexpr int64_t batch = 4, length = 512, heads = 12, size = 64, rows = batch * length, columns = heads * size;
  AttentionGradArgs g;
  AttentionArgs& a = g.forward;
  a.q = d.part(d.x, {rows, columns}), a.k = d.part(d.u, {rows, columns});
  a.v = d.x.reshape({d.x.numel()}).slice(rows * columns, 2 * rows * columns).reshape({rows, columns});
  a.out = empty({rows, columns}, d.type), a.lse = empty({rows, heads}, DType::f32);
  a.heads = a.kv_heads = heads, a.head_dim = a.value_dim = size, a.scale = 1 / std::sqrt(double(size));
  a.mask.causal = true;
  for (int64_t i = 0; i < batch; ++i) a.segments.push_back({i * length, length, i * length, length, {}, {}});
  g.dout = a.v;
  for (Tensor* t : {&g.dq, &g.dk, &g.dv}) *t = empty({rows, columns}, d.type);
  const std::string sizes = cat(" ", batch, "x", length, " ", d.type);
  b.add("attention" + sizes, cost(a), products_of(d.type), Ceiling::read, [a] { attention(a); });
  b.add("attention backward" + sizes, cost(g), products_of(d.type), Ceiling::read, [g] { attention_grad(g); });
  attention(a);

  AttentionArgs one;  // a token of each of 8 sequences, after 2048
  one.heads = 16, one.kv_heads = 16, one.head_dim = one.value_dim = 64, one.scale = 0.125, one.mask.causal = true;
  constexpr int64_t past = 2048, width = 16 * 64;
  const Shape cache{kRows * kColumns / width, width};
  const Tensor keys = d.x.reshape(cache), values = d.u.reshape(cache);
  for (int64_t i = 0; i < cache[0] / past; ++i)
    one.segments.push_back(
        {i, 1, 0, past, keys.slice(i * past, (i + 1) * past), values.slice(i * past, (i + 1) * past)});
  const int64_t sequences = int64_t(one.segments.size());
  one.q = d.part(d.x, {sequences, width}), one.out = empty({sequences, width}, d.type);
  b.add(cat("attention decode ", sequences, "x", past, " ", d.type), cost(one), products_of(d.type), Ceiling::read,
        [one] { attention(one); });
}

void add_rows(Builder& b, const Data& d) {
  const Ceiling copy = Ceiling::copy;
  const auto pass = [&](const char* name, auto kernel, const auto& args, const std::vector<Tensor>& updated = {}) {
    b.pass(name, d.type, copy, kernel, args, updated);
  };
  pass("rms norm", norm,
       NormArgs{.kind = NormKind::rms, .x = d.x, .weight = d.vector, .y = d.y, .scale = d.row_numbers});
  pass("layer norm", norm,
       NormArgs{.kind = NormKind::layer_variance, .x = d.x, .weight = d.vector, .bias = d.vector, .y = d.y});
  pass("rms norm backward", norm_grad,
       NormGradArgs{.kind = NormKind::rms,
                    .x = d.x,
                    .weight = d.vector,
                    .scale = d.row_scales,
                    .dy = d.u,
                    .dx = d.z,
                    .dweight = d.vector_grad});
  pass("gelu", activation, ActivationArgs{.kind = Activation::gelu, .x = d.x, .y = d.y});
  pass("gelu backward", activation_grad, ActivationGradArgs{.kind = Activation::gelu, .x = d.x, .dy = d.u, .dx = d.z});
  pass("swiglu", gated, GatedArgs{.kind = Activation::silu, .gate = d.x, .up = d.u, .y = d.y});
  pass("add", add, AddArgs{.a = d.x, .b = d.u, .out = d.y});
  pass("softmax", softmax, SoftmaxArgs{.x = d.x, .y = d.y});
  pass("cross-entropy", cross_entropy,
       CrossEntropyArgs{.logits = d.y,
                        .labels = ids_below(kRows, kColumns),
                        .losses = d.row_numbers,
                        .gradient_scale = 1e-3,
                        .gradient = true},
       {d.y});
  pass("gather", gather, GatherArgs{.table = d.x, .ids = d.ids, .out = d.y});
  pass("hadamard", hadamard,
       HadamardArgs{
           .x = d.x, .alpha = d.vector, .out = d.y, .order = kColumns, .scale = 1 / std::sqrt(double(kColumns))});
  pass("rope", rope, RopeArgs{.x = d.x, .positions = d.ids, .out = d.y, .head_dim = 64});

  constexpr int64_t length = 1024, heads = 16;
  CumulativeSoftmaxArgs mean{.s = filled({kRows, heads}, DType::f32), .v = d.x, .out = d.y};
  for (int64_t row = 0; row < kRows; row += length) mean.segments.push_back({row, length, {}});
  pass("scan cumulative", cumulative_softmax, mean);

  constexpr int64_t rows = 2048, columns = 512, size = 32;
  TaylorArgs taylor{.kind = TaylorKind::diag,
                    .q = d.part(d.x, {rows, columns}),
                    .k = d.part(d.u, {rows, columns}),
                    .v = d.part(d.x, {rows, columns}),
                    .out = d.part(d.y, {rows, columns}),
                    .sums = zeros({rows, columns / size}, DType::f32)};
  taylor.heads = columns / size, taylor.head_dim = taylor.value_dim = size, taylor.scale = 1 / std::sqrt(double(size));
  for (int64_t row = 0; row < rows; row += 512) taylor.segments.push_back({row, 512, 0, {}});
  b.add(cat("scan taylor 4x512 ", d.type), cost(taylor), Ceiling::f32, Ceiling::read,
        [taylor] { taylor_attention(taylor); });
}

// What exists in f32 alone.
void add_training(Builder& b, const Data& d) {
  b.pass("scatter", DType::f32, Ceiling::copy, scatter_add, ScatterAddArgs{.dout = d.x, .ids = d.ids, .dtable = d.z},
         {d.z});
  const Shape shape{int64_t(1) << 22};
  AdamWArgs adam{.param = filled(shape, DType::f32),
                 .gradient = d.part(d.x, shape),
                 .m = zeros(shape, DType::f32),
                 .v = zeros(shape, DType::f32),
                 .lr = 1e-6};
  const std::vector<Tensor> updated{adam.param, adam.m, adam.v};
  b.pass("adamw", DType::f32, Ceiling::copy, adamw, adam, updated);
  adam.shadow = zeros(shape, DType::bf16);
  b.pass("adamw with bf16 copy", DType::f32, Ceiling::copy, adamw, adam, updated);
}

}  // namespace

std::vector<Case> kernel_cases(const std::vector<DType>& dtypes, const Ceilings& ceilings) {
  const MemoryScope memory(MemoryClass::workspace);
  std::vector<Case> out;
  Builder b(ceilings, out);
  for (const DType type : dtypes) {
    const Data data(type);
    add_products(b, data);
    add_attention(b, data);
    add_rows(b, data);
    if (type == DType::f32) add_training(b, data);
  }
  add_integer_products(b);
  return out;
}

}  // namespace lithe::bench
