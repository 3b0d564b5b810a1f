// Matrix products by oneDNN, to be measured beside lithe's own; where libdnnl-dev was not found, there are none.
#pragma once

#include <optional>

#include "lithe/kernels/gemm/gemm.h"

#ifdef LITHE_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.hpp>

#include "lithe/base/threads.h"
#include "lithe/kernels/kernel.h"

namespace lithe::bench {

/// A product that oneDNN has compiled for its sizes and types.
class OneDnnProduct {
 public:
  /// Nothing where oneDNN has no such product. It gets lithe's threads and instruction set.
  static std::optional<OneDnnProduct> of(const kernels::GemmArgs& args) {
    if (omp_get_max_threads() != threads()) omp_set_num_threads(threads());  // which it plans for
    OneDnnProduct product;
    const auto matrix = [](const Tensor& x, bool transposed) {
      const auto type = x.dtype() == DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
      const int64_t rows = x.dim(transposed ? 1 : 0), cols = x.dim(transposed ? 0 : 1);
      return Memory::desc({rows, cols}, type, transposed ? Memory::dims{1, rows} : Memory::dims{cols, 1});
    };
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (args.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc description(matrix(args.a, args.transpose_a), matrix(args.b, args.transpose_b),
                                         matrix(args.c, false));
    product.plan_ = dnnl::matmul::primitive_desc(description, attributes, engine(), true);
    if (!product.plan_) return {};
    product.code_ = dnnl::matmul(product.plan_);
    product.workspace_ = empty({int64_t(product.plan_.scratchpad_desc().get_size())}, DType::u8);
    return product;
  }

  void run(const kernels::GemmArgs& args) const {
    const auto view = [](const Memory::desc& desc, const Tensor& x) { return Memory(desc, engine(), x.raw()); };
    code_.execute(stream(), {{DNNL_ARG_SRC, view(plan_.src_desc(), args.a)},
                             {DNNL_ARG_WEIGHTS, view(plan_.weights_desc(), args.b)},
                             {DNNL_ARG_DST, view(plan_.dst_desc(), args.c)},
                             {DNNL_ARG_SCRATCHPAD, view(plan_.scratchpad_desc(), workspace_)}});
  }

 private:
  using Memory = dnnl::memory;
  dnnl::matmul::primitive_desc plan_;
  dnnl::matmul code_;
  Tensor workspace_;

  static const dnnl::engine& engine() {
    static const dnnl::engine cpu = [] {
      const kernels::Isa isa = kernels::machine_isa();
      if (isa == kernels::Isa::avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
      if (isa == kernels::Isa::avxvnni) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2_vnni);
      if (isa == kernels::Isa::avx512) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
      if (isa == kernels::Isa::avx512bf16) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
      return dnnl::engine(dnnl::engine::kind::cpu, 0);
    }();
    return cpu;
  }
  static dnnl::stream& stream() {
    static dnnl::stream all(engine());
    return all;
  }
};

}  // namespace lithe::bench

#else

namespace lithe::bench {

struct OneDnnProduct {
  static std::optional<OneDnnProduct> of(const kernels::GemmArgs&) { return {}; }
  void run(const kernels::GemmArgs&) const {}
};

}  // namespace lithe::bench

#endif
