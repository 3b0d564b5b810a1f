#include "lithe/model/decode_state.h"

namespace lithe {

void DecodeState::each(const std::function<void(const Entry&, State&, size_t)>& f) const {
  for (const auto& layer : entries_)
    for (const Entry& entry : layer)
      for (size_t stage = 0; stage < entry.stages.size(); ++stage)
        if (entry.stages[stage]) f(entry, *entry.stages[stage], stage);
}

int64_t DecodeState::bytes() const {
  int64_t total = 0;
  each([&](const Entry&, State& state, size_t) { total += state.bytes(); });
  return total;
}

void DecodeState::reorder(const std::vector<int64_t>& from) {
  std::vector<int64_t> lengths;
  for (int64_t i : from) {
    check(i >= 0 && i < sequences(), "state", "reorder from sequence ", i, " of ", sequences());
    lengths.push_back(length(i));
  }
  each([&](const Entry&, State& state, size_t) { state.reorder(from); });
  lengths_ = std::move(lengths);
}

void DecodeState::check_differentiable() const {
  each([](const Entry& entry, State& state, size_t) {
    check(state.differentiable(), "state", entry.part,
          " has no gradient through its state; run whole sequences "
          "without one, or without a tape");
  });
}

bool DecodeState::truncates() const {
  bool all = true;
  each([&](const Entry&, State& state, size_t) { all = all && state.truncates(); });
  return all;
}

void DecodeState::truncate(int64_t sequence, int64_t tokens) {
  check(sequence >= 0 && sequence < sequences() && tokens >= 0 && tokens <= length(sequence), "state",
        "cannot truncate sequence ", sequence, " to ", tokens, " tokens");
  each([&](const Entry& entry, State& state, size_t) {
    if (entry.keeps_target) state.truncate(sequence, tokens);
  });
  lengths_[size_t(sequence)] = tokens;
}

constexpr const char* kTokens = "tokens";

NamedTensors DecodeState::save() const {
  NamedTensors out;
  out[kTokens] = tensor_of_counts(lengths_);
  each([&](const Entry& entry, State& state, size_t stage) {
    for (auto& [name, tensor] : state.save()) out[cat(entry.part, ".", stage, ".", name)] = tensor;
  });
  return out;
}

void DecodeState::restore(const NamedTensors& kept) {
  std::vector<int64_t> lengths = counts_of(kept_tensor(kept, kTokens), sequences());
  each([&](const Entry& entry, State& state, size_t stage) {
    const std::string prefix = cat(entry.part, ".", stage, ".");
    NamedTensors mine;
    for (auto at = kept.lower_bound(prefix); at != kept.end() && at->first.starts_with(prefix); ++at)
      mine[at->first.substr(prefix.size())] = at->second;
    state.restore(mine);
    if (!entry.source.empty()) sources.insert(entry.source);
  });
  lengths_ = std::move(lengths);
}

void DecodeState::advance(const Sequences& added) {
  for (int64_t b = 0; b < sequences(); ++b) lengths_[size_t(b)] += added.length(b);
}

}  // namespace lithe
