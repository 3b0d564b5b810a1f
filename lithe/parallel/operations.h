// What ranks of a group exchange, as operations that differentiate themselves. Every rank of the group calls each of
// them in the same order, also in the backward pass. Sums are along one binary tree over the ranks, so that all of them
// have the same bits. On meta tensors nothing is sent, and the memory is that of a rank at work.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/parallel/layout.h"

namespace lithe {

/// The messages that operations of this thread wait for while it lives, planned or sent: along a tree one after
/// another, of those that go at the same time the one with most bytes.
class MessageMeter {
 public:
  MessageMeter();
  ~MessageMeter();
  MessageMeter(const MessageMeter&) = delete;
  int64_t messages() const { return messages_; }
  int64_t bytes() const { return bytes_; }
  /// An operation waits for `messages`, with so many bytes in all.
  static void waits(int64_t messages, int64_t bytes);

 private:
  MessageMeter* around_;
  int64_t messages_ = 0, bytes_ = 0;
};

/// x, which all ranks have alike, as the beginning of what each does by itself: the gradient is the sum of theirs.
Var divide_work(const Var& x, const Group& ranks);
/// The sum of what the ranks made by themselves, which all of them go on with alike: each has its gradient.
Var all_reduce(const Var& x, const Group& ranks);
/// The rows of all ranks, one after another, which each goes on with by itself: each has the sum of the gradients of
/// its rows. `counts`: rows of each rank.
Var all_gather(const Var& x, const Group& ranks, const std::vector<int64_t>& counts);
/// Sends x to that rank, which receives it. A scalar zero whose backward pass waits for the gradient of x.
Var send_rows(const Var& x, const Group& ranks, int to);
/// What that rank sends; the backward pass sends the gradient there.
Var receive_rows(const Shape& shape, DType dtype, Device device, const Group& ranks, int from);

// ---- without gradients

/// What of a tensor is sent, or received.
std::span<std::byte> bytes_of(const Tensor& x);

/// Sets x to the sum over the ranks, in place.
void sum_over(const Tensor& x, const Group& ranks);
double sum_over(double x, const Group& ranks);
/// The same of two ranks, this one and `other`, with the same bits on both.
void exchange_sum(const Tensor& x, const Group& ranks, int other);
/// Sets x to that of rank `root`.
void broadcast(const Tensor& x, const Group& ranks, int root = 0);
void send_tensor(const Tensor& x, const Group& ranks, int to, int tag);
void receive_tensor(const Tensor& x, const Group& ranks, int from, int tag);

}  // namespace lithe
