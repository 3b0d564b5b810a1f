// Retention: linear attention without divisors whose heads forget, each at a rate of its own that is not learned
// [Sun et al. 2023]. The heads' results are normalised and gated; rotary positions rotate queries and keys.
#include <cmath>

#include "lithe/parts/common/recurrence_mixer.h"

namespace lithe {
namespace {

struct RetentionConfig : RecurrenceConfig {
  std::vector<double> decay;
  bool rotary = true;
  RetentionConfig() { output_norm = output_gate = true; }
  void fields(Fields& f) {
    head_fields(f);
    f("decay", decay, "decay factor of each head per token, in (0, 1]; empty: 1 - 2^-5, 1 - 2^-6, ...");
    f("rotary", rotary, "rotate queries and keys if the model's position is rotary");
    output_fields(f);
  }
};

class Retention final : public RecurrenceMixer {
 public:
  Retention(const Scope& scope, const RetentionConfig& config, const Args& args)
      : RecurrenceMixer("retention", scope, config, args,
                        {.scale = 1 / std::sqrt(double(config.args("retention", args.hidden_size).head_dim))},
                        config.rotary) {
    check_usage(config.decay.empty() || int64_t(config.decay.size()) == heads(), "retention",
                "decay must have a number for each of the ", heads(), " heads, got ", config.decay.size());
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});  // rates by place; a scale
    const MemoryScope memory(MemoryClass::weights);
    const Tensor logs = empty({heads()}, wide_of(scope.context().compute), scope.context().device);
    for (int64_t i = 0; i < heads(); ++i) {
      const double a = config.decay.empty() ? 1 - std::exp2(-5 - double(i)) : config.decay[size_t(i)];
      check_usage(a > 0 && a <= 1, "retention", "decay must be in (0, 1], got ", a, " for head ", i);
      if (!logs.is_meta()) set_value(logs, i, std::log(a));
    }
    log_decay_ = logs;
  }

 private:
  Var log_decay_;
  Core core(const SubLayerInput& in) const override {
    const auto [q, kept] = read(in);
    return {q, kept.k, kept.v, log_decay_, {}};
  }
};

}  // namespace

void register_mixer_retention(Registry& registry) {
  registry.add<Mixer, Retention, RetentionConfig>(
      "retention", {.spec = "",
                    .summary = "linear attention with a fixed decay per head, normalised and gated (RetNet)",
                    .source = "Sun et al. 2023 (RetNet); TB Eq 6.160-6.161 without divisors",
                    .samples = {"{output_gate: false, rotary: false}", "{heads: {type: mhe_mul}, output_norm: false}",
                                "{conv_size: 2, heads: mqa}"}});
}

}  // namespace lithe
