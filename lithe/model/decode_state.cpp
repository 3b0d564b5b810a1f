#include "lithe/model/decode_state.h"

namespace lithe {

int64_t DecodeState::bytes() const {
  int64_t total = 0;
  for (const States* states : {&layers_, &cross_})
    for (const auto& state : *states)
      if (state) total += state->bytes();
  return total;
}

void DecodeState::reorder(const std::vector<int64_t>& from) {
  std::vector<int64_t> lengths;
  for (int64_t i : from) {
    check(i >= 0 && i < sequences(), "state", "reorder from sequence ", i, " of ", sequences());
    lengths.push_back(length(i));
  }
  for (const States* states : {&layers_, &cross_})
    for (const auto& state : *states)
      if (state) state->reorder(from);
  lengths_ = std::move(lengths);
}

void DecodeState::truncate(int64_t sequence, int64_t tokens) {
  check(sequence >= 0 && sequence < sequences() && tokens >= 0 && tokens <= length(sequence), "state",
        "cannot truncate sequence ", sequence, " to ", tokens, " tokens");
  for (const auto& layer : layers_)
    if (layer) layer->truncate(sequence, tokens);
  lengths_[size_t(sequence)] = tokens;
}

void DecodeState::advance(const Sequences& added) {
  for (int64_t b = 0; b < sequences(); ++b) lengths_[size_t(b)] += added.length(b);
}

}  // namespace lithe
