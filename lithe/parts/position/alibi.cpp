// Attention with linear biases [TB Eq 6.64-6.66; Press et al. 2022]: logits lose slope_h |i - j|, with slopes
// 2^(-8k/h) for heads k = 1 to h.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct AlibiConfig {
  bool learned = false;
  void fields(Fields& f) { f("learned", learned, "multiply each slope by a learned number, initially 1"); }
};

class Alibi final : public Position {
 public:
  Alibi(const Scope& scope, const AlibiConfig& config, const Args& args) {
    const int64_t heads = args.num_attention_heads;
    check_usage(
        heads > 0, "alibi",
        "slopes serve all layers, whose mixers must have one and the same num_attention_heads; give layers that "
        "differ a position of their own");
    const MemoryScope memory(MemoryClass::weights);
    slopes_ = empty({1, heads}, wide_of(scope.context().dtype), scope.context().device);
    if (!slopes_.is_meta())
      for (int64_t k = 1; k <= heads; ++k) set_value(slopes_, k - 1, std::exp2(-8.0 * double(k) / double(heads)));
    if (config.learned) factor_ = scope.parameter("weight", {Axis::query_heads(heads, heads)}, InitRole::ones);
    scope.couples({Dimension::key_heads, Dimension::queries});  // slopes by place
  }
  LogitBias bias(const FieldInput&, int64_t heads) const override {
    check(heads == slopes_.cols(), "alibi", "slopes are of ", slopes_.cols(), " heads, attention has ", heads);
    return {.rates = factor_ ? row_affine(slopes_, cast(factor_->var(), slopes_.dtype()), {}) : Var(slopes_)};
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.rates = true}; }
  void check_heads(const HeadSizes& of) const override {
    check_usage(of.heads == slopes_.cols(), "alibi", "slopes are of ", slopes_.cols(),
                " heads (num_attention_heads), attention has ", of.heads, " query heads; give heads that make ",
                slopes_.cols(), ", or num_attention_heads: ", of.heads);
  }

 private:
  Tensor slopes_;
  Parameter* factor_ = nullptr;
};

}  // namespace

void register_position_alibi(Registry& registry) {
  registry.add<Position, Alibi, AlibiConfig>(
      "alibi", {.spec = "attn.alibi",
                .summary = "ALiBi: subtracts the distance times a slope of each head from the logits",
                .source = "TB Eq 6.64-6.66; Press et al. 2022",
                .samples = {"{learned: true}"}});
}

}  // namespace lithe
