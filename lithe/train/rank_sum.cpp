#include "lithe/train/rank_sum.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "lithe/parallel/gather.h"
#include "lithe/train/rank_moves.h"

namespace lithe {
Gradients& Gradients::operator+=(Gradients&& other) {
  check(of.size() == other.of.size(), "step", "gradients of ", of.size(), " and of ", other.of.size(),
        " parameters are not of one model");
  for (size_t i = 0; i < of.size(); ++i) add_gradient(of[i], std::move(other.of[i]));
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

int RankSum::rank_of(int64_t micro_batch, int64_t count) const { return int(((micro_batch + 1) * size_ - 1) / count); }

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
  std::vector<size_t> all(slots_.size());
  std::iota(all.begin(), all.end(), size_t(0));
  Joining joining(*this, all, left, right, {begin, middle, end, count});
  joining.moving.carry();
  joining.moving.end();
  Gradients sum;
  sum.of.resize(slots_.size());
  joining.add_into(sum);
  return sum;
}

bool RankSum::joins_last(int64_t count) const {
  const auto below = [&](const auto& self, int64_t begin, int64_t end) -> bool {
    const int last = rank_of(end - 1, count);
    if (rank_of(begin, count) == last) return true;
    const int64_t middle = begin + (int64_t(1) << (level_of(begin, end) - 1));
    return first_of(last + 1, count) <= end && self(self, begin, middle) && self(self, middle, end);
  };
  return below(below, 0, count);
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
  run(std::move(moves));
}

std::vector<std::vector<double>> RankSum::numbers_of_all(const std::vector<double>& mine) const {
  if (ranks_ && size_ > 1) return gather<double>(*ranks_, mine);
  return std::vector<std::vector<double>>(size_t(size_), mine);
}

void RankSum::count(const std::vector<Move>& moves) const {
  std::set<int> told, heard, packed_out, packed_in;  // a message each: what the tensors are, and small ones together
  const auto add = [](Traffic& to, int64_t bytes, int other, std::set<int>& kinds, std::set<int>& packed) {
    to.bytes += bytes;
    kinds.insert(other);
    if (bytes > int64_t(kSmallMessage))
      ++to.messages;
    else
      packed.insert(other);
  };
  for (const Move& move : moves) {
    const Slot& slot = slots_[move.slot];
    const int64_t bytes = move.tensor->defined() ? move.tensor->bytes() : slot.shape.numel() * size_of(slot.dtype);
    if (move.from == rank_) add(sent_, bytes, move.to, told, packed_out);
    if (move.to == rank_) add(taken_, bytes, move.from, heard, packed_in);
  }
  sent_.messages += int64_t(told.size() + packed_out.size());
  taken_.messages += int64_t(heard.size() + packed_in.size());
}

void RankSum::run(std::vector<Move> moves) const {
  Moving moving(*this, std::move(moves));
  moving.carry();
  moving.end();
}

}  // namespace lithe
