// Turns the arguments of attention into the plan that its CPU kernels run.
#pragma once

#include "lithe/kernels/attention/cpu.h"
#include "lithe/kernels/attention/reference.h"

namespace lithe::kernels {

/// The type of the keys and values that the segments read.
DType key_type(const AttentionArgs& args);

/// Owns the workspace (booked as such, on meta as well) and, unless the tensors are meta, the division of
/// the work. The workspace depends on threads(), heads and head sizes, on whether key_type() is u8, and on
/// whether there is a turn, shares are wanted and bias.multiplies_weights; not on the numbers of rows.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionArgs& args);
  explicit AttentionPlan(const AttentionGradArgs& args);
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;
  const AttentionCall& call() const { return call_; }

 private:
  AttentionCall call_{};
  Tensor workspace_;
  std::vector<AttentionSpan> spans_;
  std::vector<const void*> pages_;    // of all spans
  std::vector<const float*> scales_;  // likewise, where they are integers
  std::vector<AttentionTask> tasks_;
  std::vector<double> work_;  // of each task
  std::vector<AttentionVisits> visits_;
  Tensor extras_;       // what `extras` points to beside the tensors of the arguments
  int64_t blocks_ = 0;  // of kBlock queries, of all spans
  std::vector<int64_t> first_task_;

  void set_up(const AttentionArgs& args);
  void add_spans(const AttentionArgs& args);
  void add_extras(const AttentionArgs& args, const AttentionGradArgs* grad);
  void add_visits(const AttentionArgs& args);
  double pairs_of(const AttentionSegment& segment, int64_t head, int64_t begin, int64_t end, ref::Visible keys) const;
  AttentionRows add_pages(const PagedRows& own, const void* start, int64_t rows);
  void add_gradient_tasks(bool split);
  void finish_gradients() const;  // adds up what the tasks left of the gradients of the bias
  void add_task(const AttentionTask& task, double work);
  void allocate(int64_t floats, Device device);
  void divide();
};

}  // namespace lithe::kernels
