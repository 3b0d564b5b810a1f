#include "lithe/kernels/cross_entropy/cross_entropy.h"

#include "lithe/base/threads.h"
#include "lithe/kernels/checks.h"
#include "lithe/kernels/cross_entropy/cpu.h"
#include "lithe/kernels/cross_entropy/reference.h"

LITHE_DECLARE_CPU(cross_entropy, CrossEntropyTask)
LITHE_DECLARE_CPU(softmax, SoftmaxTask)

namespace lithe::kernels {
namespace {

void cross_entropy_ref(const CrossEntropyTask& task) {
  dispatch_float(task.args.logits.dtype(), [&]<class T>() { ref::cross_entropy<T>(task.args); });
}
void softmax_ref(const SoftmaxTask& task) {
  dispatch_float(task.args.x.dtype(), [&]<class T>() { ref::softmax<T>(task.args); });
}
const char* refuse(const CrossEntropyTask& task) { return refuse_f64(task.args.logits); }
const char* refuse(const SoftmaxTask& task) { return refuse_f64(task.args.x); }

/// A row in f32 for every thread.
Tensor row_of_exponentials(const Tensor& rows, bool wanted) {
  if (!wanted) return {};
  const MemoryScope scope(MemoryClass::workspace);
  return empty({threads(), rows.cols()}, DType::f32, rows.device());
}

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
  // f32 rows hold their own exponentials.
  const Tensor row = row_of_exponentials(a.logits, a.gradient && a.logits.dtype() == DType::bf16);
  run_kernel<CrossEntropyTask>(
      op, a.logits.is_meta(),
      {LITHE_CPU_LIST(cross_entropy, refuse), {"ref", Isa::generic, nullptr, cross_entropy_ref}},
      {a, static_cast<float*>(row.raw())});
}

Cost cost(const SoftmaxArgs& a) { return {double(a.x.numel()) * (5 + (a.scale != 1)), bytes_of({a.x, a.y})}; }

void softmax(const SoftmaxArgs& a) {
  const char* op = "softmax";
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  check_alias(op, {"y", a.y}, {{"x", a.x}}, {});
  const Tensor row = row_of_exponentials(a.x, !a.log && a.x.dtype() != DType::f64);
  run_kernel<SoftmaxTask>(op, a.x.is_meta(),
                          {LITHE_CPU_LIST(softmax, refuse), {"ref", Isa::generic, nullptr, softmax_ref}},
                          {a, static_cast<float*>(row.raw())});
}

}  // namespace lithe::kernels
