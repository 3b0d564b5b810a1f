// Softmax attention, composed as heads, then the core with field and position, then output
// [TB Eq 6.19-6.31]. Its state is a cache of keys and values [TB 6.1.7, Fig 6.5].
#include <cmath>

#include "lithe/kernels/token_map.h"
#include "lithe/nn/key_value_cache.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/token_map.h"

namespace lithe {
namespace {

struct Config {
  int64_t num_attention_heads = 8, head_dim = 0;
  std::string scale = "sqrt_head_dim";
  double attention_dropout = 0;
  bool attention_bias = false, output_bias = false;
  PartChoice heads{"mha", {}}, field{"full", {}}, output{"dense", {}};
  void fields(Fields& f) {
    f("num_attention_heads", num_attention_heads, "query heads h", at_least(1));
    f("head_dim", head_dim, "channels of a head d_h; 0: hidden_size / num_attention_heads", at_least(0));
    f("scale", scale, "logits are divided by sqrt_head_dim, or by sqrt_hidden (the literal TB 6.28, E05)",
      one_of({"sqrt_head_dim", "sqrt_hidden"}));
    f("attention_dropout", attention_dropout,
      "dropout of attention weights while training; keeps the maps, which costs time and memory", between(0, 0.99));
    f("attention_bias", attention_bias, "biases on queries, keys and values");
    f("output_bias", output_bias, "bias on the output projection");
    f.part("heads", "heads", heads, "rows to per-head queries, keys and values");
    f.part("field", "field", field, "which pairs of tokens may meet");
    f.part("output", "output", output, "concatenated heads to rows");
  }
};

// spec: decon.standard | mixer | causal heads mha with rotary positions, the baseline | TH Eq 4.1-4.3
class Attention final : public Mixer {
 public:
  Attention(const Scope& scope, const Config& config, const Args& args) : position_(args.position) {
    const int64_t d = args.hidden_size, h = config.num_attention_heads;
    check_usage(config.head_dim || d % h == 0, "attention", "hidden_size ", d,
                " must be a multiple of num_attention_heads ", h, ", or give head_dim");
    head_dim_ = config.head_dim ? config.head_dim : d / h;
    if (position_) position_->check_head_dim(head_dim_);
    const bool turns = position_ && position_->turns();
    const Registry& registry = Registry::instance();
    heads_ = registry.make<Heads>(config.heads, scope / "heads",
                                  {.hidden_size = d,
                                   .num_attention_heads = h,
                                   .head_dim = head_dim_,
                                   .bias = config.attention_bias,
                                   .turns = turns});
    field_ = registry.make<Field>(config.field, scope / "field", {.causal = args.causal});
    output_ =
        registry.make<Output>(config.output, scope / "output",
                              {.context_size = heads_->context_size(), .hidden_size = d, .bias = config.output_bias});
    options_ = {.heads = heads_->query_heads(),
                .kv_heads = heads_->kv_heads(),
                .scale = config.scale == "sqrt_hidden" ? 1 / std::sqrt(double(d)) : 0,
                .mask = field_->mask()};
    shares_ = heads_->shares();
    dropout_ = Dropout(scope / "weights", config.attention_dropout);
  }

  Var forward(const MixerInput& in) const override {
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Rows rows{in.x, in.companion.defined() ? in.companion : in.x};
    const Var q = heads_->queries(rows, turn);
    const Heads::KeyValue kept = heads_->keep(rows, turn);
    if (!in.state) {
      const Heads::KeyValue read = heads_->expands() ? heads_->expand(kept, turn) : kept;
      const Var context = dropout_.active()
                              ? attend_by_maps(q, read.k, read.v, in.sequences, options_,
                                               [this](const Var& map, int64_t b) { return dropout_(map, b); })
                              : attend(q, read.k, read.v, in.sequences, in.sequences, options_);
      return output_->forward(heads_->finish(context));
    }
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    cache.append(kept.k.value(), kept.v.value(), in.sequences);
    const Tensor context = attend_cached(q.value(), heads_->expands() ? expanded(cache, in.sequences) : cache.entries(),
                                         in.sequences, options_);
    return output_->forward(heads_->finish(context));
  }

  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t capacity, DType dtype,
                                         Device device) const override {
    const int64_t cols = heads_->kept_columns();
    return std::make_unique<KeyValueCache>(sequences, capacity, cols, cols, shares_, dtype, device);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t total = 0;
    for (int64_t n : tokens) total += n;
    return total * heads_->kept_columns() * (shares_ ? 1 : 2) * size_of(dtype);
  }
  Companion companion() const override { return heads_->companion(); }

  MixerMaps maps(const MixerInput& in) const override {
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Rows rows{in.x, in.companion.defined() ? in.companion : in.x};
    const Var q = heads_->queries(rows, turn);
    Heads::KeyValue kv = heads_->keep(rows, turn);
    if (heads_->expands()) kv = heads_->expand(kv, turn);
    // Every query head beside its group's keys.
    const int64_t group = options_.heads / options_.kv_heads, width = q.cols() / options_.heads;
    const Tensor keys = empty(q.shape(), q.dtype(), q.device());
    kernels::block_copy({.x = kv.k.value(),
                         .out = keys,
                         .blocks = group,
                         .rows = kv.k.rows() * options_.kv_heads,
                         .cols = width,
                         .x_row = width,
                         .out_block = width,
                         .out_row = group * width});
    return softmax_maps(q, Var(keys), options_.heads, options_.scale, options_.mask);
  }

 private:
  const Position* position_;
  int64_t head_dim_ = 0;
  bool shares_ = false;  // keys and values are the same rows: one cache serves both
  std::unique_ptr<Heads> heads_;
  std::unique_ptr<Field> field_;
  std::unique_ptr<Output> output_;
  AttendOptions options_;
  Dropout dropout_;  // of attention weights

  Heads::Turn turn_by(const Sequences& sequences) const {
    return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, head_dim_) : x; };
  }

  // Keys and values of all tokens so far, formed anew from the little that the cache keeps.
  std::vector<KeyValues> expanded(const KeyValueCache& cache, const Sequences& sequences) const {
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const KeyValues& entry = cache.entries()[size_t(b)];
      const int64_t tokens = sequences.past(b) + sequences.length(b);
      const Sequences all = Sequences::single(tokens, entry.keys.device());
      const Heads::KeyValue kv =
          heads_->expand({entry.keys.slice(0, tokens), entry.values.slice(0, tokens)}, turn_by(all));
      read.push_back({kv.k.value(), kv.v.value()});
    }
    return read;
  }
};

}  // namespace

void register_mixer_attention(Registry& registry) {
  registry.add<Mixer, Attention, Config>("attention", {.spec = "attn.qkv",
                                                       .summary = "softmax attention of chosen heads, field and output",
                                                       .source = "TB Eq 6.19-6.31"});
}

}  // namespace lithe
