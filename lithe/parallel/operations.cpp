#include "lithe/parallel/operations.h"

#include <algorithm>
#include <bit>

#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe {
namespace {

constexpr int kSums = 20001, kCopies = 20002, kRows = 20003, kGradients = 20004, kBlocks = 20005;

thread_local MessageMeter* meter_now = nullptr;

// From a leaf of the tree over ranks to its root.
int64_t depth(const Group& ranks) { return int64_t(std::bit_width(unsigned(ranks.size - 1))); }

bool silent(const Tensor& x, const Group& ranks) { return ranks.alone() || x.is_meta() || !ranks.with; }

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts, const Group& ranks) {
  check(int(counts.size()) == ranks.size, "all_gather", counts.size(), " counts for ", ranks.size, " ranks");
  std::vector<int64_t> out{0};
  for (const int64_t count : counts) out.push_back(out.back() + count);
  return out;
}

Shape with_rows(const Tensor& x, int64_t rows) {
  check(x.shape().rank() == 2, "ranks", "rows of a matrix are exchanged, got ", x.shape());
  return {rows, x.cols()};
}

// Every rank sends its rows to all others.
Tensor gathered(const Tensor& mine, const std::vector<int64_t>& at, const Group& ranks) {
  const Tensor out = empty(with_rows(mine, at.back()), mine.dtype(), mine.device());
  const auto part = [&](int r) { return out.slice(at[size_t(r)], at[size_t(r) + 1]); };
  check(mine.rows() == part(ranks.rank).rows(), "all_gather", "this rank has ", mine.rows(), " rows, the counts say ",
        part(ranks.rank).rows());
  if (!out.is_meta()) copy_into(part(ranks.rank), mine);
  MessageMeter::waits(ranks.size - 1, std::max((ranks.size - 1) * mine.bytes(), out.bytes() - mine.bytes()));
  if (silent(out, ranks)) return out;
  std::vector<std::unique_ptr<Communicator::Request>> sent;
  for (int r = 0; r < ranks.size; ++r)
    if (r != ranks.rank) sent.push_back(ranks.with->send(bytes_of(mine), r, kBlocks));
  for (int r = 0; r < ranks.size; ++r)
    if (r != ranks.rank) receive_tensor(part(r), ranks, r, kBlocks);
  for (const auto& request : sent) request->wait();
  return out;
}

// The rows of this rank, summed in the order of ranks.
Tensor scattered(const Tensor& all, const std::vector<int64_t>& at, const Group& ranks) {
  const auto part = [&](int r) { return all.slice(at[size_t(r)], at[size_t(r) + 1]); };
  const Tensor mine = part(ranks.rank), out = empty(mine.shape(), all.dtype(), all.device());
  const Tensor theirs = empty(mine.shape(), all.dtype(), all.device());
  MessageMeter::waits(ranks.size - 1, std::max((ranks.size - 1) * mine.bytes(), all.bytes() - mine.bytes()));
  if (silent(all, ranks)) {
    if (!out.is_meta()) copy_into(out, mine);
    return out;
  }
  std::vector<Tensor> kept;
  std::vector<std::unique_ptr<Communicator::Request>> sent;
  for (int r = 0; r < ranks.size; ++r) {
    if (r == ranks.rank) continue;
    kept.push_back(part(r));
    sent.push_back(ranks.with->send(bytes_of(kept.back()), r, kBlocks));
  }
  for (int r = 0; r < ranks.size; ++r) {
    if (r != ranks.rank) receive_tensor(theirs, ranks, r, kBlocks);
    const Tensor& from = r == ranks.rank ? mine : theirs;
    if (r == 0)
      copy_into(out, from);
    else
      kernels::add({.a = out, .b = from, .out = out});
  }
  for (const auto& request : sent) request->wait();
  return out;
}

Tensor summed(const Tensor& x, const Group& ranks) {
  const Tensor out = empty_like(x);
  if (!out.is_meta()) copy_into(out, x);
  sum_over(out, ranks);
  return out;
}

}  // namespace

MessageMeter::MessageMeter() : around_(meter_now) { meter_now = this; }
MessageMeter::~MessageMeter() {
  meter_now = around_;
  waits(messages_, bytes_);
}
void MessageMeter::waits(int64_t messages, int64_t bytes) {
  if (!meter_now) return;
  meter_now->messages_ += messages;
  meter_now->bytes_ += bytes;
}

std::span<std::byte> bytes_of(const Tensor& x) { return {static_cast<std::byte*>(x.raw()), size_t(x.bytes())}; }

void send_tensor(const Tensor& x, const Group& ranks, int to, int tag) {
  if (!silent(x, ranks)) ranks.with->send(bytes_of(x), to, tag)->wait();
}

void receive_tensor(const Tensor& x, const Group& ranks, int from, int tag) {
  if (!silent(x, ranks)) ranks.with->receive(bytes_of(x), from, tag)->wait();
}

// Up the tree over ranks: of each pair of subtrees the right one is added to the left one.
void sum_over(const Tensor& x, const Group& ranks) {
  if (ranks.alone()) return;
  {
    const MemoryScope scratch(MemoryClass::workspace);
    const Tensor theirs = empty(x.shape(), x.dtype(), x.device());
    MessageMeter::waits(depth(ranks), depth(ranks) * x.bytes());
    for (int width = 1; width < ranks.size && !silent(x, ranks); width *= 2) {
      if (ranks.rank % (2 * width) == width) {
        send_tensor(x, ranks, ranks.rank - width, kSums);
        break;
      }
      if (ranks.rank + width >= ranks.size) continue;
      receive_tensor(theirs, ranks, ranks.rank + width, kSums);
      kernels::add({.a = x, .b = theirs, .out = x});
    }
  }
  broadcast(x, ranks);
}

void exchange_sum(const Tensor& x, const Group& ranks, int other) {
  const Tensor theirs = empty(x.shape(), x.dtype(), x.device());
  MessageMeter::waits(1, x.bytes());
  if (silent(x, ranks)) return;
  const auto sent = ranks.with->send(bytes_of(x), other, kSums);
  receive_tensor(theirs, ranks, other, kSums);
  sent->wait();
  kernels::add({.a = x, .b = theirs, .out = x});
}

double sum_over(double x, const Group& ranks) {
  if (ranks.alone() || !ranks.with) return x;
  const Tensor one = tensor_of({1}, std::vector<double>{x});
  sum_over(one, ranks);
  return value_at(one, 0);
}

void broadcast(const Tensor& x, const Group& ranks, int root) {
  if (ranks.alone()) return;
  MessageMeter::waits(depth(ranks), depth(ranks) * x.bytes());
  if (silent(x, ranks)) return;
  const int mine = (ranks.rank - root + ranks.size) % ranks.size;
  int width = 1;
  while (width < ranks.size) width *= 2;
  for (width /= 2; width >= 1; width /= 2) {
    if (mine % (2 * width) == width)
      receive_tensor(x, ranks, (mine - width + root) % ranks.size, kCopies);
    else if (mine % (2 * width) == 0 && mine + width < ranks.size)
      send_tensor(x, ranks, (mine + width + root) % ranks.size, kCopies);
  }
}

Var divide_work(const Var& x, const Group& ranks) {
  if (ranks.alone()) return x;
  return record("divide_work", {x}, x.value(),
                [ref = x.ref(), ranks](const Tensor& dy, Grads& g) { g.give(ref, summed(dy, ranks)); });
}

Var all_reduce(const Var& x, const Group& ranks) {
  if (ranks.alone()) return x;
  return record("all_reduce", {x}, summed(x.value(), ranks),
                [ref = x.ref()](const Tensor& dy, Grads& g) { g.give(ref, dy); });
}

Var all_gather(const Var& x, const Group& ranks, const std::vector<int64_t>& counts) {
  if (ranks.alone()) return x;
  const std::vector<int64_t> at = offsets_of(counts, ranks);
  return record("all_gather", {x}, gathered(x.value(), at, ranks),
                [ref = x.ref(), at, ranks](const Tensor& dy, Grads& g) { g.give(ref, scattered(dy, at, ranks)); });
}

Var send_rows(const Var& x, const Group& ranks, int to) {
  MessageMeter::waits(1, x.value().bytes());
  send_tensor(x.value(), ranks, to, kRows);
  const Tensor zero = zeros({1}, x.dtype(), x.device());
  return record(
      "send_rows", {x}, zero,
      [ref = x.ref(), shape = x.shape(), dtype = x.dtype(), device = x.device(), ranks, to](const Tensor&, Grads& g) {
        const Tensor dx = empty(shape, dtype, device);
        MessageMeter::waits(1, dx.bytes());
        receive_tensor(dx, ranks, to, kGradients);
        g.give(ref, dx);
      });
}

Var receive_rows(const Shape& shape, DType dtype, Device device, const Group& ranks, int from) {
  const Tensor y = empty(shape, dtype, device);
  MessageMeter::waits(1, y.bytes());
  receive_tensor(y, ranks, from, kRows);
  const Var asks = Var::leaf(zeros({1}, dtype, device));  // for its gradient, which nobody reads
  return record("receive_rows", {asks}, y, [ranks, from](const Tensor& dy, Grads&) {
    MessageMeter::waits(1, dy.bytes());
    send_tensor(dy, ranks, from, kGradients);
  });
}

}  // namespace lithe
