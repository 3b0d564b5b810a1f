#include "lithe/kernels/rope/rope.h"

#include <cmath>
#include <vector>

#include "lithe/kernels/checks.h"
#include "lithe/kernels/rope/cpu.h"
#include "lithe/kernels/rope/reference.h"

LITHE_DECLARE_CPU(rope, RopeTask)

namespace lithe::kernels {
namespace {

void rope_ref(const RopeTask& task) {
  dispatch_float(task.args.x.dtype(), [&]<class T>() { ref::rope<T>(task.args); });
}
const char* refuse(const RopeTask& task) { return refuse_f64(task.args.x); }

// Kept from call to call: a model asks for the same ones in every layer.
const double* frequencies(const RopeArgs& a) {
  if (a.frequencies) return a.frequencies->data();
  const int64_t head_dim = a.turned();
  const double base = a.base;
  thread_local int64_t made_dim = 0;
  thread_local double made_base = 0;
  thread_local std::vector<double> made;
  if (made_dim != head_dim || made_base != base) {
    made.resize(size_t(head_dim / 2));
    for (int64_t c = 0; c < head_dim / 2; ++c) made[size_t(c)] = std::pow(base, -2.0 * double(c) / double(head_dim));
    made_dim = head_dim;
    made_base = base;
  }
  return made.data();
}

}  // namespace

Cost cost(const RopeArgs& a) { return {double(a.x.numel()) * (3 + a.accumulate), bytes_of({a.x, a.positions, a.out})}; }

void rope(const RopeArgs& a) {
  const char* op = "rope";
  check_rows(op, {"x", a.x});
  check_like(op, {"out", a.out}, {"x", a.x});
  check_vector(op, {"positions", a.positions}, a.x.rows(), DType::i32, {"x", a.x});
  check(a.head_dim > 0 && (a.rotary_dim || a.head_dim % 2 == 0) && a.x.cols() % a.head_dim == 0, op,
        "head_dim must be even and divide the ", a.x.cols(), " columns of x ", a.x.shape(), ", got ", a.head_dim);
  check(a.turned() >= 0 && a.turned() <= a.head_dim && a.turned() % 2 == 0, op,
        "rotary_dim must be even and at most head_dim ", a.head_dim, ", got ", a.rotary_dim);
  check(!a.frequencies || int64_t(a.frequencies->size()) == a.turned() / 2, op, "frequencies must be ", a.turned() / 2,
        ", half of the channels that turn, got ", a.frequencies ? a.frequencies->size() : 0);
  check(a.base > 0, op, "base must be positive, got ", a.base);
  if (a.accumulate)
    check_alias(op, {"out", a.out}, {}, {{"x", a.x}});
  else
    check_alias(op, {"out", a.out}, {{"x", a.x}}, {});
  run_kernel<RopeTask>(op, a.x.is_meta(), {LITHE_CPU_STREAMS(rope, refuse), {"ref", Isa::generic, nullptr, rope_ref}},
                       {a, frequencies(a)});
}

}  // namespace lithe::kernels
