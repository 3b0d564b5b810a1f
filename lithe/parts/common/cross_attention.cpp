// Attention to another text [TB Eq 6.39]. Positions of two texts are of no common sequence: it does not turn.
#include "lithe/ops/basic.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

class CrossAttention final : public Mixer {
 public:
  CrossAttention(const Scope& scope, const AttentionConfig& config, const Args& args)
      : core_(scope, config, args, nullptr) {}

  Var forward(const SubLayerInput& in) const override {
    const Heads& heads = core_.whole();
    const Var q = heads.queries(core_.input_of(in), core_.turn_by(in.sequences));
    if (in.state) return core_.output(heads.finish(cached(in, q, static_cast<const SourceCache&>(*in.state))));
    check(in.source, "cross-attention", "needs rows of an encoder");
    const Heads::KeyValue read = of_source(*in.source);
    const AttendOptions o = core_.options(heads, in, q, read.k, key_counts(in.source->sequences));
    return core_.output(heads.finish(attend(q, read.k, read.v, in.sequences, in.source->sequences, o)));
  }
  /// The source does not depend on the target's rows.
  void skip(const SubLayerInput&) const override {}

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<SourceCache>(shape.sequences, numbers_a_token());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t rows = 0;
    for (const int64_t count : tokens) rows += count;
    return rows * numbers_a_token() * size_of(dtype);
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const Heads::KeyValue read = of_source(source);
    static_cast<SourceCache&>(state).fill(read.k.value(), read.v.value(), source.sequences);
  }
  bool reads_embedding() const override { return core_.heads().reads_embedding(); }
  MixerMaps maps(const SubLayerInput& in) const override {
    return core_.maps(in, rows_of(*in.source), in.source->sequences);
  }

 private:
  AttentionCore core_;

  static Heads::Input rows_of(const Rows& source) {
    return {source.x, source.embedded.defined() ? source.embedded : source.x};
  }
  Heads::KeyValue of_source(const Rows& source) const {
    const Heads::Turn turn = core_.turn_by(source.sequences);
    return AttentionCore::read(core_.whole(), core_.whole().keep(rows_of(source), turn), turn);
  }
  // A source is read often and never grows: the state has keys and values as they are read.
  int64_t numbers_a_token() const {
    const Heads& heads = core_.whole();
    if (heads.expands()) return heads.kv_heads() * (heads.key_dim() + heads.value_dim());
    return heads.kept_columns() + (heads.shares() ? 0 : heads.kept_value_columns());
  }
  Tensor cached(const SubLayerInput& in, const Var& q, const SourceCache& cache) const {
    std::vector<Var> keys;
    if (core_.reads_keys())
      for (const KeyValues& entry : cache.entries())
        for (const Tensor& page : entry.keys.pages) keys.push_back(page);
    const Var k = keys.empty() ? Var() : concatenate_rows(keys);
    return attend_cached(q.value(), cache.entries(), cache.tokens(), in.sequences,
                         core_.options(core_.whole(), in, q, k, key_counts(cache.tokens())));
  }
};

}  // namespace

std::unique_ptr<Mixer> make_cross_attention(const Scope& scope, const AttentionConfig& config,
                                            const Mixer::Args& args) {
  return std::make_unique<CrossAttention>(scope, config, args);
}

}  // namespace lithe
