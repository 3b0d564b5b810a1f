#include "lithe/parts/common/reference_attention.h"

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/token_map.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {
namespace {

class ReferenceState final : public State {
 public:
  ReferenceState(const StateShape& shape, int64_t cols)
      : values(shape, {.keys = cols, .values = cols, .shared = true}) {
    const MemoryScope memory(MemoryClass::decode);
    keys = empty({shape.capacity, cols}, shape.dtype, shape.device);
  }
  int64_t bytes() const override { return values.bytes() + values.longest() * keys.cols() * size_of(keys.dtype()); }
  void reorder(const std::vector<int64_t>& from) override { values.reorder(from); }
  bool truncates() const override { return true; }
  void truncate(int64_t sequence, int64_t tokens) override { values.truncate(sequence, tokens); }
  NamedTensors save() const override { return values.save(); }
  void restore(const NamedTensors& kept) override { values.restore(kept); }

  KeyValueCache values;
  Tensor keys;
  bool filled = false;  // keys, which depend on the weights only
};

}  // namespace

void ReferenceAttentionConfig::fields(Fields& f) {
  sizes(f);
  biases(f);
  f("seed", seed, "seed of the reference sequence, if it is random", at_least(0));
  f.part("output", "output", output, "maps the concatenated heads to rows");
}

ReferenceAttention::ReferenceAttention(const Scope& scope, const ReferenceAttentionConfig& config, const Args& args,
                                       Reference reference)
    : reference_(std::move(reference)),
      position_(args.position),
      causal_(args.causal),
      heads_(config.num_attention_heads) {
  const Heads::Args size = config.args("attention", args.hidden_size);
  const int64_t d = args.hidden_size;
  head_dim_ = size.head_dim;
  if (position_) position_->check_head_dim(head_dim_);
  const Scope heads = scope / "heads";
  const Axis rows = Axis::hidden(d), width = Axis::query_heads(heads_, heads_, head_dim_);
  q_ = Linear(heads / "q", rows, width, config.attention_bias, InitRole::query_key);
  k_ = Linear(heads / "k", rows, width, config.attention_bias, InitRole::query_key);
  v_ = Linear(heads / "v", rows, width, config.attention_bias);
  scope.couples({Dimension::head_width});  // logits are divided by the root of it
  if (reference_.ids.empty()) scope.couples({reference_.text ? Dimension::vocabulary : Dimension::hidden});  // drawn
  output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                              {.context = width, .hidden_size = d, .bias = config.output_bias});
}

Var ReferenceAttention::turned(const Var& x, const Sequences& sequences) const {
  return position_ ? position_->turn(x, sequences, head_dim_) : x;
}

// The reference's rows at the positions of the sequences' rows.
Var ReferenceAttention::rows_of(const Var& reference, const Sequences& sequences) const {
  std::vector<int64_t> positions;
  for (int64_t b = 0; b < sequences.count(); ++b)
    for (int64_t i = 0; i < sequences.length(b); ++i) positions.push_back(sequences.past(b) + i);
  return pick_rows(reference, positions);
}

Var ReferenceAttention::forward(const SubLayerInput& in) const {
  if (in.state) return output_->forward(step(in));
  const Var v = v_(in.x);
  const Var reference = in.pass.reference();
  if (!reference.defined() || !causal_) {
    const auto projected = [&](const Linear& to) {
      return reference.defined() ? rows_of(to(reference), in.sequences) : to(in.x);
    };
    return output_->forward(attend(turned(projected(q_), in.sequences), turned(projected(k_), in.sequences), v,
                                   in.sequences, in.sequences, {.heads = heads_, .kv_heads = heads_, .mask = mask()}));
  }
  const Sequences sequence = Sequences::single(reference.rows(), in.x.device());
  const Var map = attention_map(turned(q_(reference), sequence), turned(k_(reference), sequence), heads_, 0, mask());
  return output_->forward(mix_tokens(map, v, in.sequences, heads_));
}

// Rows that continue sequences: their queries are the reference's at the same positions.
Var ReferenceAttention::step(const SubLayerInput& in) const {
  const Var reference = in.pass.reference();
  check(reference.defined(), "attention", "decoding with a reference sequence needs its rows; decode through a model");
  auto& state = static_cast<ReferenceState&>(*in.state);
  const int64_t reach = reference.rows();
  for (int64_t b = 0; b < in.sequences.count(); ++b)
    check(in.sequences.past(b) + in.sequences.length(b) <= reach, "attention", "a sequence of ",
          in.sequences.past(b) + in.sequences.length(b), " tokens is longer than the reference sequence of ", reach);
  if (!state.filled) {
    const Sequences sequence = Sequences::single(reach, in.x.device());
    kernels::add({.a = turned(k_(reference), sequence).value(), .out = state.keys.slice(0, reach)});
    state.filled = true;
  }
  const Var v = v_(in.x);
  state.values.append(v.value(), v.value(), in.sequences);
  std::vector<KeyValues> caches;
  for (int64_t b = 0; b < in.sequences.count(); ++b)
    caches.push_back({state.keys, state.values.entries()[size_t(b)].values});
  const Var q = turned(q_(rows_of(reference, in.sequences)), in.sequences);
  return attend_cached(q.value(), caches, state.values.tokens(), in.sequences,
                       {.heads = heads_, .kv_heads = heads_, .mask = mask()});
}

std::unique_ptr<State> ReferenceAttention::make_state(const StateShape& shape) const {
  return std::make_unique<ReferenceState>(shape, heads_ * head_dim_);
}

int64_t ReferenceAttention::state_bytes(const std::vector<int64_t>& tokens, DType dtype) const {
  const int64_t width = heads_ * head_dim_;
  const int64_t longest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  return KeyValueCache::bytes_of(tokens, {.keys = width, .values = width, .shared = true}, dtype) +
         longest * width * size_of(dtype);
}

MixerMaps ReferenceAttention::maps(const SubLayerInput& in) const {
  const Var of_reference = in.pass.reference();
  const bool of_text = !of_reference.defined() || !causal_;
  const Var rows = !of_text ? of_reference : of_reference.defined() ? rows_of(of_reference, in.sequences) : in.x;
  const Sequences sequence = of_text ? in.sequences : Sequences::single(rows.rows(), in.x.device());
  return softmax_maps(turned(q_(rows), sequence), turned(k_(rows), sequence),
                      {.heads = heads_, .kv_heads = heads_, .mask = mask()});
}

}  // namespace lithe
