#include "lithe/parts/common/attention_core.h"

#include <cmath>

#include "lithe/ops/heads.h"

namespace lithe {

void AttentionConfig::fields(Fields& f) {
  sizes(f);
  f("scale", scale,
    "divisor of the logits: sqrt_head_dim, or sqrt_hidden: sqrt(hidden_size) (as printed in TB 6.28, E05)",
    one_of({"sqrt_head_dim", "sqrt_hidden"}));
  f("query_pre_attn_scalar", query_pre_attn_scalar,
    "logits are divided by the square root of this number instead of sqrt(head_dim), as in Gemma 2; 0: off",
    at_least(0));
  f("attn_logit_softcapping", attn_logit_softcapping,
    "logits become c tanh(logits / c) with this c, before the mask and position terms, as in Gemma 2; 0: off",
    at_least(0));
  f("attention_dropout", attention_dropout,
    "dropout probability of attention weights in training; the attention maps are then stored, which costs time and "
    "memory",
    between(0, 0.99));
  f("map", map,
    "attention weights: own; below: those of the nearest layer below that has its own (no queries and keys here); "
    "below_context: also the head results of that layer (no values here)",
    one_of({"own", "below", "below_context"}));
  biases(f);
  f.part("heads", "heads", heads, "maps rows to queries, keys and values per head");
  f.part("field", "field", field, "which pairs of tokens see each other (attention pattern)");
  f.part("output", "output", output, "maps the concatenated heads to rows");
}

std::vector<FieldInput::Keys> key_counts(const Sequences& keys) {
  std::vector<FieldInput::Keys> out;
  for (int64_t b = 0; b < keys.count(); ++b) out.push_back({keys.past(b), keys.length(b)});
  return out;
}

std::vector<FieldInput::Keys> key_counts(const std::vector<int64_t>& tokens) {
  std::vector<FieldInput::Keys> out;
  for (const int64_t count : tokens) out.push_back({0, count});
  return out;
}

Var attend_dropping(const Dropout& dropout, const Var& q, const Var& k, const Var& v, const SubLayerInput& in,
                    const AttendOptions& options) {
  constexpr int64_t kStages = 1 << 20;  // sequences that dropout keys of one stage tell apart
  const bool shows = training() && in.pass.wants(Tap::Kind::map);
  if (!dropout.active() && !shows) return attend(q, k, v, in.sequences, in.sequences, options);
  return attend_by_maps(q, k, v, in.sequences, options, [&](const Var& map, int64_t b) {
    if (shows) in.pass.put(Tap::Kind::map, map, b);
    return dropout.active() ? dropout(map, in.stage * kStages + b) : map;
  });
}

AttentionCore::AttentionCore(const Scope& scope, const AttentionConfig& config, const Mixer::Args& args,
                             const Position* position)
    : position_(position), softcap_(config.attn_logit_softcapping), drops_(config.attention_dropout > 0) {
  const Registry& registry = Registry::instance();
  Heads::Args size = config.args("attention", args.hidden_size);
  size.turns = position_ && position_->turns();
  size.capped = softcap_ > 0;
  head_dim_ = size.head_dim;
  if (position_) position_->check_head_dim(head_dim_), size.partners = position_->partners(head_dim_);
  heads_ = registry.make<Heads>(config.heads, scope / "heads", size);
  if (position_) position_->check_heads({heads_->query_heads(), heads_->key_dim(), heads_->value_dim()});
  field_ = registry.make<Field>(config.field, scope / "field",
                                {.causal = args.causal,
                                 .num_attention_heads = heads_->query_heads(),
                                 .cross = args.cross,
                                 .hidden_size = args.hidden_size,
                                 .kv_heads = heads_->kv_heads(),
                                 .key_dim = heads_->key_dim(),
                                 .value_dim = heads_->value_dim(),
                                 .query_heads = heads_->query_axis()});
  check_biases(position_, *field_, config.field.type);
  output_ = registry.make<Output>(
      config.output, scope / "output",
      {.context = heads_->context(), .hidden_size = args.hidden_size, .bias = config.output_bias});
  if (config.query_pre_attn_scalar == 0)
    scope.couples({config.scale == "sqrt_hidden" ? Dimension::hidden : Dimension::head_width});
  const bool looked_at = field_->reads_heads() || (position_ && position_->reads_heads());
  const auto face = [&](const Heads* other) { return other && !looked_at ? other : heads_.get(); };
  whole_ = face(heads_->folded()), kept_ = face(heads_->as_kept());
  scale_ = 1 / std::sqrt(config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar
                         : config.scale == "sqrt_hidden"  ? double(args.hidden_size)
                                                          : double(heads_->key_dim()));
  if (drops_) check_dropout(config, args.cross);
  dropout_ = Dropout(scope / "weights", config.attention_dropout);
}

void check_biases(const Position* position, const Field& field, const std::string& field_type) {
  if (!position || !position->biases() || !field.biases()) return;
  const BiasForm a = position->bias_form(), b = field.bias_form();
  const bool of_rows = (a.rows && b.rows) || (a.columns && b.columns);
  check_usage(!of_rows || !b.pairs, "model", "the position adds products of queries or keys to the logits (rpr, xl), ",
              "which field ", field_type,
              " multiplies as a whole, and the kernels multiply q.k alone; set apply: log_add or add, or give "
              "model.position another one");
  check_usage(
      !a.prior && !b.prior && !(a.table && b.table) && !of_rows && !(a.rates && b.rates) && !(a.pairs && b.pairs),
      "model", "the position and field ", field_type,
      " both change the weights, in ways that do not go together; leave one of them out: give model.position "
      "one that adds to rows or rotates queries and keys (rotary, sinusoidal, learned), or mixer.field full");
}

void AttentionCore::check_dropout(const AttentionConfig& config, bool cross) const {
  const auto refuse = [&](bool when, const auto&... why) {
    check_usage(!when, "model", "attention_dropout ", config.attention_dropout, why...);
  };
  refuse(cross, " has no cross form; give model.cross_attention a mixer without it");
  refuse(softcap_ > 0, " needs explicit maps, which attn_logit_softcapping has not; set one of them to 0");
  refuse(position_ && position_->biases(),
         " needs explicit maps, to which this position adds nothing; set it to 0, or give model.position one that adds "
         "to rows or rotates queries and keys (rotary, sinusoidal, learned), or none");
  refuse(!field_->one_mask(), " needs explicit maps of one mask for all heads, which field ", config.field.type,
         " has not; set it to 0, or give mixer.field full, or local with one window");
}

Heads::Input AttentionCore::input_of(const SubLayerInput& in) const {
  if (!heads_->reads_embedding()) return {in.x, in.x};
  const Var embedded = in.pass.embedded();
  return {in.x, !embedded.defined() ? in.x : in.wired ? in.wired(embedded) : embedded};
}

Heads::Turn AttentionCore::turn_by(const Sequences& sequences) const {
  return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, head_dim_) : x; };
}

AttendOptions AttentionCore::options(const Heads& heads, const SubLayerInput& in, const Var& q, const Var& k,
                                     const std::vector<FieldInput::Keys>& keys, const Tensor& labels,
                                     const Field* other) const {
  const Field& field = other ? *other : *field_;
  const FieldInput pairs{q, k, in.sequences, in.pass, in.x, keys, scale_, labels};
  kernels::AttentionPattern pattern = field.pattern(pairs);
  const bool biases = position_ && position_->biases();
  const int64_t count = heads.query_heads();
  LogitBias bias = join(biases ? position_->bias(pairs, count) : LogitBias{}, field.bias(pairs, count), count);
  if (in.log_presence.defined()) bias = join(bias, presence_bias(in.log_presence, count), count);
  return {.heads = heads.query_heads(),
          .kv_heads = heads.kv_heads(),
          .scale = scale_,
          .mask = pattern.mask,
          .head_masks = std::move(pattern.heads),
          .tiles = std::move(pattern.tiles),
          .bias = std::move(bias),
          .values = biases ? position_->values() : DistanceValues{},
          .softcap = softcap_};
}

MixerMaps AttentionCore::maps(const SubLayerInput& in, const Heads::Input& key_rows, const Sequences& keys) const {
  const Heads::Turn turn = turn_by(in.sequences);
  const Var q = heads_->queries(input_of(in), turn);
  const Heads::KeyValue kv = read(*heads_, heads_->keep(key_rows, turn), turn);
  return softmax_maps(q, repeat_heads(kv.k, heads_->kv_heads(), heads_->query_heads()),
                      options(*heads_, in, q, kv.k, key_counts(keys)));
}

}  // namespace lithe
