#include "lithe/ops/weight_product.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lithe/base/threads.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe {
namespace {

thread_local ProductObserver* observer = nullptr;
thread_local const LowRankUpdates* updates = nullptr;

const void* numbers_of(const Var& w) { return w.packed() ? static_cast<const void*>(w.packed()) : w.value().raw(); }

void add_update(const Tensor& x, const LowRankUpdates::Update& update, const Tensor& y) {
  const Tensor narrow = empty({x.rows(), update.a.cols()}, x.dtype(), x.device());
  kernels::gemm({.a = x, .b = update.a, .c = narrow, .rowwise = true});
  kernels::gemm({.a = narrow, .b = update.b, .c = y, .accumulate = true, .rowwise = true});
}

}  // namespace

Var round_rows(const Var& x, int bits) {
  check(bits >= 2 && bits <= 16, "linear", "rows can be rounded to 2 to 16 bits, not ", bits);
  const Tensor out = empty_like(x.value());
  const auto most = float((1 << (bits - 1)) - 1);
  const int64_t C = x.value().numel() / std::max<int64_t>(x.rows(), 1);
  if (!out.is_meta())
    dispatch_float(x.dtype(), [&]<class T>() {
      parallel_for(x.rows(), 8, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) {
          const T* from = x.value().data<T>() + n * C;
          T* to = out.data<T>() + n * C;
          float largest = 0;
          for (int64_t c = 0; c < C; ++c) largest = std::max(largest, std::abs(float(from[c])));
          const float step = largest / most, inverse = largest < 0x1p-100f ? 0 : most / largest;
          for (int64_t c = 0; c < C; ++c) to[c] = T(step * std::round(float(from[c]) * inverse));
        }
      });
    });
  return record("round_rows", {x}, out, [x = x.ref()](const Tensor& dy, Grads& g) { g.give(x, dy); });
}

InputGradient::InputGradient(const Var& w, bool transposed)
    : numbers_(w.packed() ? kernels::numbers_by_outputs(*w.packed(), w.dtype()) : w.value()),
      transpose_(!w.packed() && !transposed) {
  const kernels::PackedMatrix* const q = w.packed();
  if (q && q->by_rows != transposed)
    throw PackedMismatch(*q, transposed ? PackedMismatch::Needs::rows : PackedMismatch::Needs::columns);
}

void InputGradient::operator()(const Tensor& dy, const Tensor& dx, bool accumulate) const {
  kernels::gemm({.a = dy, .b = numbers_, .c = dx, .transpose_b = transpose_, .accumulate = accumulate});
}

void LowRankUpdates::add(const Var& w, Tensor a, Tensor b) {
  check(a.dim(0) == w.dim(0) && b.dim(1) == w.dim(1) && a.dim(1) == b.dim(0), "linear", "an update of a weight ",
        w.shape(), " must be [", w.dim(0), ",r] and [r,", w.dim(1), "], got ", a.shape(), " and ", b.shape());
  by_numbers_[numbers_of(w)] = {std::move(a), std::move(b)};
}

const LowRankUpdates::Update* LowRankUpdates::of(const Var& w) const {
  const auto at = by_numbers_.find(numbers_of(w));
  return at == by_numbers_.end() ? nullptr : &at->second;
}

LowRankScope::LowRankScope(const LowRankUpdates* given) : previous_(std::exchange(updates, given)) {}
LowRankScope::~LowRankScope() { updates = previous_; }
bool LowRankScope::any() { return updates != nullptr; }

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
  if (updates) {
    check(!training(), "linear", "low-rank updates are added while nothing is trained");
    for (const auto& [w, bias, y, transposed] : products)
      if (const LowRankUpdates::Update* update = transposed ? nullptr : updates->of(w)) add_update(x, *update, y);
  }
  if (observer)
    for (const auto& [w, bias, y, transposed] : products) observer->seen_(x, w, bias, y);
}

}  // namespace lithe
