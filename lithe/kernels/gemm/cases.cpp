#include "lithe/kernels/cases.h"
#include "lithe/kernels/gemm/gemm.h"

namespace lithe::kernels {
namespace {

struct Sizes {
  int64_t M, K, N;
};

// Few rows, the weights packed as in generation: they come from memory, and their bytes are what counts.
void add_packed(KernelCases& c) {
  constexpr int64_t K = 2048, N = 4096;
  PackedMatrix shape{.format = c.type == DType::bf16 ? PackedFormat::bf16 : PackedFormat::f32,
                     .outputs = N,
                     .inputs = K,
                     .by_rows = false,
                     .name = "weights"};
  const auto weights = std::make_shared<std::vector<PackedMatrix>>();
  for (const Tensor& all : {c.x, c.u})
    for (int64_t i = 0; i + K * N <= all.numel(); i += K * N) {
      weights->push_back(shape);
      weights->back().data = all.reshape({all.numel()}).slice(i, i + K * N);
    }
  for (const int64_t rows : {1, 8}) {
    GemmArgs args{
        .a = c.part(c.u, {rows, K}), .c = c.cleared({rows, N}, c.type), .rowwise = true, .packed = &weights->front()};
    c.add(cat("gemm ", rows, "x", K, "x", N, " ", c.type), cost(args), Compute::products, Traffic::read,
          [=, next = size_t(0)]() mutable {
            args.packed = &(*weights)[next++ % weights->size()];
            gemm(args);
          });
  }
}

}  // namespace

void add_cases_gemm(KernelCases& c) {
  for (const Sizes s : {Sizes{1024, 1024, 1024}, {2048, 768, 3072}, {512, 512, 8192}, {16384, 256, 256}}) {
    const GemmArgs args{.a = c.part(c.x, {s.M, s.K}), .b = c.part(c.u, {s.K, s.N}), .c = c.part(c.y, {s.M, s.N})};
    c.add(cat("gemm ", s.M, "x", s.K, "x", s.N, " ", c.type), cost(args), Compute::products, Traffic::read,
          [=] { gemm(args); });
  }
  const GemmArgs gradient{.a = c.part(c.x, {2048, 768}),
                          .b = c.part(c.u, {2048, 3072}),
                          .c = c.cleared({768, 3072}, DType::f32),
                          .transpose_a = true};
  c.add(cat("gemm of a gradient ", c.type), cost(gradient), Compute::products, Traffic::read, [=] { gemm(gradient); });
  add_packed(c);
}

}  // namespace lithe::kernels
