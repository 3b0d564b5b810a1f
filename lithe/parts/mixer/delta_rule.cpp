// The delta rule: a token writes what its key does not give yet, in place of adding to it [TB 6.4.5(2); Schlag et al.
// 2021; Yang et al. 2024], with gates that forget if wanted [Yang et al. 2025].
#include "lithe/parts/common/feature_map.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/recurrence_mixer.h"

namespace lithe {
namespace {

struct DeltaRuleConfig : RecurrenceConfig {
  std::string feature_map = "identity", gate = "none", key_norm = "l2";
  double decay_init = 0.95;
  DeltaRuleConfig() { output_norm = true; }
  void fields(Fields& f) {
    head_fields(f);
    f("feature_map", feature_map, "feature map of queries and keys, before key_norm",
      one_of({"identity", "elu1", "relu"}));
    f("key_norm", key_norm,
      "normalisation of queries and keys per head: l2 (length 1), or softmax over the channels (sum 1)",
      one_of({"l2", "softmax"}));
    f("gate", gate,
      "decay of the state before a token is written: none; head: a factor sigmoid(x w + b) for each token and head",
      one_of({"none", "head"}));
    f("decay_init", decay_init, "gate: initial decay factor, for x = 0", between(1e-6, 1 - 1e-6));
    output_fields(f);
  }
};

class DeltaRule final : public RecurrenceMixer {
 public:
  DeltaRule(const Scope& scope, const DeltaRuleConfig& config, const Args& args)
      : RecurrenceMixer("delta_rule", scope, config, args, {.scale = 1, .delta = true},
                        config.feature_map == "identity" && config.key_norm == "l2"),
        map_(scope / "features", map_of(config), heads(), head_dim()),
        softmax_(config.key_norm == "softmax"),
        write_(scope / "write", Axis::hidden(args.hidden_size), query_heads(), true) {
    if (softmax_) scope.couples({Dimension::head_width});
    if (config.gate == "head") {
      gate_ = Linear(scope / "decay", Axis::hidden(args.hidden_size), query_heads(), true);
      start_with(gate_.bias, logit_of(config.decay_init));
    }
    const MemoryScope memory(MemoryClass::weights);
    unit_ = filled({head_dim()}, 1 / std::sqrt(double(head_dim())), wide_of(scope.context().compute),
                   scope.context().device);
  }

 private:
  FeatureMap map_;
  bool softmax_;
  Linear write_, gate_;
  Tensor unit_;  // 1/sqrt(d_h): the root mean square of rows of length 1

  static FeatureMapConfig map_of(const DeltaRuleConfig& config) {
    FeatureMapConfig out;
    out.feature_map = config.feature_map;
    return out;
  }
  Var normed(const Var& x) const {
    if (softmax_) return softmax_features(x, heads());
    const Var rows = reshape(x, {x.rows() * heads(), head_dim()});
    return reshape(normalise(kernels::NormKind::rms, rows, Var(unit_), {}, 1e-12), x.shape());
  }
  Core core(const SubLayerInput& in) const override {
    const auto [q, kept] = read(in);
    Core c{normed(map_(q, true)), normed(map_(kept.k, false)), kept.v, {}, {}};
    c.write = pointwise(kernels::Pointwise::sigmoid, write_(in.x), true);
    if (gate_.weight) c.log_decay = pointwise(kernels::Pointwise::log_sigmoid, gate_(in.x), true);
    return c;
  }
};

}  // namespace

void register_mixer_delta_rule(Registry& registry) {
  registry.add<Mixer, DeltaRule, DeltaRuleConfig>(
      "delta_rule",
      {.spec = "linattn.delta",
       .summary = "linear attention with the delta rule: a token overwrites the value stored for its key",
       .source = "TB 6.4.5(2); Schlag et al. 2021; Yang et al. 2024 (DeltaNet)",
       .samples = {"{gate: head, output_gate: true}", "{key_norm: softmax, output_norm: false}", "{conv_size: 3}"}});
}

}  // namespace lithe
