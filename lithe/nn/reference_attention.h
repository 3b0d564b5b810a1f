// Attention whose maps do not depend on the text: queries and keys come from a reference sequence that runs through the
// same layers beside it [TH Eq 4.9-4.12]. The common ground of rnd_emb_qk and fixed_seq_qk.
#pragma once

#include "lithe/nn/projected_heads.h"
#include "lithe/nn/registry.h"

namespace lithe {

struct ReferenceAttentionConfig : HeadSizes {
  int64_t seed = 0;
  PartChoice output{"dense", {}};
  void fields(Fields& f);
};

/// The reference's rows reach it as the companion; where there is none, x is the reference itself, and attends to
/// itself. One map serves the whole batch. Decoding keeps each sequence's values and one copy of the reference's keys.
class ReferenceAttention : public Mixer {
 public:
  ReferenceAttention(const Scope& scope, const ReferenceAttentionConfig& config, const Args& args, Companion companion);
  Var forward(const MixerInput& in) const override;
  Companion companion() const override { return companion_; }
  int64_t limit() const override { return int64_t(companion_.ids.size()); }
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t capacity, DType dtype,
                                         Device device) const override;
  /// Values of every sequence, keys of the longest.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override;
  MixerMaps maps(const MixerInput& in) const override;

 private:
  Companion companion_;
  const Position* position_;
  int64_t heads_, head_dim_ = 0;
  Linear q_, k_, v_;
  std::unique_ptr<Output> output_;

  Var turned(const Var& x, const Sequences& sequences) const;
  Var step(const MixerInput& in) const;
};

}  // namespace lithe
