// Linear attention: weights are products of positive features of queries and keys, so that the past is a sum
// [TB Eq 6.140-6.148, 6.156-6.159; Katharopoulos et al. 2020], with random features as in the Performer [Choromanski et
// al. 2021].
#include "lithe/parts/common/feature_map.h"
#include "lithe/parts/common/recurrence_mixer.h"
#include "lithe/parts/common/source_sums.h"

namespace lithe {
namespace {

struct LinearAttentionConfig : RecurrenceConfig, FeatureMapConfig {
  bool normalise = true;
  void fields(Fields& f) {
    head_fields(f);
    map_fields(f);
    f("normalise", normalise, "divide weights by their sum (plus 1e-6 if the sum is smaller than that)");
    output_fields(f);
  }
};

class LinearAttention final : public RecurrenceMixer {
 public:
  // Rotary positions turn queries and keys where the map keeps what they mean; those of two texts are of no common
  // sequence.
  LinearAttention(const Scope& scope, const LinearAttentionConfig& config, const Args& args)
      : RecurrenceMixer("linear_attention", scope, config, args,
                        {.scale = 1, .normalise = config.normalise, .causal = args.causal && !args.cross},
                        config.keeps_products() && !args.cross,
                        config.columns(config.args("linear_attention", args.hidden_size).head_dim)),
        map_(scope / "features", config, heads(), head_dim()),
        causal_(args.causal),
        cross_(args.cross) {
    check_usage(config.normalise || config.feature_map != "favor", "linear_attention",
                "feature_map favor needs normalise: true, which its queries' scales cancel in");
  }

  Var forward(const SubLayerInput& in) const override {
    if (!cross_) return RecurrenceMixer::forward(in);
    const Var q = map_(queries(in.x), true);
    if (in.state) return finished(read_sums(q, in.sequences, static_cast<const SourceSums&>(*in.state).sums()), in.x);
    const Core c = of_source(source_of(in));
    return finished(across(q, c.k, c.v, in.sequences, in.source->sequences), in.x);
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (!cross_) return RecurrenceMixer::make_state(shape);
    return std::make_unique<SourceSums>("linear_attention", shape, state_shape());
  }
  void read_source(State& state, const Rows& source) const override {
    const Core c = of_source(source);
    RecurrenceOptions forwards = options();
    forwards.causal = true;
    static_cast<SourceSums&>(state).fill(source.sequences, [&](const std::vector<Tensor>& sums) {
      linear_recurrence(c.k, c.k, c.v, {}, {}, source.sequences, forwards, sums);
    });
  }
  MixerMaps maps(const SubLayerInput& in) const override {
    if (!cross_) return RecurrenceMixer::maps(in);
    const Core c = of_source(source_of(in));
    const Var q = map_(queries(in.x), true);
    return maps_of(in.x.rows(), c.k.rows(), in.x.dtype(),
                   [&](const Var& names) { return across(q, c.k, names, in.sequences, in.source->sequences); });
  }

 private:
  FeatureMap map_;
  bool causal_, cross_;
  Core core(const SubLayerInput& in) const override {
    const auto [q, kept] = read(in);
    return {map_(q, true), map_(kept.k, false, causal_ ? nullptr : &in.sequences), kept.v, {}, {}};
  }

  static const Rows& source_of(const SubLayerInput& in) {
    check(in.source, "cross-attention", "needs rows of an encoder");
    return *in.source;
  }
  Core of_source(const Rows& source) const {
    const Heads::KeyValue kept = keys_and_values(source.x);
    return {{}, map_(kept.k, false, &source.sequences), kept.v, {}, {}};
  }
  // Each text behind its source, whose rows write and do not read, as those of the text read and do not write.
  Var across(const Var& q, const Var& k, const Var& v, const Sequences& targets, const Sequences& sources) const {
    const auto with_zero = [](const Var& x) {
      return concatenate_rows({x, Var(zeros({1, x.cols()}, x.dtype(), x.device()))});
    };
    std::vector<int64_t> reads, writes, results, offsets{0};
    for (int64_t b = 0; b < targets.count(); ++b) {
      for (int64_t j = 0; j < sources.length(b); ++j)
        reads.push_back(q.rows()), writes.push_back(sources.offset(b) + j);
      for (int64_t i = 0; i < targets.length(b); ++i) {
        results.push_back(int64_t(reads.size()));
        reads.push_back(targets.offset(b) + i), writes.push_back(k.rows());
      }
      offsets.push_back(int64_t(reads.size()));
    }
    const Sequences both(offsets, {}, q.device());
    return pick_rows(linear_recurrence(pick_rows(with_zero(q), reads), pick_rows(with_zero(k), writes),
                                       pick_rows(with_zero(v), writes), {}, {}, both, options()),
                     results);
  }
  // The sums stay as they are: other continuations share them.
  Var read_sums(const Var& q, const Sequences& targets, const std::vector<Tensor>& sums) const {
    RecurrenceOptions forwards = options();
    forwards.causal = true;
    std::vector<Tensor> copies;
    for (const Tensor& x : sums) copies.push_back(clone(x));
    const Var nothing(zeros({q.rows(), heads() * head_dim()}, q.dtype(), q.device()));
    return linear_recurrence(q, Var(zeros(q.shape(), q.dtype(), q.device())), nothing, {}, {}, targets, forwards,
                             copies);
  }
};

}  // namespace

void register_mixer_linear_attention(Registry& registry) {
  registry.add<Mixer, LinearAttention, LinearAttentionConfig>(
      "linear_attention",
      {.spec = "kernel.linear",
       .summary = "linear attention: weights are products of feature maps; state of constant size",
       .source = "TB Eq 6.140-6.148, 6.156-6.159; Katharopoulos et al. 2020",
       .cross = true,
       .samples = {"{feature_map: softmax}", "{feature_map: favor, features: 5}",
                   "{feature_map: identity, normalise: false, output_norm: true, heads: {type: mhe_add}}"}});
}

}  // namespace lithe
