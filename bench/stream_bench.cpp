// GB/s of the kernels that make one pass over memory, beside a copy of the same size measured in the same
// round (the bandwidth of a machine may change within minutes, so only ratios of neighbours mean much).
//   stream_bench [part of a kernel's name] [rounds]
// bytes: each operand once, as cost() counts them. "of copy": the median over rounds of kernel / copy, where
// the copy stores normally (what the kernels do); and its 10 % and 90 % quantiles.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/norm/norm.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/rope/rope.h"

namespace {

using namespace lithe;
using namespace lithe::bench;
using namespace lithe::kernels;

struct Case {
  std::string name;
  double bytes;
  std::function<void()> run;
};

Tensor filled(Shape shape, DType type, double scale = 1) {
  const Tensor x = empty(shape, type);
  parallel_for(x.numel(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) set_value(x, i, scale * (double((i * 7919) % 2001) / 1000 - 1));
  });
  return x;
}

// Adding a number keeps the compiler from calling memcpy, which stores around the caches.
__attribute__((target_clones("default", "avx2", "avx512f"))) void copy_part(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] + 1.0f;
}

// One kernel after another, the copy before each.
void measure(const char* title, const std::vector<Case>& cases, int64_t copy_elements, int rounds) {
  const Tensor from = filled({copy_elements}, DType::f32), to = filled({copy_elements}, DType::f32);
  const Case copy{"copy", double(2 * from.bytes()), [&] {
                    parallel_for(copy_elements, 1, [&](int64_t begin, int64_t end, int) {
                      copy_part(from.data<float>() + begin, to.data<float>() + begin, end - begin);
                    });
                  }};
  const auto rate = [](const Case& c) {
    const int repeats = int(std::clamp(1e-3 / (c.bytes / 50e9), 1.0, 1000.0));
    c.run();
    return c.bytes * repeats / seconds([&] {
             for (int i = 0; i < repeats; ++i) c.run();
           }) /
           1e9;
  };
  std::vector<std::vector<double>> rates(cases.size()), ratios(cases.size());
  std::vector<double> copies;
  for (int round = 0; round < rounds; ++round)
    for (size_t k = 0; k < cases.size(); ++k) {
      const double a = rate(copy), own = rate(cases[k]), b = rate(copy);
      copies.push_back((a + b) / 2);
      rates[k].push_back(own);
      ratios[k].push_back(own / copies.back());
    }
  std::printf("\n%s, %d threads, %s; copy %.0f GB/s (%.0f to %.0f)\n", title, threads(), name_of(usable_isa()),
              quantile(copies, 0.5), quantile(copies, 0.1), quantile(copies, 0.9));
  std::printf("%-24s %10s %10s %18s\n", "kernel", "MB", "GB/s", "of copy (spread)");
  for (size_t k = 0; k < cases.size(); ++k)
    std::printf("%-24s %10.2f %10.1f %6.2f (%.2f-%.2f)\n", cases[k].name.c_str(), cases[k].bytes / 1e6,
                quantile(rates[k], 0.5), quantile(ratios[k], 0.5), quantile(ratios[k], 0.1), quantile(ratios[k], 0.9));
}

template <class Args>
Case case_of(const std::string& name, void (*kernel)(const Args&), const Args& args) {
  return {name, cost(args).bytes, [=] { kernel(args); }};
}

// Rows [N,C]; logits [M,V].
std::vector<Case> cases_of(DType type, int64_t N, int64_t C, int64_t M, int64_t V, const std::string& filter) {
  const std::string suffix = cat(".", type);
  const Tensor x = filled({N, C}, type, 3), u = filled({N, C}, type), dy = filled({N, C}, type),
               y = filled({N, C}, type), z = filled({N, C}, type);
  const Tensor weight = filled({C}, DType::f32), dweight = filled({C}, DType::f32), dbias = filled({C}, DType::f32);
  const Tensor mean = filled({N}, DType::f32, 0.1), scale = filled({N}, DType::f32), positions = zeros({N}, DType::i32),
               ids = zeros({N}, DType::i32);
  for (int64_t n = 0; n < N; ++n) set_value(positions, n, double(n % 512)), set_value(ids, n, double((n * 7919) % N));
  const Tensor logits = filled({M, V}, type, 4), labels = zeros({M}, DType::i32), losses = zeros({M}, DType::f32);
  std::vector<Case> all;
  const auto with = [&](const char* name, auto kernel, const auto& args) {
    all.push_back(case_of(name + suffix, kernel, args));
  };
  with("relu", activation, ActivationArgs{Activation::relu, x, {}, y});
  with("gelu", activation, ActivationArgs{Activation::gelu, x, {}, y});
  with("gelu+bias", activation, ActivationArgs{Activation::gelu, x, weight, y});
  with("gelu_tanh", activation, ActivationArgs{Activation::gelu_tanh, x, {}, y});
  with("silu", activation, ActivationArgs{Activation::silu, x, {}, y});
  with("gelu_grad", activation_grad, ActivationGradArgs{Activation::gelu, x, {}, dy, y});
  with("swiglu", gated, GatedArgs{Activation::silu, x, u, y});
  with("swiglu_grad", gated_grad, GatedGradArgs{Activation::silu, x, u, dy, y, z});
  with("add", add, AddArgs{x, u, y});
  with("cast_to_bf16", add, AddArgs{x, {}, type == DType::bf16 ? y : filled({N, C}, DType::bf16)});
  with("mul", mul, MulArgs{x, u, y});
  with("row_affine", row_affine, RowAffineArgs{x, weight, weight, y});
  with("row_affine_grad", row_affine_grad, RowAffineGradArgs{x, weight, dy, y, dweight, dbias});
  with("dropout", dropout, DropoutArgs{x, y, 0.1, {.seed = 1}});
  with("layer_norm", norm, NormArgs{NormKind::layer_sigma, x, {}, {}, weight, weight, y, mean, scale});
  with("rms_norm", norm, NormArgs{NormKind::rms, x, {}, {}, weight, {}, y, {}, scale});
  with("rms_norm+residual", norm, NormArgs{NormKind::rms, x, u, z, weight, {}, y, {}, scale});
  with("layer_norm_grad", norm_grad,
       NormGradArgs{NormKind::layer_sigma, x, weight, mean, scale, dy, y, dweight, dbias});
  with("rms_norm_grad", norm_grad, NormGradArgs{NormKind::rms, x, weight, {}, scale, dy, y, dweight, {}});
  with("rope", rope, RopeArgs{.x = x, .positions = positions, .out = y, .head_dim = 64});
  with("gather", gather, GatherArgs{filled({N, C}, DType::f32), ids, y});
  with("scatter_add", scatter_add, ScatterAddArgs{dy, ids, filled({N, C}, DType::f32)});
  with("cross_entropy_loss", cross_entropy, CrossEntropyArgs{logits, labels, losses, {}});
  with("cross_entropy_grad", cross_entropy, CrossEntropyArgs{logits, labels, losses, {}, 0, 1, true});
  with("softmax", softmax, SoftmaxArgs{x, y});
  with(
      "sum_of_squares", +[](const ActivationArgs& a) { sum_of_squares(a.x); },
      ActivationArgs{Activation::relu, x, {}, {}});
  with(
      "all_finite", +[](const ActivationArgs& a) { all_finite(a.x); }, ActivationArgs{Activation::relu, x, {}, {}});
  if (type == DType::f32) {
    const Tensor v = zeros({N, C}, DType::f32);
    with("adamw", adamw, AdamWArgs{x, dy, z, v, {}, 1e-3});
    with("adamw+shadow", adamw, AdamWArgs{x, dy, z, v, zeros({N, C}, DType::bf16), 1e-3});
  }
  std::erase_if(all, [&](const Case& c) { return c.name.find(filter) == std::string::npos; });
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  for (const DType type : {DType::f32, DType::bf16})
    measure(cat("in L2, ", type).c_str(),
            cases_of(type, threads() * (type == DType::f32 ? 48 : 96), 512, threads() * (type == DType::f32 ? 24 : 48),
                     2048, filter),
            threads() * 48 * 1024, rounds);
  for (const DType type : {DType::f32, DType::bf16})
    measure(cat("in memory, ", type).c_str(),
            cases_of(type, type == DType::f32 ? 16384 : 32768, 1024, type == DType::f32 ? 2048 : 4096, 8192, filter),
            16 << 20, rounds);
}
