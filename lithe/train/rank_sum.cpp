#include "lithe/train/rank_sum.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "lithe/model/layer_of.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/operations.h"
#include "lithe/train/rank_moves.h"

namespace lithe {

void with_all_tensors(Communicator* ranks, const std::map<std::string, PlacedTensor>& all,
                      const std::function<void(const std::map<std::string, PendingTensor>&)>& write) {
  constexpr int kTag = 2;
  if (ranks && ranks->rank() > 0) {
    for (const auto& [name, of] : all) {
      if (of.rank != ranks->rank()) continue;
      const Tensor mine = of.tensor.read();
      ranks->send(bytes_of(mine), 0, kTag)->wait();
    }
    return;
  }
  std::map<std::string, PendingTensor> whole;
  for (const auto& [name, of] : all) {
    whole[name] = of.tensor;
    if (!ranks || of.rank == 0) continue;
    whole[name].read = [ranks, from = of.rank, shape = of.tensor.shape, dtype = of.tensor.dtype] {
      const MemoryScope memory(MemoryClass::workspace);
      const Tensor out = empty(shape, dtype);
      ranks->receive(bytes_of(out), from, kTag)->wait();
      return out;
    };
  }
  write(whole);
}

Gradients& Gradients::operator+=(Gradients&& other) {
  check(of.size() == other.of.size(), "step", "gradients of ", of.size(), " and of ", other.of.size(),
        " parameters are not of one model");
  for (size_t i = 0; i < of.size(); ++i) add_gradient(of[i], std::move(other.of[i]));
  return *this;
}

RankSum::RankSum(Communicator* ranks, int rank, int size, const std::vector<Parameters*>& parameters,
                 const ParallelConfig& config)
    : ranks_(ranks),
      rank_(rank),
      size_(size),
      sharded_(config.optimizer_states == "sharded"),
      rounded_(config.messages == "bf16"),
      weights_(config.weights == "sharded") {
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

DType RankSum::message_dtype(size_t slot) const {
  const Slot& of = slots_[slot];
  return rounded_ && of.moved && of.dtype == DType::f32 ? DType::bf16 : of.dtype;
}

Tensor RankSum::rounded(size_t slot, Tensor gradient) const {
  return gradient.defined() ? in_dtype(std::move(gradient), message_dtype(slot)) : gradient;
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
  bool last = true;
  each_shared(0, count, count,
              [&](int64_t, int64_t end) { last = last && first_of(rank_of(end - 1, count) + 1, count) <= end; });
  return last;
}

int RankSum::mover_of(const Parameter& parameter) const {
  return sharded() ? slots_[slot_of_.at(&parameter)].share : rank_;
}

bool RankSum::apart(const Parameter& parameter) const {
  return shares_weights() && slots_[slot_of_.at(&parameter)].learns && layer_of(parameter.name) >= 0;
}

void RankSum::bring(const std::vector<Parameter*>& parameters) const {
  std::vector<Tensor> numbers;
  numbers.reserve(parameters.size());
  std::vector<Move> moves;
  for (const Parameter* p : parameters) {
    const size_t slot = slot_of_.at(p);
    Tensor* const tensor = &numbers.emplace_back(p->master.value());
    for (int to = 0; to < size_; ++to)
      if (to != slots_[slot].share) moves.push_back({tensor, slot, slots_[slot].share, to});
  }
  run(std::move(moves));
}

void RankSum::share_moved() const {
  std::vector<Parameter::Storage> storages;
  storages.reserve(slots_.size());
  std::vector<Move> moves;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].learns || !slots_[i].moved || apart(*slots_[i].moved)) continue;
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
    const int64_t bytes =
        move.tensor->defined() ? move.tensor->bytes() : slot.shape.numel() * size_of(message_dtype(move.slot));
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
