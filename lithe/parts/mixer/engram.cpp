// A memory of n-grams [Engram: Cheng et al. 2026, 2601.07372], a sub-layer of its own in chosen layers: rows e of hash
// tables by the n-grams that end at each token, side by side; a gate from the hidden row h,
// g = sigmoid(sign(s) sqrt(|s|)) with s = RMS(e W_k) . RMS(h) / sqrt(d); v = g (e W_v); and y = v + SiLU(conv(RMS(v))),
// conv causal, of each channel by itself, with dilation.
#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/ngram_memory.h"
#include "lithe/ops/norm.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/time_convolution.h"
#include "lithe/parts/common/token_history.h"

namespace lithe {
namespace {

struct EngramConfig {
  int64_t max_ngram_size = 3, n_head_per_ngram = 4, n_embed_per_ngram = 32, num_buckets = 1000, kernel_size = 4,
          dilation = 0, seed = 0;
  std::vector<int64_t> multipliers, folded_ids;
  std::string fold = "none";
  double eps = 1e-6;
  bool bias = true;
  void fields(Fields& f) {
    f("max_ngram_size", max_ngram_size, "longest n-gram in tokens; each n from 2 on has its own tables",
      between(2, 16));
    f("n_head_per_ngram", n_head_per_ngram, "tables for each n, each with its own hash", between(1, 256));
    f("n_embed_per_ngram", n_embed_per_ngram,
      "channels of all tables of one n together, a multiple of n_head_per_ngram", at_least(1));
    f("num_buckets", num_buckets,
      "rows per table: each table takes the next prime from this number on that no other table has",
      between(2, 1 << 28));
    f("kernel_size", kernel_size, "kernel size of the convolution, whose weights are initially zero; 0: no convolution",
      at_least(0).of({Dimension::taps}));
    f("dilation", dilation, "dilation of the convolution in tokens; 0: max_ngram_size", at_least(0));
    f("seed", seed, "seed of the hash multipliers; layers with the same seed hash alike", at_least(0));
    f("multipliers", multipliers, "hash multipliers instead of random ones: max_ngram_size odd numbers below 2^32");
    f("fold", fold,
      "text: tokens count as the same token if their texts are equal after NFKC, without accents, in lower case and "
      "with single blanks",
      one_of({"none", "text"}));
    f("folded_ids", folded_ids, "for each token id, the id that it counts as; with fold text, training sets it");
    f("eps", eps, "epsilon of the norms", at_least(0));
    f("bias", bias, "biases of keys and values");
  }
};

class Engram final : public Mixer {
 public:
  Engram(const Scope& scope, const EngramConfig& config, const Args& args)
      : config_(config),
        dtype_(scope.context().compute),
        hashes_(NgramHashes::of({.seed = config.seed,
                                 .max_size = config.max_ngram_size,
                                 .heads = config.n_head_per_ngram,
                                 .buckets = config.num_buckets,
                                 .multipliers = config.multipliers,
                                 .folded_ids = config.folded_ids})) {
    const int64_t d = args.hidden_size, heads = config.n_head_per_ngram;
    check_usage(config.n_embed_per_ngram % heads == 0, "engram", "n_embed_per_ngram ", config.n_embed_per_ngram,
                " must be a multiple of n_head_per_ngram ", heads, "; change one of them");
    check_usage(config.folded_ids.empty() || config.fold == "text", "engram",
                "folded_ids belong to fold: text, and fold is none; set it, or leave them out");
    const Axis channels = Axis::hidden(d), read(config.n_embed_per_ngram * (config.max_ngram_size - 1));
    table_ = scope.parameter("weight", {hashes_.rows(), config.n_embed_per_ngram / heads}, InitRole::embedding);
    key_ = Linear(scope / "key", read, channels, config.bias);
    value_ = Linear(scope / "value", read, channels, config.bias, InitRole::residual_output);
    const auto weight = [&](const char* name) {
      return (scope / name).parameter("weight", {channels}, InitRole::ones);
    };
    key_norm_ = weight("key_norm"), query_norm_ = weight("query_norm");
    scope.couples({Dimension::hidden});
    if (config.kernel_size) {
      const int64_t apart = config.dilation ? config.dilation : config.max_ngram_size;
      conv_norm_ = weight("convolution_norm");
      taps_ = (scope / "convolution")
                  .parameter("taps", {Axis::taps(config.kernel_size), channels}, InitRole::zeros, {.wide = true});
      along_ = TimeConvolution("engram", (config.kernel_size - 1) * apart + 1, d, true);
      if (apart > 1) {
        const MemoryScope memory(MemoryClass::weights);
        between_ = zeros({apart - 1, d}, wide_of(taps_->master.dtype()), scope.context().device);
      }
    }
  }

  std::vector<std::string> reads_columns() const override { return {"tokens"}; }

  Var forward(const SubLayerInput& in) const override {
    const Tensor* tokens = in.pass.given("tokens");
    check(tokens != nullptr, "engram", "a memory of n-grams needs the tokens of its rows; decode through a model");
    check(config_.fold == "none" || !config_.folded_ids.empty() || tokens->is_meta(), "engram",
          "fold: text needs folded_ids, which training fills in from its tokenizer; give them");
    auto* state = static_cast<JointState*>(in.state);
    const int64_t before = config_.max_ngram_size - 1;
    const Tensor recent = state ? static_cast<TokenHistory&>((*state)[0]).follow(*tokens, in.sequences)
                                : TokenHistory::whole(*tokens, in.sequences, before);
    const Var rows = embed(table_->var(), ngram_memory_rows(recent, hashes_), dtype_),
              read = reshape(rows, {in.x.rows(), config_.n_embed_per_ngram * before});
    Tensor gates;
    const bool shows = in.pass.wants_statistics();
    const Var v =
        memory_gate(normed(key_(read), key_norm_), normed(in.x, query_norm_), value_(read), shows ? &gates : nullptr);
    if (shows) {
      double sum = 0;
      for (int64_t n = 0; n < gates.numel() && !gates.is_meta(); ++n) sum += value_at(gates, n);
      in.pass.add_statistic("engram gate", {sum / double(std::max<int64_t>(gates.numel(), 1))}, double(gates.numel()));
    }
    if (!taps_) return v;
    const Var mixed = along_(normed(v, conv_norm_), spread_taps(), in.sequences, state ? &(*state)[1] : nullptr);
    return add(v, activate(kernels::Activation::silu, mixed));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    std::vector<std::unique_ptr<State>> states;
    states.push_back(std::make_unique<TokenHistory>("engram", shape, config_.max_ngram_size - 1));
    if (taps_) states.push_back(along_.make_state(shape));
    return std::make_unique<JointState>(std::move(states));
  }
  // The ids of max_ngram_size - 1 tokens, and the rows that the convolution reaches, in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    const auto sequences = int64_t(tokens.size());
    return TokenHistory::bytes_of(sequences, config_.max_ngram_size - 1) +
           (taps_ ? along_.state_bytes(tokens.size(), dtype) : 0);
  }

 private:
  EngramConfig config_;
  DType dtype_;
  NgramHashes hashes_;
  Parameter *table_, *key_norm_, *query_norm_, *conv_norm_ = nullptr, *taps_ = nullptr;
  Linear key_, value_;
  TimeConvolution along_;
  Tensor between_;  // zeros between taps

  Var normed(const Var& x, const Parameter* weight) const {
    return normalise(kernels::NormKind::rms, x, weight->var(), {}, config_.eps);
  }
  Var spread_taps() const {
    const Var taps = wide_taps(taps_);
    if (!between_.defined()) return taps;
    std::vector<Var> parts;
    for (int64_t r = 0; r < taps.rows(); ++r) {
      if (r) parts.emplace_back(between_);
      parts.push_back(slice_rows(taps, r, r + 1));
    }
    return concatenate_rows(parts);
  }
};

}  // namespace

void register_mixer_engram(Registry& registry) {
  registry.add<Mixer, Engram, EngramConfig>(
      "engram", {.summary = "a memory of hashed n-grams, gated by the row, with a short convolution",
                 .source = "Cheng et al. 2026 (Engram)",
                 .bidirectional = false,
                 .samples = {"{max_ngram_size: 2, n_head_per_ngram: 2, n_embed_per_ngram: 6, num_buckets: 5, "
                             "kernel_size: 2, dilation: 1, bias: false}",
                             "{max_ngram_size: 4, n_head_per_ngram: 1, n_embed_per_ngram: 3, num_buckets: 7, "
                             "kernel_size: 0}"}});
}

}  // namespace lithe
