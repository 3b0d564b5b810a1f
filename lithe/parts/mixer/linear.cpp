// Learned linear mixing: Y = W_T X W_d, one map of tokens to tokens for all sequences [TH Table 3.5; FNet].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/token_map.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {
namespace {

class LinearMixer final : public Mixer {
 public:
  LinearMixer(const Scope& scope, const NoOptions&, const Args& args)
      : tokens_((scope / "tokens")
                    .parameter(
                        "weight",
                        {Axis::positions(args.max_position_embeddings), Axis::positions(args.max_position_embeddings)},
                        InitRole::matrix, {.wide = true})),
        hidden_(scope / "hidden", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), false,
                InitRole::residual_output),
        mask_{.causal = args.causal},
        width_(args.hidden_size) {}

  int64_t limit() const override { return tokens_->master.rows(); }

  Var forward(const SubLayerInput& in) const override {
    const int64_t limit = this->limit();
    for (int64_t b = 0; b < in.sequences.count(); ++b)
      check(in.sequences.past(b) + in.sequences.length(b) <= limit, "linear", "a sequence of ",
            in.sequences.past(b) + in.sequences.length(b), " tokens is longer than max_position_embeddings ", limit);
    if (in.state) return hidden_(step(in));
    const Var tokens = tokens_->var();
    const Var map = mask_.causal ? masked_map(cast(tokens, wide_of(tokens.dtype())), mask_) : tokens;
    return hidden_(mix_tokens(map.dtype() == in.x.dtype() ? map : cast(map, in.x.dtype()), in.x, in.sequences, 1));
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<KeyValueCache>(shape, columns());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return KeyValueCache::bytes_of(tokens, columns(), dtype);
  }

 private:
  Parameter* tokens_;  // wide: the mask, which f32 needs, comes before rounding to bf16
  Linear hidden_;
  kernels::AttentionMask mask_;
  int64_t width_;

  KeyValueCache::Columns columns() const { return {.keys = width_, .values = width_, .shared = true}; }
  // The state keeps the rows; each new one is mixed from all before it.
  Var step(const SubLayerInput& in) const {
    auto& rows = static_cast<KeyValueCache&>(*in.state);
    rows.append(in.x.value(), in.x.value(), in.sequences);
    const Tensor out = empty_like(in.x.value());
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      if (in.sequences.length(b) == 0) continue;
      const Tensor all = rows.gather(b, in.x.dtype()).keys;
      for (int64_t i = 0; i < in.sequences.length(b); ++i) {
        const int64_t row = in.sequences.offset(b) + i;
        copy_into(out.slice(row, row + 1), mix_cached(tokens_->var().value(), all, in.sequences.past(b) + i));
      }
    }
    return out;
  }
};

}  // namespace

void register_mixer_linear(Registry& registry) {
  registry.add<Mixer, LinearMixer, NoOptions>(
      "linear", {.spec = "mixer.linear",
                 .summary = "one learned map over tokens, one over channels; lower triangular in causal models",
                 .source = "TH Table 3.5"});
}

}  // namespace lithe
