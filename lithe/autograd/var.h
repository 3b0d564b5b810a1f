// Reverse-mode differentiation on a tape. While a Tape lives, operations on Vars are recorded; without
// one nothing is kept. Gradients are addressed by input (`g.into(x)`), never by position.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

namespace kernels {
struct PackedMatrix;
}

/// An operation met a packed matrix that it cannot use as it is.
class PackedMismatch : public Error {
 public:
  enum class Needs { numbers, rows, columns };  // what the operation can use: numbers, or one packing (by_rows or not)
  PackedMismatch(const kernels::PackedMatrix& matrix, Needs needs);
  const std::string& matrix() const { return matrix_; }
  Needs needs() const { return needs_; }

 private:
  std::string matrix_;
  Needs needs_;
};

/// Where a gradient gathers. Shared by all copies of a Var; holds no value, so that an activation can
/// be freed while its gradient is still to come.
struct GradSlot {
  Tensor grad;  // none until something arrives
  Shape shape;
  DType dtype;  // of the gradient: that of the value, f32 for a bf16 copy of an f32 parameter
  Device device;
  bool leaf;  // a parameter: booked as gradients, kept after backward
};
using GradRef = std::shared_ptr<GradSlot>;

struct LowRank;

/// A tensor that may take part in differentiation.
class Var {
 public:
  Var() = default;
  Var(const Var&);  // not inline, as with Tensor
  Var(Var&&) noexcept = default;
  Var& operator=(const Var&);
  Var& operator=(Var&&) noexcept;
  ~Var();
  Var(Tensor value) : value_(std::move(value)) {}  // a constant
  Var(Tensor value, GradRef slot) : value_(std::move(value)), slot_(std::move(slot)) {}
  /// A matrix packed for inference in place of its numbers: value() throws PackedMismatch.
  Var(std::shared_ptr<const kernels::PackedMatrix> packed, DType dtype);
  /// A leaf whose gradient is kept.
  static Var leaf(Tensor value);

  const Tensor& value() const {
    if (packed_ || low_rank_) [[unlikely]]
      throw_without_numbers();
    return value_;
  }
  /// The packed matrix, or null.
  const kernels::PackedMatrix* packed() const { return packed_.get(); }
  const Shape& shape() const { return value_.shape(); }
  int64_t dim(int axis) const { return value_.dim(axis); }
  int64_t rows() const { return value_.rows(); }
  int64_t cols() const { return value_.cols(); }
  DType dtype() const { return value_.dtype(); }
  Device device() const;
  bool defined() const { return value_.defined(); }
  bool needs_grad() const { return slot_ != nullptr; }
  const GradRef& ref() const { return slot_; }
  operator const GradRef&() const { return slot_; }
  /// The gathered gradient; none when nothing arrived.
  Tensor grad() const { return slot_ ? slot_->grad : Tensor(); }
  /// The same, for products that round the rows that meet it to `bits` bits (ops/weight_product.h); 0: they do not.
  Var with_rounded_inputs(int bits) const;
  int rounded_inputs() const { return rounded_inputs_; }
  /// The same, for products x w that become x w + scale (x a) b (ops/weight_product.h): value() throws.
  Var with_low_rank(std::shared_ptr<const LowRank> update) const;
  const LowRank* low_rank() const { return low_rank_.get(); }  // null: none
  Var without_low_rank() const;

 private:
  Tensor value_;  // of a packed matrix: shape and dtype of the rows, on the meta device
  GradRef slot_;
  std::shared_ptr<const kernels::PackedMatrix> packed_;
  std::shared_ptr<const LowRank> low_rank_;
  int rounded_inputs_ = 0;
  [[noreturn]] void throw_without_numbers() const;
};

/// What stands beside a weight W [K,M] that itself is not trained: a [K,r], b [r,M].
struct LowRank {
  Var a, b;
  double scale = 1;
};

/// The value, or none of an undefined Var.
inline Tensor value_or_none(const Var& x) { return x.defined() ? x.value() : Tensor(); }

/// Handed to backward functions.
class Grads {
 public:
  struct Into {
    Tensor to;                // none when this input needs no gradient: skip the work
    bool accumulate = false;  // add to `to` (true) or set it (false)
    explicit operator bool() const { return to.defined(); }
  };
  bool wants(const GradRef& x) const { return x != nullptr; }
  /// Where the gradient of x goes. Once asked, it must be written.
  Into into(const GradRef& x);
  /// The same, always to be added to: zeros are put there first when nothing had arrived.
  Tensor into_zeroed(const GradRef& x);
  /// Hands over a finished gradient without a copy; the tensor may be shared and must not be changed
  /// afterwards by the caller. Shapes may differ when the count is the same.
  void give(const GradRef& x, const Tensor& gradient);
};

/// dys[i] is none when output i was not used.
using BackwardMany = std::function<void(const std::vector<Tensor>& dys, Grads& g)>;

/// Records while it lives; the innermost counts. backward() may be called once.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Propagates dy (default: ones for a scalar) from y to every leaf, freeing what was kept on the way.
  void backward(const Var& y, Tensor dy = {});
  /// The same from several results at once: dys[i] is of ys[i]; results that need no gradient or have none are skipped.
  void backward(const std::vector<Var>& ys, std::vector<Tensor> dys);

  static Tape* current();

 private:
  friend std::vector<Var> record_many(const char*, const std::vector<GradRef>&, const std::vector<Tensor>&,
                                      BackwardMany);
  struct Entry {
    const char* op;
    std::string part;
    std::vector<GradRef> inputs, outputs;
    BackwardMany backward;
  };
  std::vector<Entry> entries_;
  Tape* previous_;
};

/// Suspends recording.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape* previous_;
  bool previous_rehearsal_;
};

/// Suspends recording in a first pass that backward runs again: training() stays true.
class Rehearsal {
 public:
  Rehearsal();

 private:
  NoGrad no_grad_;  // restores both
};

/// True while a tape lives, and in a Rehearsal, which records nothing but must give the values that
/// the second pass will: what depends on training (dropout, the order of sums) asks this, not Tape::current().
bool training();

/// Makes `outs` the results of an operation on `inputs`. Recorded only when a tape lives and an input needs
/// a gradient; otherwise constants.
std::vector<Var> record_many(const char* op, const std::vector<GradRef>& inputs, const std::vector<Tensor>& outs,
                             BackwardMany backward);
/// Whether record_many() has anything to do but make constants. What decoding does often asks first: handles that a
/// backward function keeps are copied before record() can look.
bool recording();
/// record_many() of one result, backward(dy, grads).
template <class Backward>
Var record(const char* op, std::initializer_list<GradRef> inputs, Tensor out, Backward&& backward) {
  if (!recording()) return Var(std::move(out));
  return record_many(op, inputs, {std::move(out)},
                     [backward = std::forward<Backward>(backward)](const std::vector<Tensor>& dys, Grads& g) {
                       backward(dys[0], g);
                     })[0];
}

/// The same value with a gradient of its own, so that a tape inside a backward function ends here instead of running on
/// into the outer one; a constant stays one.
Var detached(const Var& x);

/// While on, every recorded value and gradient is checked, and the first that is not finite throws an
/// Error (ExitCode::diverged) naming op and part. Slow: for replaying a step that went wrong.
class FiniteTrace {
 public:
  FiniteTrace();
  ~FiniteTrace();
  FiniteTrace(const FiniteTrace&) = delete;
  FiniteTrace& operator=(const FiniteTrace&) = delete;
};

}  // namespace lithe
