// Rows that learned queries make of a sequence, as many for any length [TB 6.4.8; Lee et al. 2019, Jaegle et al. 2021].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/feed_forward.h"
#include "lithe/parts/common/rows_attention.h"

namespace lithe {
namespace {

struct LatentsConfig {
  int64_t rows = 64, num_attention_heads = 1, intermediate_size = 0;
  void fields(Fields& f) {
    f("rows", rows, "latent queries r: length of the sequence after this layer's compressor", at_least(1));
    f("num_attention_heads", num_attention_heads, "attention heads of the latent queries",
      at_least(1).of({Dimension::key_heads, Dimension::queries}));
    f("intermediate_size", intermediate_size,
      "hidden width of a feed-forward layer (gelu, residual) after the attention; 0: no such layer",
      at_least(0).of({Dimension::ffn}));
  }
};

class Latents final : public Compressor {
 public:
  Latents(const Scope& scope, const LatentsConfig& config, const Args& args)
      : rows_(config.rows),
        attention_(scope, "latents", config.num_attention_heads, args.hidden_size),
        latents_(scope.parameter("latents", {Axis(config.rows), Axis::hidden(args.hidden_size)}, InitRole::embedding)) {
    if (config.intermediate_size)
      ffn_ = std::make_unique<FeedForward>(scope / "ffn", FeedForwardConfig{config.intermediate_size},
                                           Ffn::Args{args.hidden_size}, kernels::Activation::gelu);
  }
  bool reads_presence() const override { return true; }
  Shorter forward(const Rows& x, const Pass& pass) const override {
    std::vector<int64_t> offsets{0}, latents;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      for (int64_t r = 0; r < rows_ && x.sequences.length(b) > 0; ++r) latents.push_back(r);
      offsets.push_back(int64_t(latents.size()));
    }
    const Sequences sequences(offsets, {}, x.x.device());
    const Var queries = pick_rows(attention_.queries(cast(latents_->var(), x.x.dtype())), latents);
    Var y = attention_.forward(queries, sequences, x);
    if (ffn_) y = add(y, ffn_->forward({y, sequences, nullptr, pass}));
    return {{y, sequences}, std::vector<int64_t>(size_t(x.sequences.rows()), -1)};
  }

 private:
  int64_t rows_;
  RowsAttention attention_;
  Parameter* latents_;
  std::unique_ptr<FeedForward> ffn_;
};

}  // namespace

void register_compressor_latents(Registry& registry) {
  registry.add<Compressor, Latents, LatentsConfig>(
      "latents",
      {.spec = "seqc.latents",
       .summary = "learned queries turn any sequence into a fixed number of rows (Perceiver, Set Transformer)",
       .source = "TB 6.4.8; Lee et al. 2019, Jaegle et al. 2021",
       .causal = false,
       .samples = {"{rows: 3, intermediate_size: 7}"}});
}

}  // namespace lithe
