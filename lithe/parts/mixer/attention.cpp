// Softmax attention, composed as heads, then the core with field and position, then output
// [TB Eq 6.19-6.31]. Its state is a cache of keys and values [TB 6.1.7, Fig 6.5].
#include <cmath>

#include "lithe/nn/key_value_cache.h"
#include "lithe/nn/memory_cache.h"
#include "lithe/nn/projected_heads.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

struct Config : HeadSizes {
  std::string scale = "sqrt_head_dim";
  double attention_dropout = 0;
  PartChoice heads{"mha", {}}, field{"full", {}}, output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("scale", scale, "logits are divided by sqrt_head_dim, or by sqrt_hidden (the literal TB 6.28, E05)",
      one_of({"sqrt_head_dim", "sqrt_hidden"}));
    f("attention_dropout", attention_dropout,
      "dropout of attention weights while training; keeps the maps, which costs time and memory", between(0, 0.99));
    biases(f);
    f.part("heads", "heads", heads, "rows to per-head queries, keys and values");
    f.part("field", "field", field, "which pairs of tokens may meet");
    f.part("output", "output", output, "concatenated heads to rows");
  }
};

// spec: decon.standard | mixer | causal heads mha with rotary positions, the baseline | TH Eq 4.1-4.3
class Attention final : public Mixer {
 public:
  // Positions of two texts are of no common sequence: cross-attention does not turn.
  Attention(const Scope& scope, const Config& config, const Args& args)
      : position_(args.cross ? nullptr : args.position), cross_(args.cross) {
    const int64_t d = args.hidden_size;
    Heads::Args size = config.args("attention", d);
    size.turns = position_ && position_->turns();
    head_dim_ = size.head_dim;
    if (position_) position_->check_head_dim(head_dim_);
    const Registry& registry = Registry::instance();
    heads_ = registry.make<Heads>(config.heads, scope / "heads", size);
    field_ = registry.make<Field>(config.field, scope / "field", {.causal = args.causal});
    output_ =
        registry.make<Output>(config.output, scope / "output",
                              {.context_size = heads_->context_size(), .hidden_size = d, .bias = config.output_bias});
    options_ = {.heads = heads_->query_heads(),
                .kv_heads = heads_->kv_heads(),
                .scale = config.scale == "sqrt_hidden" ? 1 / std::sqrt(double(d)) : 0,
                .mask = field_->mask()};
    shares_ = heads_->shares();
    check_usage(!cross_ || heads_->companion().kind == Companion::Kind::none, "model", "heads ", config.heads.type,
                " read rows of their own tokens and have no cross form; give model.cross_attention other heads");
    check_usage(!cross_ || config.attention_dropout == 0, "model", "attention_dropout ", config.attention_dropout,
                " has no cross form; give model.cross_attention a mixer without it");
    dropout_ = Dropout(scope / "weights", config.attention_dropout);
  }

  Var forward(const MixerInput& in) const override {
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Rows rows = rows_of(in);
    if (cross_ && in.state) {
      const auto& cache = static_cast<const MemoryCache&>(*in.state);
      const Tensor context =
          attend_cached(heads_->queries(rows, turn).value(), cache.entries(), cache.tokens(), in.sequences, options_);
      return output_->forward(heads_->finish(context));
    }
    check(!cross_ || in.memory, "cross-attention", "needs rows of an encoder");
    const Sequences& keys = cross_ ? in.memory->sequences : in.sequences;
    const auto [q, kept] =
        cross_ ? Heads::QueryKeyValue{heads_->queries(rows, turn), heads_->keep(memory_rows(*in.memory), turn)}
               : heads_->read(rows, turn);
    if (!in.state) {
      const Heads::KeyValue read = heads_->expands() ? heads_->expand(kept, turn) : kept;
      const Var context = dropout_.active()
                              ? attend_by_maps(q, read.k, read.v, in.sequences, options_,
                                               [this](const Var& map, int64_t b) { return dropout_(map, b); })
                              : attend(q, read.k, read.v, in.sequences, keys, options_);
      return output_->forward(heads_->finish(context));
    }
    auto& cache = static_cast<KeyValueCache&>(*in.state);
    cache.append(kept.k.value(), kept.v.value(), in.sequences);
    const Tensor context =
        attend_cached(q.value(), heads_->expands() ? expanded(cache, in.x.dtype(), in.sequences) : cache.entries(),
                      cache.tokens(), in.sequences, options_);
    return output_->forward(heads_->finish(context));
  }

  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t capacity, DType dtype,
                                         Device device) const override {
    const int64_t cols = heads_->kept_columns();
    if (cross_) return std::make_unique<MemoryCache>(sequences, shares_ ? cols : 2 * cols);
    return std::make_unique<KeyValueCache>(sequences, capacity, cols, cols, shares_, dtype, device, kept_heads());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    const int64_t cols = heads_->kept_columns();
    const int64_t tensors = shares_ ? 1 : 2;
    return KeyValueCache::bytes_of(tokens, tensors * cols, dtype, tensors * kept_heads());
  }
  void read_memory(MixerState& state, const Memory& memory) const override {
    const MemoryScope scope(MemoryClass::decode);
    const Heads::KeyValue kept = heads_->keep(memory_rows(memory), turn_by(memory.sequences));
    static_cast<MemoryCache&>(state).fill(kept.k.value(), kept.v.value(), memory.sequences);
  }
  bool keeps_rows() const override { return !cross_; }
  Companion companion() const override { return heads_->companion(); }

  MixerMaps maps(const MixerInput& in) const override {
    const Heads::Turn turn = turn_by(in.sequences);
    const Heads::Rows rows = rows_of(in);
    const Var q = heads_->queries(rows, turn);
    Heads::KeyValue kv = heads_->keep(cross_ ? memory_rows(*in.memory) : rows, turn);
    if (heads_->expands()) kv = heads_->expand(kv, turn);
    const Var keys = repeat_heads(kv.k, options_.kv_heads, options_.heads);
    return softmax_maps(q, keys, options_.heads, options_.scale, options_.mask);
  }

 private:
  const Position* position_;
  bool cross_;
  int64_t head_dim_ = 0;
  bool shares_ = false;  // keys and values are the same rows: one cache serves both
  std::unique_ptr<Heads> heads_;
  std::unique_ptr<Field> field_;
  std::unique_ptr<Output> output_;
  AttendOptions options_;
  Dropout dropout_;  // of attention weights

  // Heads of a kept row, which are rounded each with its own scale.
  int64_t kept_heads() const { return heads_->expands() ? 1 : heads_->kv_heads(); }

  static Heads::Rows rows_of(const MixerInput& in) { return {in.x, in.companion.defined() ? in.companion : in.x}; }
  static Heads::Rows memory_rows(const Memory& memory) { return {memory.rows, memory.rows}; }

  Heads::Turn turn_by(const Sequences& sequences) const {
    return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, head_dim_) : x; };
  }

  // Keys and values of all tokens so far, formed anew from the little that the cache keeps.
  std::vector<KeyValues> expanded(const KeyValueCache& cache, DType dtype, const Sequences& sequences) const {
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const KeyValueCache::Rows kept = cache.gather(b, dtype);
      const Sequences all = Sequences::single(kept.keys.rows(), kept.keys.device());
      const Heads::KeyValue kv = heads_->expand({kept.keys, kept.values}, turn_by(all));
      read.push_back({kv.k.value(), kv.v.value()});
    }
    return read;
  }
};

}  // namespace

void register_mixer_attention(Registry& registry) {
  registry.add<Mixer, Attention, Config>("attention", {.spec = "attn.qkv",
                                                       .summary = "softmax attention of chosen heads, field and output",
                                                       .source = "TB Eq 6.19-6.31",
                                                       .cross = true});
}

}  // namespace lithe
