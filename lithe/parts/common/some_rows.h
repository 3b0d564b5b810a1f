// Layers that run for some rows, while others pass them unchanged: the common ground of the stacks early_exit and
// layer_skip.
#pragma once

#include <algorithm>
#include <vector>

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"

namespace lithe {

/// The layer's rows where goes[row] is set, x elsewhere. A state is brought forward for all rows, as if those that pass
/// had run the layer and had then been put back. Sequences none of whose rows go cost no more than that; where some do,
/// all rows of the sequence are run. The bits of a row do not depend on other sequences.
inline Rows run_some(const Layers& layers, int64_t layer, const Rows& x, const std::vector<char>& goes,
                     const Pass& pass) {
  const Sequences& s = x.sequences;
  if (std::all_of(goes.begin(), goes.end(), [](char g) { return g != 0; })) return layers.run(layer, x, pass);
  // A state has all sequences, so that those without rows stay in the count.
  const bool keeps = pass.state() != nullptr;
  std::vector<int64_t> running, waiting, running_offsets{0}, waiting_offsets{0}, past, past_of_running;
  for (int64_t b = 0; b < s.count(); ++b) {
    past.push_back(s.past(b));
    const auto begin = goes.begin() + s.offset(b), end = goes.begin() + s.offset(b + 1);
    const bool some = std::any_of(begin, end, [](char g) { return g != 0; });
    past_of_running.push_back(s.past(b) + (some ? 0 : s.length(b)));  // those that wait are brought forward first
    for (int64_t row = s.offset(b); row < s.offset(b + 1); ++row) (some ? running : waiting).push_back(row);
    if (keeps || some) running_offsets.push_back(int64_t(running.size()));
    if (keeps || !some) waiting_offsets.push_back(int64_t(waiting.size()));
  }
  if (!keeps) past.clear(), past_of_running.clear();
  const Device device = x.x.device();
  if (keeps && !waiting.empty())
    layers.skip(layer,
                {running.empty() ? x.x : pick_rows(x.x, waiting), Sequences(std::move(waiting_offsets), past, device)},
                pass);
  if (running.empty()) return x;
  const Rows in{waiting.empty() ? x.x : pick_rows(x.x, running),
                Sequences(std::move(running_offsets), past_of_running, device)};
  const Var y = layers.run(layer, in, pass).x;
  std::vector<int64_t> from(size_t(s.rows()));
  for (int64_t row = 0; row < s.rows(); ++row) from[size_t(row)] = y.rows() + row;
  for (size_t i = 0; i < running.size(); ++i)
    if (goes[size_t(running[i])]) from[size_t(running[i])] = int64_t(i);
  return {pick_rows(concatenate_rows({y, x.x}), from), s};
}

/// A step of a training runs. Elsewhere a recorded choice is the constant that it is, and has that gradient.
inline bool in_training_step() { return step_context().step != 0; }

/// `hard` (zeros and ones) whose gradient is that of `soft`, of which it is the rounded value [Bengio et al. 2013].
inline Var straight_through(const Var& soft, const Tensor& hard) {
  return record("straight_through", {soft}, hard,
                [soft = soft.ref()](const Tensor& dy, Grads& g) { g.give(soft, dy); });
}

}  // namespace lithe
