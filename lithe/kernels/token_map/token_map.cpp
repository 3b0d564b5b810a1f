#include "lithe/kernels/token_map/token_map.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/token_map/reference.h"

LITHE_DECLARE_CPU(token_map, lithe::kernels::TokenMapArgs)
LITHE_DECLARE_CPU(token_map_grad, lithe::kernels::TokenMapGradArgs)
LITHE_DECLARE_CPU(block_copy, lithe::kernels::BlockCopyArgs)

namespace lithe::kernels {
namespace {

const char* refuse(const TokenMapArgs& a) { return refuse_f64(a.map); }
const char* refuse(const TokenMapGradArgs& a) { return refuse_f64(a.map); }
const char* refuse(const BlockCopyArgs& a) { return refuse_f64(a.x); }

template <class F>
void with_types(DType map, F&& f) {
  if (map == DType::f64)
    f.template operator()<double, double>();
  else if (map == DType::bf16)
    f.template operator()<float, bf16>();
  else
    f.template operator()<float, float>();
}

void reference(const TokenMapArgs& a) {
  with_types(a.map.dtype(), [&]<class W, class T>() { ref::token_map<W, T>(a); });
}
void reference_grad(const TokenMapGradArgs& a) {
  with_types(a.map.dtype(), [&]<class W, class T>() { ref::token_map_grad<W, T>(a); });
}
void reference_copy(const BlockCopyArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::block_copy<T>(a); });
}

void check_map(const char* op, const Named& map) {
  check_rows(op, map);
  check(map.tensor.shape().rank() == 2 && map.tensor.cols() > 0 && map.tensor.rows() % map.tensor.cols() == 0, op,
        map.name, " must be [heads*T,T], got ", map.tensor.shape());
}

void check_wide(const char* op, const Named& t, const Named& map) {
  check_shape_like(op, t, map);
  check(t.tensor.dtype() == wide_of(map.tensor.dtype()), op, t.name, " must be ", wide_of(map.tensor.dtype()),
        " beside a ", map.name, " of ", map.tensor.dtype(), ", got ", t.tensor.dtype());
}

}  // namespace

Cost cost(const TokenMapArgs& a) {
  return {(a.kind == MapKind::softmax ? 5.0 : 1.0) * double(a.map.numel()), bytes_of({a.logits, a.map})};
}
Cost cost(const TokenMapGradArgs& a) {
  return {(a.kind == MapKind::softmax ? 5.0 : 1.0) * double(a.map.numel()), bytes_of({a.map, a.dmap, a.dlogits})};
}
Cost cost(const BlockCopyArgs& a) {
  const double n = double(a.blocks * a.rows * a.cols);
  return {a.accumulate ? n : 0, n * double(size_of(a.x.dtype())) * (a.accumulate ? 3 : 2)};
}

void token_map(const TokenMapArgs& a) {
  const Named map{"map", a.map};
  check_map("token_map", map);
  check_wide("token_map", {"logits", a.logits}, map);
  run_kernel<TokenMapArgs>("token_map", a.map.is_meta(),
                           {LITHE_CPU_STREAMS(token_map, refuse), {"ref", Isa::generic, nullptr, reference}}, a);
}

void token_map_grad(const TokenMapGradArgs& a) {
  const Named map{"map", a.map};
  check_map("token_map_grad", map);
  check_wide("token_map_grad", {"dmap", a.dmap}, map);
  check_wide("token_map_grad", {"dlogits", a.dlogits}, map);
  run_kernel<TokenMapGradArgs>(
      "token_map_grad", a.map.is_meta(),
      {LITHE_CPU_STREAMS(token_map_grad, refuse), {"ref", Isa::generic, nullptr, reference_grad}}, a);
}

void block_copy(const BlockCopyArgs& a) {
  const auto fits = [&](const Tensor& t, int64_t block, int64_t row) {
    return a.blocks == 0 || a.rows == 0 || (a.blocks - 1) * block + (a.rows - 1) * row + a.cols <= t.numel();
  };
  check(a.x.dtype() == a.out.dtype() && fits(a.x, a.x_block, a.x_row) && fits(a.out, a.out_block, a.out_row),
        "block_copy", a.blocks, " blocks of ", a.rows, " rows of ", a.cols, " do not lie within x ", a.x.dtype(),
        a.x.shape(), " and out ", a.out.dtype(), a.out.shape());
  run_kernel<BlockCopyArgs>("block_copy", a.x.is_meta(),
                            {LITHE_CPU_STREAMS(block_copy, refuse), {"ref", Isa::generic, nullptr, reference_copy}}, a);
}

}  // namespace lithe::kernels
