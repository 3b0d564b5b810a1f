#include "lithe/train/rank_sum.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/parallel/gather.h"

namespace lithe {
namespace {

constexpr int kTag = 1;
constexpr size_t kSmall = size_t(1) << 16;  // bytes

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), size_t(tensor.bytes())};
}

// b joins a.
void add_to(Tensor& a, Tensor b) {
  if (!a.defined())
    a = std::move(b);
  else if (b.defined())
    kernels::add({.a = a, .b = b, .out = a});
}

}  // namespace

Gradients& Gradients::operator+=(Gradients&& other) {
  check(of.size() == other.of.size(), "step", "gradients of ", of.size(), " and of ", other.of.size(),
        " parameters are not of one model");
  for (size_t i = 0; i < of.size(); ++i) add_to(of[i], std::move(other.of[i]));
  return *this;
}

RankSum::RankSum(Communicator* ranks, int rank, int size, const std::vector<Parameters*>& parameters, bool sharded)
    : ranks_(ranks), rank_(rank), size_(size), sharded_(sharded) {
  for (const Parameters* of : parameters)
    for (const Parameter& p : of->all()) {
      const Shape& shape = p.master.shape();
      slot_of_[&p] = slots_.size();
      slots_.push_back(
          {.shape = shape, .dtype = wide_of(p.master.dtype()), .learns = p.master.needs_grad(), .moved = &p});
      if (!p.means) continue;
      slots_.push_back({.shape = shape, .dtype = DType::f64});
      slots_.push_back({.shape = {shape[0]}, .dtype = DType::f64});
    }
  // Each to the rank that has least so far, large ones first.
  std::vector<size_t> order(slots_.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slots_[a].shape.numel() > slots_[b].shape.numel(); });
  std::vector<int64_t> held(size_t(size), 0);
  for (const size_t slot : order) {
    if (!slots_[slot].learns) continue;
    const auto least = std::min_element(held.begin(), held.end());
    slots_[slot].share = int(least - held.begin());
    *least += slots_[slot].shape.numel();
  }
}

int RankSum::rank_of(int64_t micro_batch, int64_t count) const {
  int rank = 0;
  while (first_of(rank + 1, count) <= micro_batch) ++rank;
  return rank;
}

int RankSum::owner(size_t slot, int64_t begin, int64_t end, int64_t count) const {
  const int first = rank_of(begin, count), ranks = rank_of(end - 1, count) - first + 1;
  return first + slots_[slot].share % ranks;
}

// spec: hpc.parallel | training | data parallel: micro-batches divided among ranks (mpirun, srun), gradients added
// along a fixed tree by messages, so that any number of ranks gives the same bits; sharded optimiser states (ZeRO-1) |
// TB 6.4.9
Gradients RankSum::join(Gradients left, Gradients right, int64_t begin, int64_t middle, int64_t end,
                        int64_t count) const {
  left.of.resize(slots_.size());
  right.of.resize(slots_.size());
  std::vector<Tensor> lefts(slots_.size()), rights(slots_.size());  // that come
  std::vector<Move> moves;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].learns) continue;
    const int to = owner(i, begin, end, count), of_left = owner(i, begin, middle, count),
              of_right = owner(i, middle, end, count);
    if (of_left != to) moves.push_back({rank_ == to ? &lefts[i] : &left.of[i], i, of_left, to});
    if (of_right != to) moves.push_back({rank_ == to ? &rights[i] : &right.of[i], i, of_right, to});
  }
  run(moves);
  for (const Move& move : moves)
    if (move.from == rank_) *move.tensor = Tensor();
  Gradients sum;
  sum.of.resize(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].learns || owner(i, begin, end, count) != rank_) continue;
    Tensor& a = lefts[i].defined() ? lefts[i] : left.of[i];
    Tensor& b = rights[i].defined() ? rights[i] : right.of[i];
    add_to(a, std::move(b));
    sum.of[i] = std::move(a);
  }
  return sum;
}

void RankSum::spread(Gradients& whole) const {
  std::vector<Move> moves;
  for (size_t i = 0; i < slots_.size(); ++i)
    for (int to = 0; slots_[i].learns && !(sharded_ && slots_[i].moved) && to < size_; ++to)
      if (to != slots_[i].share) moves.push_back({&whole.of[i], i, slots_[i].share, to});
  run(moves);
}

int RankSum::mover_of(const Parameter& parameter) const {
  return sharded() ? slots_[slot_of_.at(&parameter)].share : rank_;
}

void RankSum::share_moved() const {
  std::vector<Parameter::Storage> storages;
  storages.reserve(slots_.size());
  std::vector<Move> moves;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].learns || !slots_[i].moved) continue;
    Parameter::Storage& storage = storages.emplace_back(slots_[i].moved->storage());
    for (Tensor* tensor : {&storage.numbers, &storage.rest, &storage.rounded})
      for (int to = 0; tensor->defined() && to < size_; ++to)
        if (to != slots_[i].share) moves.push_back({tensor, i, slots_[i].share, to});
  }
  run(moves);
}

std::vector<std::vector<double>> RankSum::numbers_of_all(const std::vector<double>& mine) const {
  if (ranks_ && size_ > 1) return gather<double>(*ranks_, mine);
  return std::vector<std::vector<double>>(size_t(size_), mine);
}

void RankSum::count(const std::vector<Move>& moves) const {
  Traffic out, in;
  std::set<int> told, heard, packed_out, packed_in;  // a message each: what the tensors are, and small ones together
  const auto add = [](Traffic& to, int64_t bytes, int other, std::set<int>& kinds, std::set<int>& packed) {
    to.bytes += bytes;
    kinds.insert(other);
    if (bytes > int64_t(kSmall))
      ++to.messages;
    else
      packed.insert(other);
  };
  for (const Move& move : moves) {
    const Slot& slot = slots_[move.slot];
    const int64_t bytes = move.tensor->defined() ? move.tensor->bytes() : slot.shape.numel() * size_of(slot.dtype);
    if (move.from == rank_) add(out, bytes, move.to, told, packed_out);
    if (move.to == rank_) add(in, bytes, move.from, heard, packed_in);
  }
  traffic_.bytes += std::max(out.bytes, in.bytes);
  traffic_.messages += std::max(out.messages + int64_t(told.size() + packed_out.size()),
                                in.messages + int64_t(heard.size() + packed_in.size()));
}

void RankSum::run(const std::vector<Move>& moves) const {
  const auto arrived = [&](const Move& move, DType dtype) {
    if (!move.tensor->defined()) {
      const MemoryScope memory(MemoryClass::gradients);
      *move.tensor = empty(slots_[move.slot].shape, dtype, ranks_ ? Device::cpu : Device::meta);
    }
    return *move.tensor;
  };
  if (!ranks_) {
    count(moves);
    for (const Move& move : moves)
      if (move.to == rank_) arrived(move, slots_[move.slot].dtype);
    return;
  }
  // What each tensor is: 0 for none, else 1 + its type. One message a pair of ranks.
  std::map<int, std::vector<uint8_t>> told, heard;
  for (const Move& move : moves) {
    if (move.from == rank_)
      told[move.to].push_back(move.tensor->defined() ? uint8_t(1 + int(move.tensor->dtype())) : 0);
    if (move.to == rank_) heard[move.from].push_back(0);
  }
  std::vector<std::unique_ptr<Communicator::Request>> sent, coming;
  for (const auto& [to, kinds] : told) sent.push_back(ranks_->send(std::as_bytes(std::span(kinds)), to, kTag));
  for (auto& [from, kinds] : heard)
    coming.push_back(ranks_->receive(std::as_writable_bytes(std::span(kinds)), from, kTag));
  for (const auto& request : coming) request->wait();
  coming.clear();
  // Small tensors go together: a message costs more than their bytes.
  std::map<int, std::vector<std::byte>> packs, unpacks;
  std::vector<const Move*> large_out, large_in, small_in;
  std::map<int, size_t> next;
  for (const Move& move : moves) {
    if (move.from == rank_ && move.tensor->defined()) {
      const std::span<std::byte> bytes = bytes_of(*move.tensor);
      if (bytes.size() > kSmall)
        large_out.push_back(&move);
      else
        packs[move.to].insert(packs[move.to].end(), bytes.begin(), bytes.end());
    }
    if (move.to == rank_)
      if (const uint8_t kind = heard[move.from][next[move.from]++]) {
        const size_t bytes = bytes_of(arrived(move, DType(kind - 1))).size();
        (bytes > kSmall ? large_in : small_in).push_back(&move);
        if (bytes <= kSmall) unpacks[move.from].resize(unpacks[move.from].size() + bytes);
      }
  }
  for (auto& [from, bytes] : unpacks) coming.push_back(ranks_->receive(bytes, from, kTag));
  for (const Move* move : large_in) coming.push_back(ranks_->receive(bytes_of(*move->tensor), move->from, kTag));
  for (const auto& [to, bytes] : packs) sent.push_back(ranks_->send(bytes, to, kTag));
  for (const Move* move : large_out) sent.push_back(ranks_->send(bytes_of(*move->tensor), move->to, kTag));
  for (const auto& request : coming) request->wait();
  std::map<int, size_t> at;
  for (const Move* move : small_in) {
    const std::span<std::byte> bytes = bytes_of(*move->tensor);
    std::memcpy(bytes.data(), unpacks[move->from].data() + at[move->from], bytes.size());
    at[move->from] += bytes.size();
  }
  for (const auto& request : sent) request->wait();
}

}  // namespace lithe
