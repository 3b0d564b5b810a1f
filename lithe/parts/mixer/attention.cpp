// Softmax attention of a text to itself, composed as heads, then the core with field and position, then output
// [TB Eq 6.19-6.31]. Its state is a cache of keys and values [TB 6.1.7, Fig 6.5].
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/parallel/ring_attention.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {
namespace {

// spec: decon.standard | mixer | causal heads mha with rotary positions, the baseline | TH Eq 4.1-4.3
// spec: share.attn_map | mixer | a layer takes the attention weights of one below, and has values alone | TB 6.4.4
class SelfAttention final : public Mixer, public SharedMap, private AttentionMap {
 public:
  SelfAttention(const Scope& scope, const AttentionConfig& config, const Args& args)
      : core_(scope, config, args, args.position) {
    const Field& field = core_.field();
    const Heads& kept = core_.kept();
    if (core_.position() && kept.turns_kept() && kept.expands() && !core_.reads_keys() && field.sinks() == 0)
      key_turn_ = core_.position()->key_turn(core_.head_dim());
    if (const Layout* layout = Layout::current()) ring_ = layout->sequence();
    columns_ = whole_columns();
    // Each head keeps keys of its own, as they are read; what is made from the distance to a key would miss it.
    if (field.most_kept() > 0 && !(core_.position() && core_.position()->biases())) {
      const int64_t heads = core_.heads().query_heads();
      columns_ = {.keys = heads * core_.heads().key_dim(),
                  .values = heads * core_.heads().value_dim(),
                  .heads = heads,
                  .most = field.most_kept(),
                  .differentiable = true,
                  .field = &field};
    }
  }

  Var forward(const SubLayerInput& in) const override {
    const Heads::Turn turn = core_.turn_by(in.sequences);
    const Heads& heads = in.state ? core_.kept() : core_.whole();
    const auto [q, kept] = heads.read(core_.input_of(in), turn);
    if (gives(in, kQueries)) in.pass.put(kQueries, q);
    if (lends_) in.pass.put(kRows, in.x);
    Var context;
    if (in.state) {
      context = continued(in, q, kept);
    } else {
      const Heads::KeyValue read = AttentionCore::read(heads, kept, turn);
      if (gives(in, kKeys)) in.pass.put(kKeys, read.k);
      if (in.pass.wants(Tap::Kind::values)) in.pass.put(Tap::Kind::values, read.v);
      const AttendOptions options = core_.options(heads, in, q, read.k, key_counts(in.sequences));
      if (in.pass.wants(Tap::Kind::received))
        in.pass.put(Tap::Kind::received, attention_received(q, read.k, in.sequences, options));
      const bool rings = !ring_.alone() && training();  // else every rank has all tokens
      context = rings ? ring(in, q, read, options) : attend_dropping(core_.dropout(), q, read.k, read.v, in, options);
    }
    const Var done = heads.finish(context);
    if (lends_) in.pass.put(kContext, done);
    return core_.output(done);
  }

  void skip(const SubLayerInput& in) const override {
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    const Heads::Turn turn = core_.turn_by(in.sequences);
    Heads::KeyValue kept = core_.kept().keep(core_.input_of(in), turn);
    if (columns_.most) kept = by_query_heads(kept, turn);
    cache.append(kept.k.value(), kept.v.value(), in.sequences, core_.labels_of(in));
    cache.forget();
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<KeyValueCache>(shape, columns_);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return KeyValueCache::bytes_of(tokens, columns_, dtype);
  }
  bool keeps_rows() const override { return true; }
  std::vector<std::string> reads_columns() const override { return core_.field().reads_columns(); }
  bool reads_presence() const override { return core_.reads_presence(); }
  bool reads_embedding() const override { return core_.heads().reads_embedding(); }
  MixerMaps maps(const SubLayerInput& in) const override { return core_.maps(in, core_.input_of(in), in.sequences); }

  SharedMap* shared_map() override { return this; }
  const AttentionMap* map() const override { return this; }
  void lend() override {
    const Heads& heads = core_.whole();
    check_usage(!heads.expands() && !heads.shares() && !core_.folds_but_for_dropout(), "model",
                "a layer above takes this attention map (mixer.map: below), whose keys stand in no cache: these heads "
                "form them anew; give it heads mha, gqa or mqa");
    lends_ = true;
    columns_ = whole_columns();
    columns_.reach = 0;  // layers above read its keys after it
  }
  void borrow(const SharedMap&, int64_t) override { fail("attention", "has a map of its own, and takes no other"); }
  void borrow_keys(State&, const State&) const override {}

 private:
  AttentionCore core_;
  Group ring_;  // that has the tokens of a sequence in training
  bool lends_ = false;
  std::shared_ptr<const kernels::KeyTurn> key_turn_;  // keys of a state turn as they are read
  KeyValueCache::Columns columns_;

  Var ring(const SubLayerInput& in, const Var& q, const Heads::KeyValue& read, const AttendOptions& options) const {
    for (const Tap::Kind kind : {kQueries, kKeys, Tap::Kind::map, Tap::Kind::received})
      check_usage(!lends_ && !in.pass.wants(kind), "train.parallel", "sequence ", ring_.size,
                  " divides the tokens of a text, and something reads the ", name_of(kind),
                  " of this attention, which no rank has whole; leave that out, or sequence at 1");
    const RowsOfRanks& rows =
        in.pass.once<RowsOfRanks>(kRowsOfRanks, [&] { return rows_of_ranks(in.sequences, ring_); });
    return ring_attend(q, read.k, read.v, in.sequences, rows, options, ring_);
  }

  // What is kept of all keys that a query may see.
  KeyValueCache::Columns whole_columns() const {
    const Heads& kept = core_.kept();
    return {.keys = kept.kept_columns(),
            .values = kept.kept_value_columns(),
            .shared = kept.shares(),
            .heads = forms_keys() ? 1 : kept.kv_heads(),  // each of which is rounded with its own scale
            .reach = keeps_all() ? 0 : core_.field().reach(),
            .sinks = core_.field().sinks(),
            .sight = &core_.field(),
            .differentiable = true,
            .field = forms_keys() && !core_.field().labels_rows() ? nullptr : &core_.field()};
  }
  bool gives(const SubLayerInput& in, Tap::Kind what) const { return lends_ || in.pass.wants(what); }
  int64_t query_heads() const override { return core_.whole().query_heads(); }
  int64_t kv_heads() const override { return core_.whole().kv_heads(); }
  int64_t context_size() const override { return core_.whole().context_size(); }
  AttendOptions options(const SubLayerInput& in, const Var& q, const Var& k) const override {
    return core_.options(core_.whole(), in, q, k, key_counts(in.sequences));
  }
  AttendOptions options(const SubLayerInput& in, const Var& q, const State& keys) const override {
    const auto& cache = static_cast<const KeyValueCache&>(keys);
    return core_.options(core_.kept(), in, q, keys_of(cache, in), key_counts(cache.tokens()), labels_of(cache));
  }

  // Kept rows become keys before attention reads them.
  bool forms_keys() const { return core_.kept().expands() && !key_turn_; }
  // Keys with a gap before them: what is made from their number would be of another position.
  bool keeps_all() const { return core_.field().sinks() > 0 && (core_.biases() || core_.reads_keys()); }
  // Rows before the gap.
  int64_t sinks() const { return columns_.reach && columns_.sinks ? KeyValueCache::rows_of_sinks(columns_) : 0; }
  // Keys and values as each query head reads them.
  Heads::KeyValue by_query_heads(const Heads::KeyValue& kept, const Heads::Turn& turn) const {
    const Heads& heads = core_.heads();
    const auto [k, v] = AttentionCore::read(heads, kept, turn);
    return {repeat_heads(k, heads.kv_heads(), heads.query_heads()),
            repeat_heads(v, heads.kv_heads(), heads.query_heads())};
  }
  // Rows of kept tokens [offsets[b], offsets[b + 1]) of each sequence, of which forgotten[b] are left out.
  Sequences kept_rows_of(const std::vector<int64_t>& offsets, const std::vector<int64_t>& forgotten,
                         Device device) const {
    Sequences out(offsets, forgotten, device);
    for (size_t b = 0; b < forgotten.size() && !out.positions().is_meta(); ++b)
      for (int64_t i = 0; forgotten[b] && i < sinks(); ++i)
        out.positions().data<int32_t>()[offsets[b] + i] = int32_t(i);
    return out;
  }
  // Labels of old keys are those of weights before a step of training.
  static bool reads_labels(const KeyValueCache& cache) {
    return cache.keeps_labels() && (!training() || cache.labels_rows());
  }
  static Tensor labels_of(const KeyValueCache& cache) { return reads_labels(cache) ? cache.gather_labels() : Tensor(); }
  // All keys of a cache, for a field or position that reads them, unless labels will do.
  Var keys_of(const KeyValueCache& cache, const SubLayerInput& in) const {
    const bool of_field = core_.field().reads_keys() && (!reads_labels(cache) || cache.labels_rows());
    if (!of_field && !core_.position_reads_keys()) return {};
    std::vector<Var> parts;
    for (int64_t b = 0; b < in.sequences.count(); ++b) parts.push_back(cache.gather_keys(b, in.x.dtype()));
    return concatenate_rows(parts);
  }
  static Var keys_of(const std::vector<KeyValues>& formed) {
    std::vector<Var> parts;
    for (const KeyValues& of : formed)
      for (const Tensor& page : of.keys.pages) parts.push_back(page);
    return concatenate_rows(parts);
  }

  // What rows that continue sequences take from the tokens before them and from each other.
  Var continued(const SubLayerInput& in, const Var& q, const Heads::KeyValue& kept) const {
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    if (columns_.most) return continued_by_head(in, q, by_query_heads(kept, core_.turn_by(in.sequences)));
    if (Tape::current()) return continued_on_tape(in, q, kept);
    cache.append(kept.k.value(), kept.v.value(), in.sequences, core_.labels_of(in));
    std::vector<FieldInput::Keys> keys = key_counts(columns_.reach ? cache.kept() : cache.tokens());
    for (size_t b = 0; b < keys.size(); ++b) keys[b].first = cache.forgotten(int64_t(b)), keys[b].sinks = sinks();
    const std::vector<KeyValues> formed =
        forms_keys() ? expanded(cache, in.x.dtype(), in.sequences) : std::vector<KeyValues>();
    const Var k = !forms_keys() ? keys_of(cache, in) : core_.reads_keys() ? keys_of(formed) : Var();
    AttendOptions o = core_.options(core_.kept(), in, q, k, keys, labels_of(cache));
    o.turn = key_turn_;
    for (int64_t b = 0; key_turn_ && b < in.sequences.count(); ++b) o.key_positions.push_back(cache.forgotten(b));
    const Tensor context = attend_cached(q.value(), forms_keys() ? formed : cache.entries(),
                                         columns_.reach ? cache.kept() : cache.tokens(), in.sequences, o);
    cache.forget();
    return context;
  }

  // Each head has keys of its own before the new ones.
  Var continued_by_head(const SubLayerInput& in, const Var& q, const Heads::KeyValue& read) const {
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    check_usage(!core_.dropout().active(), "attention", "attention_dropout",
                " has no form for rows that continue a state (train.carry_state); set it to 0, hidden_dropout stays");
    const bool on_tape = Tape::current() != nullptr, reads_keys = on_tape || !reads_labels(cache);
    std::vector<Var> k, v;
    std::vector<int64_t> offsets{0};
    std::vector<FieldInput::Keys> keys;
    const std::vector<int64_t> before = cache.kept();
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t begin = in.sequences.offset(b), end = in.sequences.offset(b + 1);
      keys.push_back({cache.forgotten(b), before[size_t(b)] + end - begin});
      offsets.push_back(offsets.back() + keys.back().count);
      if (!reads_keys) continue;
      const KeyValueCache::Rows old = cache.gather(b, in.x.dtype());
      k.insert(k.end(), {Var(old.keys), slice_rows(read.k, begin, end)});
      v.insert(v.end(), {Var(old.values), slice_rows(read.v, begin, end)});
    }
    cache.append(read.k.value(), read.v.value(), in.sequences, core_.labels_of(in));
    const Var all = reads_keys ? concatenate_rows(k) : Var();
    AttendOptions o = core_.options(core_.heads(), in, q, all, keys, labels_of(cache));
    o.kv_heads = o.heads;
    const Var context =
        on_tape ? attend(q, all, concatenate_rows(v), in.sequences, Sequences(offsets, {}, in.x.device()), o)
                : Var(attend_cached(q.value(), cache.entries(), cache.kept(), in.sequences, o));
    cache.forget();
    return context;
  }

  // The same with gradients: keys and values that were kept are constants before the new ones.
  Var continued_on_tape(const SubLayerInput& in, const Var& q, const Heads::KeyValue& kept) const {
    check_usage(!core_.dropout().active(), "attention", "attention_dropout",
                " has no form for rows that continue a state (train.carry_state); set it to 0, hidden_dropout stays");
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    std::vector<Var> k, v;
    std::vector<int64_t> offsets{0}, forgotten;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t begin = in.sequences.offset(b), end = in.sequences.offset(b + 1);
      const KeyValueCache::Rows old = cache.gather(b, in.x.dtype());
      forgotten.push_back(cache.forgotten(b));
      offsets.push_back(offsets.back() + old.keys.rows() + end - begin);
      k.insert(k.end(), {Var(old.keys), slice_rows(kept.k, begin, end)});
      v.insert(v.end(), {Var(old.values), slice_rows(kept.v, begin, end)});
    }
    const Sequences all = kept_rows_of(offsets, forgotten, in.x.device());
    const Heads::KeyValue read =
        AttentionCore::read(core_.kept(), {concatenate_rows(k), concatenate_rows(v)}, core_.turn_by(all));
    cache.append(kept.k.value(), kept.v.value(), in.sequences, core_.labels_of(in));
    std::vector<FieldInput::Keys> keys = key_counts(all);
    for (FieldInput::Keys& of : keys) of.sinks = sinks();
    const Tensor labels = cache.labels_rows() ? cache.gather_labels() : Tensor();
    const Var context =
        attend(q, read.k, read.v, in.sequences, all, core_.options(core_.kept(), in, q, read.k, keys, labels));
    cache.forget();
    return context;
  }

  // Keys and values of the kept tokens, formed anew from the little that the cache keeps.
  std::vector<KeyValues> expanded(const KeyValueCache& cache, DType dtype, const Sequences& sequences) const {
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const KeyValueCache::Rows kept = cache.gather(b, dtype);
      const Sequences rows = kept_rows_of({0, kept.keys.rows()}, {cache.forgotten(b)}, kept.keys.device());
      const Heads::KeyValue kv = core_.kept().expand({kept.keys, kept.values}, core_.turn_by(rows));
      read.push_back({kv.k.value(), kv.v.value()});
    }
    return read;
  }
};

std::unique_ptr<Mixer> make_attention(const Scope& scope, const AttentionConfig& config, const Mixer::Args& args) {
  if (config.map != "own") return make_borrowed_attention(scope, config, args);
  if (args.cross) return make_cross_attention(scope, config, args);
  return std::make_unique<SelfAttention>(scope, config, args);
}

}  // namespace

void register_mixer_attention(Registry& registry) {
  registry.add_forms<Mixer, AttentionConfig, make_attention>(
      "attention", {.spec = "attn.qkv",
                    .summary = "softmax attention with a choice of heads, field and output",
                    .source = "TB Eq 6.19-6.31",
                    .standard = true,
                    .cross = true,
                    .samples = {"{attn_logit_softcapping: 2}", "{attn_logit_softcapping: 2, heads: mhe_add}"}});
}

}  // namespace lithe
