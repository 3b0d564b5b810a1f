#include "lithe/ops/weight_product.h"

#include "lithe/kernels/gemm.h"
#include "lithe/kernels/quantized_product.h"

namespace lithe {
namespace {
thread_local ProductObserver* observer = nullptr;
}

ProductObserver::ProductObserver(Seen seen) : seen_(std::move(seen)), previous_(observer) { observer = this; }
ProductObserver::~ProductObserver() { observer = previous_; }

void weight_product(const Tensor& x, const Var& w, const Tensor& bias, bool transposed, const Tensor& y) {
  if (const kernels::PackedMatrix* q = w.packed()) {
    check(!training(), "linear", "'", q->name, "' holds ", name_of(q->format),
          " weights packed for inference, which cannot be trained; train the model that they were made from");
    if (q->by_rows != transposed)
      throw PackedMismatch(*q, transposed ? PackedMismatch::Needs::rows : PackedMismatch::Needs::columns);
    if (integers(q->format))
      kernels::quantized_product({.x = x, .w = q, .y = y, .bias = bias});
    else
      kernels::gemm({.a = x, .c = y, .bias = bias, .transpose_b = transposed, .rowwise = true, .packed = q});
  } else {
    kernels::gemm({.a = x, .b = w.value(), .c = y, .bias = bias, .transpose_b = transposed, .rowwise = !training()});
  }
  if (observer) observer->seen_(x, w, bias, y);
}

}  // namespace lithe
