// Softmax attention, composed as heads, then the core with field and position, then output
// [TB Eq 6.19-6.31]. Its state is a cache of keys and values [TB 6.1.7, Fig 6.5].
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/key_value_cache.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

struct AttentionConfig : HeadSizes {
  std::string scale = "sqrt_head_dim", map = "own";
  double attention_dropout = 0, query_pre_attn_scalar = 0, attn_logit_softcapping = 0;
  PartChoice heads{"mha", {}}, field{"full", {}}, output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("scale", scale, "logits are divided by sqrt_head_dim, or by sqrt_hidden (the literal TB 6.28, E05)",
      one_of({"sqrt_head_dim", "sqrt_hidden"}));
    f("query_pre_attn_scalar", query_pre_attn_scalar,
      "logits are divided by the root of this number in place of that of the head's channels; 0: not", at_least(0));
    f("attn_logit_softcapping", attn_logit_softcapping,
      "logits are c tanh(logits / c) of this c before mask and positions; 0: as they are", at_least(0));
    f("attention_dropout", attention_dropout,
      "dropout of attention weights while training; keeps the maps, which costs time and memory", between(0, 0.99));
    f("map", map,
      "attention weights: own; or those of the nearest layer below with its own, without queries and keys (below), or "
      "its heads' results, without values as well (below_context)",
      one_of({"own", "below", "below_context"}));
    biases(f);
    f.part("heads", "heads", heads, "rows to per-head queries, keys and values");
    f.part("field", "field", field, "which pairs of tokens may meet");
    f.part("output", "output", output, "concatenated heads to rows");
  }
};

// spec: decon.standard | mixer | causal heads mha with rotary positions, the baseline | TH Eq 4.1-4.3
// spec: share.attn_map | mixer | a layer takes the attention weights of one below, and has values alone | TB 6.4.4
class Attention final : public Mixer, public SharedMap {
 public:
  // Positions of two texts are of no common sequence: cross-attention does not turn.
  Attention(const Scope& scope, const AttentionConfig& config, const Args& args)
      : position_(args.cross ? nullptr : args.position),
        cross_(args.cross),
        borrows_(config.map != "own"),
        context_(config.map == "below_context") {
    const int64_t d = args.hidden_size;
    Heads::Args size = config.args("attention", d);
    if (borrows_) {
      build_borrower(scope, config, args, size);
      return;
    }
    size.turns = position_ && position_->turns();
    size.capped = config.attn_logit_softcapping > 0;
    head_dim_ = size.head_dim;
    if (position_) position_->check_head_dim(head_dim_), size.partners = position_->partners(head_dim_);
    const Registry& registry = Registry::instance();
    heads_ = registry.make<Heads>(config.heads, scope / "heads", size);
    field_ = registry.make<Field>(config.field, scope / "field",
                                  {.causal = args.causal,
                                   .num_attention_heads = heads_->query_heads(),
                                   .cross = args.cross,
                                   .hidden_size = d,
                                   .head_dim = head_dim_,
                                   .kv_heads = heads_->kv_heads()});
    output_ = registry.make<Output>(config.output, scope / "output",
                                    {.context = heads_->context(), .hidden_size = d, .bias = config.output_bias});
    if (config.query_pre_attn_scalar == 0)
      scope.couples({config.scale == "sqrt_hidden" ? Dimension::hidden : Dimension::head_width});
    // Fields that look at queries and keys are to see those of the heads.
    const bool plain = !cross_ && !field_->biases() && !reads_keys();
    kept_ = plain && heads_->as_kept() ? heads_->as_kept() : heads_.get();
    scale_ = config.scale == "sqrt_hidden" ? 1 / std::sqrt(double(d)) : 0;
    if (config.query_pre_attn_scalar > 0) scale_ = 1 / std::sqrt(config.query_pre_attn_scalar);
    if (!cross_ && position_ && kept_->expands() && kept_->turns_kept() && !reads_keys())
      key_turn_ = position_->key_turn(head_dim_);
    columns_ = {.keys = kept_->kept_columns(),
                .values = kept_->kept_value_columns(),
                .shared = kept_->shares(),
                .heads = forms_keys() ? 1 : kept_->kv_heads(),  // each of which is rounded with its own scale
                .reach = keeps_all() ? 0 : field_->reach(),
                .sinks = field_->sinks(),
                .differentiable = true,
                .field = forms_keys() ? nullptr : field_.get()};
    if (cross_ && heads_->expands()) {  // a source is read often and never grows
      columns_.keys = columns_.values = heads_->kv_heads() * head_dim_;
      columns_.shared = false;
    }
    check_usage(!cross_ || config.attention_dropout == 0, "model", "attention_dropout ", config.attention_dropout,
                " has no cross form; give model.cross_attention a mixer without it");
    check_usage(config.attn_logit_softcapping == 0 || config.attention_dropout == 0, "model",
                "attention_dropout needs explicit maps, which attn_logit_softcapping has not; set one of them to 0");
    softcap_ = config.attn_logit_softcapping;
    dropout_ = Dropout(scope / "weights", config.attention_dropout);
  }

  Var forward(const SubLayerInput& in) const override {
    if (borrows_) return output_->forward(borrowed(in));
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Input rows = input_of(in);
    if (cross_ && in.state) {
      const auto& cache = static_cast<const SourceCache&>(*in.state);
      const Var q = heads_->queries(rows, turn);
      const Tensor context = attend_cached(
          q.value(), cache.entries(), cache.tokens(), in.sequences,
          options(*heads_, in, q, reads_keys() ? keys_of(cache.entries()) : Var(), counts(cache.tokens())));
      return output_->forward(heads_->finish(context));
    }
    check(!cross_ || in.source, "cross-attention", "needs rows of an encoder");
    const Heads& heads = in.state ? *kept_ : *heads_;
    const auto [q, kept] =
        cross_ ? Heads::QueryKeyValue{heads_->queries(rows, turn), heads_->keep(source_rows(*in.source), turn)}
               : heads.read(rows, turn);
    if (gives(in, kQueries)) in.pass.put(kQueries, q);
    if (in.state) return finished(in, continued(in, q, kept));
    const Heads::KeyValue read = heads_->expands() ? heads_->expand(kept, turn) : kept;
    if (gives(in, kKeys)) in.pass.put(kKeys, read.k);
    const AttendOptions o = options(*heads_, in, q, read.k, counts(cross_ ? in.source->sequences : in.sequences));
    const bool shows = !cross_ && training() && in.pass.wants(Tap::Kind::map);
    const Var context = dropout_.active() || shows
                            ? attend_by_maps(q, read.k, read.v, in.sequences, o,
                                             [&](const Var& map, int64_t b) {
                                               if (shows) in.pass.put(Tap::Kind::map, map, b);
                                               return dropout_.active() ? dropout_(map, in.stage * kStages + b) : map;
                                             })
                            : attend(q, read.k, read.v, in.sequences, cross_ ? in.source->sequences : in.sequences, o);
    return finished(in, context);
  }

  void skip(const SubLayerInput& in) const override {
    if (cross_ || context_) return;
    if (borrows_) return keep_values(in, values_(in.x));
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    const Heads::KeyValue kept = kept_->keep(input_of(in), turn_by(in.sequences));
    cache.append(kept.k.value(), kept.v.value(), in.sequences);
    cache.forget();
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (context_) return nullptr;
    if (cross_)
      return std::make_unique<SourceCache>(shape.sequences, columns_.keys + (columns_.shared ? 0 : columns_.values));
    return std::make_unique<KeyValueCache>(shape, columns_);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return context_ ? 0 : KeyValueCache::bytes_of(tokens, columns_, dtype);
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const Heads::Turn turn = turn_by(source.sequences);
    Heads::KeyValue kept = heads_->keep(source_rows(source), turn);
    if (heads_->expands()) kept = heads_->expand(kept, turn);
    static_cast<SourceCache&>(state).fill(kept.k.value(), kept.v.value(), source.sequences);
  }
  bool keeps_rows() const override { return !cross_ && !context_; }
  bool reads_embedding() const override { return heads_ && heads_->reads_embedding(); }

  bool borrows() const override { return borrows_; }
  void lend() override {
    check_usage(!heads_->expands() && !heads_->shares(), "model",
                "a layer above takes this attention map (mixer.map: below), whose keys stand in no cache: these heads "
                "form them anew; give it heads mha, gqa or mqa");
    lends_ = true;
    columns_.reach = 0;  // layers above read its keys after it
  }
  void borrow(const SharedMap& from, int64_t layer) override {
    const auto* lender = dynamic_cast<const Attention*>(&from);
    check(lender != nullptr, "attention", "a map of another mixer cannot be read");
    check_usage(lender->heads_->query_heads() == query_heads_ && lender->heads_->kv_heads() == columns_.heads, "model",
                "attention that takes the map of layer ", layer + 1, " needs its heads, ",
                lender->heads_->query_heads(), " for queries and ", lender->heads_->kv_heads(),
                " for keys and values, got ", query_heads_, " and ", columns_.heads,
                "; set num_attention_heads and heads alike");
    check_usage(!context_ || lender->heads_->context_size() == query_heads_ * head_dim_, "model",
                "attention that takes the heads' results of layer ", layer + 1, " needs them ",
                query_heads_ * head_dim_, " wide, they are ", lender->heads_->context_size(),
                "; set head_dim and heads alike");
    lender_ = lender;
    lender_layer_ = layer;
  }
  void borrow_keys(State& own, const State& from) const override {
    static_cast<KeyValueCache&>(own).read_keys_of(static_cast<const KeyValueCache&>(from));
  }

  MixerMaps maps(const SubLayerInput& in) const override {
    if (borrows_) {
      const Var q = lent(in, kQueries), k = lent(in, kKeys);
      return softmax_maps(q, repeat_heads(k, columns_.heads, query_heads_),
                          lender_->options(*lender_->heads_, in, q, k, counts(in.sequences)));
    }
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Input rows = input_of(in);
    const Var q = heads_->queries(rows, turn);
    Heads::KeyValue kv = heads_->keep(cross_ ? source_rows(*in.source) : rows, turn);
    if (heads_->expands()) kv = heads_->expand(kv, turn);
    return softmax_maps(q, repeat_heads(kv.k, heads_->kv_heads(), heads_->query_heads()),
                        options(*heads_, in, q, kv.k, counts(cross_ ? in.source->sequences : in.sequences)));
  }

 private:
  static constexpr int64_t kStages = 1 << 20;  // sequences that dropout keys of one stage tell apart

  const Position* position_;
  bool cross_, borrows_, context_, lends_ = false;
  int64_t head_dim_ = 0;
  double scale_ = 0, softcap_ = 0;
  std::unique_ptr<Heads> heads_;
  const Heads* kept_ = nullptr;                       // those that a state is read with
  std::shared_ptr<const kernels::KeyTurn> key_turn_;  // keys of a state turn as they are read
  std::unique_ptr<Field> field_;
  std::unique_ptr<Output> output_;
  KeyValueCache::Columns columns_;
  Dropout dropout_;  // of attention weights
  // Of one that borrows its map.
  Linear values_;
  int64_t query_heads_ = 0, lender_layer_ = -1;
  const Attention* lender_ = nullptr;

  void build_borrower(const Scope& scope, const AttentionConfig& config, const Args& args, const Heads::Args& size) {
    check_usage(!cross_, "model", "mixer.map ", config.map,
                " takes the map of the text's own attention, and "
                "cross-attention reads another text; give model.cross_attention a mixer with map: own");
    Parameters unused;  // of heads that are only asked
    BuildContext aside = scope.context();
    aside.parameters = &unused;
    aside.device = Device::meta;
    const auto like = [&] {
      const SharedParameters none;
      return Registry::instance().make<Heads>(config.heads, Scope(aside, "heads"), size);
    }();
    check_usage(!like->expands() && !like->shares() && !like->reads_embedding(), "model", "mixer.map ", config.map,
                " has values alone, and heads ", config.heads.type,
                " do not make them by a map of their own; choose mha, gqa or mqa");
    head_dim_ = size.head_dim;
    query_heads_ = like->query_heads();
    const Axis values = Axis::key_heads(like->kv_heads(), head_dim_);
    const int64_t width = values.size();
    columns_ = {.keys = width, .values = width, .shared = true, .heads = like->kv_heads()};
    if (!context_)
      values_ = Linear(scope / "heads" / "v", Axis::hidden(args.hidden_size), values, config.attention_bias);
    output_ =
        Registry::instance().make<Output>(config.output, scope / "output",
                                          {.context = Axis::query_heads(query_heads_, like->kv_heads(), head_dim_),
                                           .hidden_size = args.hidden_size,
                                           .bias = config.output_bias});
    dropout_ = Dropout(scope / "weights", config.attention_dropout);
  }

  bool gives(const SubLayerInput& in, Tap::Kind what) const { return lends_ || (!cross_ && in.pass.wants(what)); }
  Var finished(const SubLayerInput& in, const Var& context) const {
    const Var done = (in.state ? kept_ : heads_.get())->finish(context);
    if (lends_) in.pass.put(kContext, done);
    return output_->forward(done);
  }
  Var lent(const SubLayerInput& in, Tap::Kind what) const {
    check(lender_ != nullptr, "attention", "mixer.map: below takes the map of a layer below; alone there is none");
    const Var x = in.pass.get({what, lender_layer_});
    check_usage(x.defined(), "attention", "takes the map of layer ", lender_layer_ + 1,
                ", which was left out in this pass; leave both out, or none");
    return x;
  }
  void keep_values(const SubLayerInput& in, const Var& v) const {
    static_cast<KeyValueCache&>(*in.state).append(v.value(), v.value(), in.sequences);
  }
  // The lender's weights times values of its own.
  Var borrowed(const SubLayerInput& in) const {
    if (context_) return lent(in, kContext);
    const Var v = values_(in.x), q = lent(in, kQueries);
    if (!in.state) {
      const Var k = lent(in, kKeys);
      const AttendOptions o = lender_->options(*lender_->heads_, in, q, k, counts(in.sequences));
      if (!dropout_.active()) return attend(q, k, v, in.sequences, in.sequences, o);
      return attend_by_maps(q, k, v, in.sequences, o,
                            [&](const Var& map, int64_t b) { return dropout_(map, in.stage * kStages + b); });
    }
    keep_values(in, v);
    const auto& cache = static_cast<const KeyValueCache&>(*in.state);
    check(cache.keys_of() != nullptr, "attention", "the state of a borrowed map has no keys to read");
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < in.sequences.count(); ++b)
      read.push_back({cache.keys_of()->entries()[size_t(b)].keys, cache.entries()[size_t(b)].values});
    return attend_cached(q.value(), read, cache.tokens(), in.sequences,
                         lender_->options(*lender_->heads_, in, q, lender_->keys_of(*cache.keys_of(), in),
                                          counts(cache.tokens()), lender_->labels_of(*cache.keys_of())));
  }

  Heads::Input input_of(const SubLayerInput& in) const {
    if (!heads_->reads_embedding()) return {in.x, in.x};
    const Var embedded = in.pass.embedded();
    return {in.x, !embedded.defined() ? in.x : in.wired ? in.wired(embedded) : embedded};
  }
  static Heads::Input source_rows(const Rows& source) {
    return {source.x, source.embedded.defined() ? source.embedded : source.x};
  }

  Heads::Turn turn_by(const Sequences& sequences) const {
    return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, head_dim_) : x; };
  }

  int64_t sinks() const { return columns_.reach && columns_.sinks ? KeyValueCache::whole_pages(columns_.sinks) : 0; }
  // Keys with a gap before them: what is made from their number would be of another position.
  bool keeps_all() const {
    return field_->sinks() > 0 &&
           (kept_->expands() || field_->biases() || reads_keys() || (position_ && position_->biases()));
  }
  // Kept rows become keys before attention reads them.
  bool forms_keys() const { return kept_->expands() && !key_turn_; }
  bool reads_keys() const { return field_->reads_keys() || (position_ && position_->reads_keys()); }
  // Labels of old keys are those of weights before a step of training.
  static bool reads_labels(const KeyValueCache& cache) { return cache.keeps_labels() && !training(); }
  static Tensor labels_of(const KeyValueCache& cache) { return reads_labels(cache) ? cache.gather_labels() : Tensor(); }
  // All keys of a cache, for a field or position that reads them, unless labels will do.
  Var keys_of(const KeyValueCache& cache, const SubLayerInput& in) const {
    const bool of_field = field_->reads_keys() && !reads_labels(cache);
    if (!of_field && !(position_ && position_->reads_keys())) return {};
    std::vector<Var> parts;
    for (int64_t b = 0; b < in.sequences.count(); ++b) parts.push_back(cache.gather_keys(b, in.x.dtype()));
    return concatenate_rows(parts);
  }

  static std::vector<FieldInput::Keys> counts(const Sequences& keys) {
    std::vector<FieldInput::Keys> out;
    for (int64_t b = 0; b < keys.count(); ++b) out.push_back({keys.past(b), keys.length(b)});
    return out;
  }
  static std::vector<FieldInput::Keys> counts(const std::vector<int64_t>& tokens) {
    std::vector<FieldInput::Keys> out;
    for (const int64_t count : tokens) out.push_back({0, count});
    return out;
  }
  // All keys of caches, each in one page.
  static Var keys_of(const std::vector<KeyValues>& caches) {
    std::vector<Var> parts;
    for (const KeyValues& cache : caches)
      for (const Tensor& page : cache.keys.pages) parts.push_back(page);
    return concatenate_rows(parts);
  }

  AttendOptions options(const Heads& heads, const SubLayerInput& in, const Var& q, const Var& k,
                        const std::vector<FieldInput::Keys>& keys, const Tensor& labels = {}) const {
    const int64_t width = &heads == heads_.get() ? q.cols() / heads.query_heads() : head_dim_;
    const double scale = scale_ != 0 ? scale_ : 1 / std::sqrt(double(width));
    const FieldInput pairs{q, k, in.sequences, in.pass, in.x, keys, scale, labels};
    kernels::AttentionPattern pattern = field_->pattern(pairs);
    const bool biases = position_ && position_->biases();
    return {.heads = heads.query_heads(),
            .kv_heads = heads.kv_heads(),
            .scale = scale,
            .mask = pattern.mask,
            .head_masks = std::move(pattern.heads),
            .tiles = std::move(pattern.tiles),
            .bias = join(biases ? position_->bias(pairs, heads.query_heads()) : LogitBias{},
                         field_->bias(pairs, heads.query_heads())),
            .values = biases ? position_->values() : DistanceValues{},
            .softcap = softcap_};
  }

  // What rows that continue sequences take from the tokens before them and from each other.
  Var continued(const SubLayerInput& in, const Var& q, const Heads::KeyValue& kept) const {
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    if (Tape::current()) return continued_on_tape(in, q, kept);
    cache.append(kept.k.value(), kept.v.value(), in.sequences);
    std::vector<FieldInput::Keys> keys = counts(columns_.reach ? cache.kept() : cache.tokens());
    for (size_t b = 0; b < keys.size(); ++b) keys[b].first = cache.forgotten(int64_t(b)), keys[b].sinks = sinks();
    const std::vector<KeyValues> made =
        forms_keys() ? expanded(cache, in.x.dtype(), in.sequences) : std::vector<KeyValues>();
    const Var k = !forms_keys() ? keys_of(cache, in) : reads_keys() ? keys_of(made) : Var();
    AttendOptions o = options(*kept_, in, q, k, keys, labels_of(cache));
    o.turn = key_turn_;
    for (int64_t b = 0; key_turn_ && b < in.sequences.count(); ++b) o.key_positions.push_back(cache.forgotten(b));
    const Tensor context = attend_cached(q.value(), forms_keys() ? made : cache.entries(),
                                         columns_.reach ? cache.kept() : cache.tokens(), in.sequences, o);
    cache.forget();
    return context;
  }

  // The same with gradients: keys and values that were kept are constants before the new ones.
  Var continued_on_tape(const SubLayerInput& in, const Var& q, const Heads::KeyValue& kept) const {
    check_usage(!dropout_.active(), "attention", "attention_dropout",
                " has no form for rows that continue a state (train.carry_state); set it to 0, hidden_dropout stays");
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    std::vector<Var> k, v;
    std::vector<int64_t> offsets{0}, before;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t begin = in.sequences.offset(b), end = in.sequences.offset(b + 1);
      const KeyValueCache::Rows old = cache.gather(b, in.x.dtype());
      before.push_back(cache.forgotten(b));
      offsets.push_back(offsets.back() + old.keys.rows() + end - begin);
      k.insert(k.end(), {Var(old.keys), slice_rows(kept.k, begin, end)});
      v.insert(v.end(), {Var(old.values), slice_rows(kept.v, begin, end)});
    }
    const Sequences all(offsets, before, in.x.device());
    Heads::KeyValue read{concatenate_rows(k), concatenate_rows(v)};
    if (kept_->expands()) read = kept_->expand(read, turn_by(all));
    cache.append(kept.k.value(), kept.v.value(), in.sequences);
    std::vector<FieldInput::Keys> keys = counts(all);
    for (FieldInput::Keys& of : keys) of.sinks = sinks();
    const Var context = attend(q, read.k, read.v, in.sequences, all, options(*kept_, in, q, read.k, keys));
    cache.forget();
    return context;
  }

  // Keys and values of the tokens so far, formed anew from the little that the cache keeps.
  std::vector<KeyValues> expanded(const KeyValueCache& cache, DType dtype, const Sequences& sequences) const {
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const KeyValueCache::Rows kept = cache.gather(b, dtype);
      const Sequences all({0, kept.keys.rows()}, {cache.forgotten(b)}, kept.keys.device());
      const Heads::KeyValue kv = kept_->expand({kept.keys, kept.values}, turn_by(all));
      read.push_back({kv.k.value(), kv.v.value()});
    }
    return read;
  }
};

}  // namespace

void register_mixer_attention(Registry& registry) {
  registry.add<Mixer, Attention, AttentionConfig>(
      "attention", {.spec = "attn.qkv",
                    .summary = "softmax attention of chosen heads, field and output",
                    .source = "TB Eq 6.19-6.31",
                    .cross = true,
                    .samples = {"{attn_logit_softcapping: 2}", "{attn_logit_softcapping: 2, heads: mhe_add}"}});
}

}  // namespace lithe
