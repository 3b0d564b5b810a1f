#include "lithe/train/rank_moves.h"

#include <cstring>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

constexpr int kTag = 1;

}  // namespace

void add_gradient(Tensor& a, Tensor b) {
  if (!a.defined())
    a = std::move(b);
  else if (b.defined())
    kernels::add({.a = a, .b = b, .out = a});
}

Tensor in_dtype(Tensor gradient, DType dtype) {
  if (gradient.dtype() == dtype) return gradient;
  const MemoryScope memory(MemoryClass::gradients);
  const Tensor out = empty(gradient.shape(), dtype, gradient.device());
  kernels::add({.a = gradient, .out = out});
  return out;
}

RankSum::Moving::Moving(const RankSum& ranks, std::vector<Move> moves) : ranks_(ranks), moves_(std::move(moves)) {
  if (!ranks_.ranks_) {
    ranks_.count(moves_);
    return;
  }
  for (const Move& move : moves_) {
    if (move.from == ranks_.rank_)
      told_[move.to].push_back(move.tensor->defined() ? uint8_t(1 + int(move.tensor->dtype())) : 0);
    if (move.to == ranks_.rank_) heard_[move.from].push_back(0);
  }
  for (const auto& [to, kinds] : told_) sent_.push_back(ranks_.ranks_->send(std::as_bytes(std::span(kinds)), to, kTag));
  for (auto& [from, kinds] : heard_)
    coming_.push_back(ranks_.ranks_->receive(std::as_writable_bytes(std::span(kinds)), from, kTag));
}

Tensor RankSum::Moving::arrived(const Move& move, DType dtype) const {
  if (!move.tensor->defined()) {
    const MemoryScope memory(MemoryClass::gradients);
    *move.tensor = empty(ranks_.slots_[move.slot].shape, dtype, ranks_.ranks_ ? Device::cpu : Device::meta);
  }
  return *move.tensor;
}

void RankSum::Moving::wait_for_coming() {
  for (const auto& request : coming_) request->wait();
  coming_.clear();
}

void RankSum::Moving::carry() {
  Communicator* const all = ranks_.ranks_;
  if (!all) {
    for (const Move& move : moves_)
      if (move.to == ranks_.rank_) arrived(move, ranks_.message_dtype(move.slot));
    return;
  }
  wait_for_coming();
  std::vector<const Move*> large_out, large_in;
  std::map<int, size_t> next;
  for (const Move& move : moves_) {
    if (move.from == ranks_.rank_ && move.tensor->defined()) {
      const std::span<std::byte> bytes = bytes_of(*move.tensor);
      if (bytes.size() > kSmallMessage)
        large_out.push_back(&move);
      else
        packs_[move.to].insert(packs_[move.to].end(), bytes.begin(), bytes.end());
    }
    if (move.to == ranks_.rank_)
      if (const uint8_t kind = heard_[move.from][next[move.from]++]) {
        const size_t bytes = bytes_of(arrived(move, DType(kind - 1))).size();
        (bytes > kSmallMessage ? large_in : small_in_).push_back(&move);
        if (bytes <= kSmallMessage) unpacks_[move.from].resize(unpacks_[move.from].size() + bytes);
      }
  }
  for (auto& [from, bytes] : unpacks_) coming_.push_back(all->receive(bytes, from, kTag));
  for (const Move* move : large_in) coming_.push_back(all->receive(bytes_of(*move->tensor), move->from, kTag));
  for (const auto& [to, bytes] : packs_) sent_.push_back(all->send(bytes, to, kTag));
  for (const Move* move : large_out) sent_.push_back(all->send(bytes_of(*move->tensor), move->to, kTag));
}

void RankSum::Moving::end() {
  if (!ranks_.ranks_) return;
  wait_for_coming();
  std::map<int, size_t> at;
  for (const Move* move : small_in_) {
    const std::span<std::byte> bytes = bytes_of(*move->tensor);
    std::memcpy(bytes.data(), unpacks_[move->from].data() + at[move->from], bytes.size());
    at[move->from] += bytes.size();
  }
  for (const auto& request : sent_) request->wait();
  sent_.clear();
}

void RankSum::Moving::poke() {
  for (const auto& request : coming_) request->done();
  for (const auto& request : sent_) request->done();
}

RankSum::Joining::Joining(const RankSum& ranks, std::vector<size_t> slots, Gradients& left, Gradients& right,
                          const Place& at)
    : ranks_(ranks),
      slots_(std::move(slots)),
      left_(left),
      right_(right),
      at_(at),
      lefts_(slots_.size()),
      rights_(slots_.size()),
      moving(ranks, moves()) {}

std::vector<RankSum::Move> RankSum::Joining::moves() {
  std::vector<Move> out;
  for (size_t k = 0; k < slots_.size(); ++k) {
    const size_t i = slots_[k];
    if (!ranks_.slots_[i].learns) continue;
    const int to = ranks_.owner(i, at_.begin, at_.end, at_.count),
              of_left = ranks_.owner(i, at_.begin, at_.middle, at_.count),
              of_right = ranks_.owner(i, at_.middle, at_.end, at_.count);
    const auto go = [&](int from, Tensor& here, Tensor& coming) {
      if (from == to) return;
      if (from == ranks_.rank_) here = ranks_.rounded(i, std::move(here));
      out.push_back({ranks_.rank_ == to ? &coming : &here, i, from, to});
    };
    go(of_left, left_.of[i], lefts_[k]);
    go(of_right, right_.of[i], rights_[k]);
  }
  return out;
}

void RankSum::Joining::add_into(Gradients& sum) {
  for (size_t k = 0; k < slots_.size(); ++k) {
    const size_t i = slots_[k];
    Tensor a = std::exchange(left_.of[i], Tensor()), b = std::exchange(right_.of[i], Tensor());
    if (lefts_[k].defined()) a = in_dtype(std::move(lefts_[k]), ranks_.slots_[i].dtype);
    if (rights_[k].defined()) b = in_dtype(std::move(rights_[k]), ranks_.slots_[i].dtype);
    const bool here = ranks_.slots_[i].learns && ranks_.owner(i, at_.begin, at_.end, at_.count) == ranks_.rank_;
    if (!here) continue;
    add_gradient(a, std::move(b));
    sum.of[i] = std::move(a);
  }
}

}  // namespace lithe
