// A convolution along time inside a part: causal with a state of its last rows, or centred.
#pragma once

#include <cmath>

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/convolution.h"
#include "lithe/ops/long_convolution.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {

/// The rows that a causal convolution of `taps` taps keeps: (taps - 1) C numbers, in f32 at least.
class TimeConvolution {
 public:
  TimeConvolution() = default;
  TimeConvolution(const char* owner, int64_t taps, int64_t channels, bool causal)
      : owner_(owner), taps_(taps), channels_(channels), ahead_(causal ? 0 : (taps - 1) / 2) {}

  Var operator()(const Var& x, const Var& w, const Sequences& sequences, State* state) const {
    if (taps_ > kDirectRows && !state) return long_convolution(x, w, sequences, ahead_);
    return convolution(x, w, sequences, ahead_, states(sequences, state));
  }
  Var rows(const Var& x, const Sequences& sequences, State* state) const {
    return unfold(x, taps_, sequences, ahead_, states(sequences, state));
  }
  int64_t taps() const { return taps_; }
  std::unique_ptr<State> make_state(const StateShape& shape) const {
    return std::make_unique<RecurrentState>(owner_, shape, Shape{taps_ - 1, channels_}, true);
  }
  int64_t state_bytes(size_t sequences, DType dtype) const {
    return int64_t(sequences) * (taps_ - 1) * channels_ * size_of(wide_of(dtype));
  }

 private:
  const char* owner_ = "";
  int64_t taps_ = 1, channels_ = 0, ahead_ = 0;
  static std::vector<Tensor> states(const Sequences& sequences, State* state) {
    if (!state) return {};
    return static_cast<RecurrentState&>(*state).advance(sequences);
  }
};

/// Taps [k, C] that start small and even: normal of deviation 1/sqrt(k), none of which weight decay or depth scales.
inline Parameter* make_taps(const Scope& scope, int64_t taps, const Axis& channels) {
  const InitConfig init{.std = 1 / std::sqrt(double(taps))};
  return scope.parameter("taps", {Axis::taps(taps), channels}, InitRole::embedding, {.init = &init, .wide = true});
}
/// As the kernels read them: in f32 at least.
inline Var wide_taps(const Parameter* taps) {
  const Var w = taps->var();
  return w.dtype() == wide_of(w.dtype()) ? w : cast(w, wide_of(w.dtype()));
}

}  // namespace lithe
