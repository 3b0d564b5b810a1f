#include "lithe/kernels/cross_entropy.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/ref/cross_entropy.h"

LITHE_DECLARE_CPU(cross_entropy, CrossEntropyArgs)
LITHE_DECLARE_CPU(softmax, SoftmaxArgs)

namespace lithe::kernels {
namespace {

void cross_entropy_ref(const CrossEntropyArgs& a) {
  dispatch_float(a.logits.dtype(), [&]<class T>() { ref::cross_entropy<T>(a); });
}
void softmax_ref(const SoftmaxArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::softmax<T>(a); });
}
const char* refuse(const CrossEntropyArgs& a) { return refuse_f64(a.logits); }
const char* refuse(const SoftmaxArgs& a) { return refuse_f64(a.x); }

}  // namespace

Cost cost(const CrossEntropyArgs& a) {
  return {double(a.logits.numel()) * (4 + (a.smoothing > 0) + 4 * a.gradient),
          bytes_of({a.logits, a.labels, a.losses, a.nll})};
}

// spec: train.nll | objective | softmax cross-entropy of rows of logits, with label smoothing | TB Eq 6.12, 6.1.7
void cross_entropy(const CrossEntropyArgs& a) {
  const char* op = "cross_entropy";
  const Named logits{"logits", a.logits};
  check_rows(op, logits);
  const int64_t N = a.logits.rows(), V = a.logits.cols();
  const DType wide = wide_of(a.logits.dtype());
  check_vector(op, {"labels", a.labels}, N, DType::i32, logits);
  check_vector(op, {"losses", a.losses}, N, wide, logits);
  if (a.nll) check_vector(op, {"nll", a.nll}, N, wide, logits);
  check(a.smoothing >= 0 && a.smoothing < 1, op, "smoothing must be in [0, 1), got ", a.smoothing);
  if (!a.logits.is_meta()) {
    const int32_t* labels = a.labels.data<int32_t>();
    for (int64_t n = 0; n < N; ++n)
      check(labels[n] < V, op, "labels must be below the ", V, " columns of logits, got ", labels[n], " in row ", n,
            "; use -1 for no label");
  }
  run_kernel<CrossEntropyArgs>(
      op, a.logits.is_meta(),
      {LITHE_CPU_LIST(cross_entropy, refuse), {"ref", Isa::generic, nullptr, cross_entropy_ref}}, a);
}

Cost cost(const SoftmaxArgs& a) { return {double(a.x.numel()) * (5 + (a.scale != 1)), bytes_of({a.x, a.y})}; }

void softmax(const SoftmaxArgs& a) {
  const char* op = "softmax";
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  check_alias(op, {"y", a.y}, {{"x", a.x}}, {});
  run_kernel<SoftmaxArgs>(op, a.x.is_meta(),
                          {LITHE_CPU_LIST(softmax, refuse), {"ref", Isa::generic, nullptr, softmax_ref}}, a);
}

}  // namespace lithe::kernels
