// Linear attention that forgets: by a learned rate of each head [TB Eq 6.160-6.161], by gates that each token computes
// for a head, or for each channel of its keys [TB 6.4.5(2); Yang et al. 2024].
#include "lithe/parts/common/feature_map.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/recurrence_mixer.h"

namespace lithe {
namespace {

struct GatedLinearAttentionConfig : RecurrenceConfig, FeatureMapConfig {
  std::string gate = "head";
  double decay_init = 0.95, gate_temperature = 1;
  bool normalise = true, complement = true;
  void fields(Fields& f) {
    head_fields(f);
    map_fields(f);
    f("gate", gate,
      "decay factor a of the state: constant: a learned number per head; head: sigmoid(x w + b) per token and head; "
      "channel: the same per token and feature channel",
      one_of({"constant", "head", "channel"}));
    f("decay_init", decay_init, "initial a, for x = 0", between(1e-6, 1 - 1e-6));
    f("gate_temperature", gate_temperature, "a = sigmoid(...)^(1 / gate_temperature); 16 in the GLA paper",
      at_least(1e-3));
    f("complement", complement, "write tokens with the weight 1 - a (TB 6.160); false: with weight 1");
    f("normalise", normalise, "divide weights by their sum (plus 1e-6 if the sum is smaller than that)");
    output_fields(f);
  }
};

// spec: linattn.decay | mixer | gate: constant, a learned decay of each head | TB Eq 6.160-6.161
class GatedLinearAttention final : public RecurrenceMixer {
 public:
  GatedLinearAttention(const Scope& scope, const GatedLinearAttentionConfig& config, const Args& args)
      : RecurrenceMixer("gated_linear_attention", scope, config, args, {.scale = 1, .normalise = config.normalise},
                        config.keeps_products(),
                        config.columns(config.args("gated_linear_attention", args.hidden_size).head_dim)),
        map_(scope / "features", config, heads(), head_dim()),
        constant_(config.gate == "constant"),
        channels_(config.gate == "channel"),
        // A constant factor on all weights cancels in their ratio.
        complement_(config.complement && !(constant_ && config.normalise)),
        temperature_(config.gate_temperature) {
    check_usage(config.normalise || config.feature_map != "favor", "gated_linear_attention",
                "feature_map favor needs normalise: true, which its queries' scales cancel in");
    const int64_t columns = config.columns(head_dim());
    const Axis gates = !channels_              ? query_heads()
                       : columns == head_dim() ? query_heads() * Axis::head_width(columns)
                                               : query_heads() * Axis(columns);
    if (constant_)
      raw_ = (scope / "decay").parameter("logit", {gates}, InitRole::zeros);
    else
      gate_ = Linear(scope / "decay", Axis::hidden(args.hidden_size), gates, true);
    start_with(constant_ ? raw_ : gate_.bias, logit_of(std::pow(config.decay_init, temperature_)));
  }

 private:
  FeatureMap map_;
  bool constant_, channels_, complement_;
  double temperature_;
  Parameter* raw_ = nullptr;
  Linear gate_;

  Core core(const SubLayerInput& in) const override {
    const auto [q, kept] = read(in);
    Core c{map_(q, true), map_(kept.k, false), kept.v, {}, {}};
    const Var z = constant_ ? raw_->var() : gate_(in.x);
    c.log_decay = pointwise(kernels::Pointwise::log_sigmoid, z, true);
    if (temperature_ != 1) c.log_decay = scale(c.log_decay, 1 / temperature_);
    if (!complement_) return c;
    const Var rest =
        temperature_ == 1 ? pointwise(kernels::Pointwise::sigmoid, scale(z, -1), true) : rest_of(c.log_decay);
    if (constant_)
      c.write = every_row(rest, in.x.rows());
    else if (channels_)
      c.k = mul(c.k, cast(rest, c.k.dtype()));
    else
      c.write = rest;
    return c;
  }
};

}  // namespace

void register_mixer_gated_linear_attention(Registry& registry) {
  registry.add<Mixer, GatedLinearAttention, GatedLinearAttentionConfig>(
      "gated_linear_attention",
      {.spec = "linattn.gated",
       .summary = "linear attention that forgets by learned rates or by gates",
       .source = "TB Eq 6.160-6.161, 6.4.5(2); Yang et al. 2024 (GLA)",
       .samples = {"{gate: constant}", "{gate: channel, feature_map: identity, normalise: false, output_norm: true}",
                   "{gate: constant, normalise: false, gate_temperature: 4}", "{conv_size: 4, gate: channel}"}});
}

}  // namespace lithe
