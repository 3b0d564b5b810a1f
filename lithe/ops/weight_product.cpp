#include "lithe/ops/weight_product.h"

#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe {
namespace {
thread_local ProductObserver* observer = nullptr;
}

ProductObserver::ProductObserver(Seen seen) : seen_(std::move(seen)), previous_(observer) { observer = this; }
ProductObserver::~ProductObserver() { observer = previous_; }

void weight_products(const Tensor& x, std::span<const WeightProduct> products) {
  std::vector<kernels::QuantizedProductArgs> integer;  // of one format: their x is rounded once
  const auto run_integer = [&] {
    if (!integer.empty()) kernels::quantized_products(integer);
    integer.clear();
  };
  for (const auto& [w, bias, y, transposed] : products) {
    const kernels::PackedMatrix* q = w.packed();
    if (!q) {
      kernels::gemm({.a = x, .b = w.value(), .c = y, .bias = bias, .transpose_b = transposed, .rowwise = !training()});
      continue;
    }
    check(!training(), "linear", "'", q->name, "' holds ", name_of(q->format),
          " weights packed for inference, which cannot be trained; train the model that they were made from");
    if (q->by_rows != transposed)
      throw PackedMismatch(*q, transposed ? PackedMismatch::Needs::rows : PackedMismatch::Needs::columns);
    if (!integers(q->format)) {
      kernels::gemm({.a = x, .c = y, .bias = bias, .transpose_b = transposed, .rowwise = true, .packed = q});
      continue;
    }
    if (!integer.empty() && (integer[0].w->format != q->format || integer[0].w->group != q->group)) run_integer();
    integer.push_back({.x = x, .w = q, .y = y, .bias = bias});
  }
  run_integer();
  if (observer)
    for (const auto& [w, bias, y, transposed] : products) observer->seen_(x, w, bias, y);
}

}  // namespace lithe
