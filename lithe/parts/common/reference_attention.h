// Attention whose maps do not depend on the text: queries and keys come from a reference sequence that runs through the
// same layers beside it [TH Eq 4.9-4.12]. The common ground of rnd_emb_qk and fixed_seq_qk.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {

struct ReferenceAttentionConfig : HeadSizes {
  int64_t seed = 0;
  PartChoice output{"dense", {}};
  void fields(Fields& f);
};

/// In the reference's own pass x is the reference itself, and attends to itself. One causal map serves the whole batch,
/// for its leading rows are those of every length; where a row sees all of its sequence, each length has a map of its
/// own. Decoding keeps each sequence's values and one copy of the reference's keys.
class ReferenceAttention : public Mixer {
 public:
  ReferenceAttention(const Scope& scope, const ReferenceAttentionConfig& config, const Args& args, Reference reference);
  Var forward(const SubLayerInput& in) const override;
  std::optional<Reference> reference() const override { return reference_; }
  int64_t limit() const override { return int64_t(reference_.ids.size()); }
  std::unique_ptr<State> make_state(const StateShape& shape) const override;
  /// Values of every sequence, keys of the longest.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override;
  MixerMaps maps(const SubLayerInput& in) const override;

 private:
  Reference reference_;
  const Position* position_;
  bool causal_;
  int64_t heads_, head_dim_ = 0;
  Linear q_, k_, v_;
  std::unique_ptr<Output> output_;

  kernels::AttentionMask mask() const { return {.causal = causal_}; }
  Var turned(const Var& x, const Sequences& sequences) const;
  Var rows_of(const Var& reference, const Sequences& sequences) const;
  Var step(const SubLayerInput& in) const;
};

}  // namespace lithe
