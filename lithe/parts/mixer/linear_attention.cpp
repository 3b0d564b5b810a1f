// Linear attention: weights are products of positive features of queries and keys, so that the past is a sum
// [TB Eq 6.140-6.148, 6.156-6.159; Katharopoulos et al. 2020], with random features as in the Performer [Choromanski et
// al. 2021].
#include "lithe/parts/common/feature_map.h"
#include "lithe/parts/common/recurrence_mixer.h"

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
  // Rotary positions turn queries and keys where the map keeps what they mean.
  LinearAttention(const Scope& scope, const LinearAttentionConfig& config, const Args& args)
      : RecurrenceMixer("linear_attention", scope, config, args,
                        {.scale = 1, .normalise = config.normalise, .causal = args.causal}, config.keeps_products(),
                        config.columns(config.args("linear_attention", args.hidden_size).head_dim)),
        map_(scope / "features", config, heads(), head_dim()),
        causal_(args.causal) {
    check_usage(config.normalise || config.feature_map != "favor", "linear_attention",
                "feature_map favor needs normalise: true, which its queries' scales cancel in");
  }

 private:
  FeatureMap map_;
  bool causal_;
  Core core(const SubLayerInput& in) const override {
    const auto [q, kept] = read(in);
    return {map_(q, true), map_(kept.k, false, causal_ ? nullptr : &in.sequences), kept.v, {}, {}};
  }
};

}  // namespace

void register_mixer_linear_attention(Registry& registry) {
  registry.add<Mixer, LinearAttention, LinearAttentionConfig>(
      "linear_attention",
      {.spec = "kernel.linear",
       .summary = "linear attention: weights are products of feature maps; state of constant size",
       .source = "TB Eq 6.140-6.148, 6.156-6.159; Katharopoulos et al. 2020",
       .samples = {"{feature_map: softmax}", "{feature_map: favor, features: 5}",
                   "{feature_map: identity, normalise: false, output_norm: true, heads: {type: mhe_add}}"}});
}

}  // namespace lithe
