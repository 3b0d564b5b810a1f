// Attention to what a memory keeps of the past in place of all tokens [TB 6.4.2]: heads make queries, keys and values,
// the memory says which pairs they leave behind, and one softmax runs over those that a query sees and its own. The
// state is the memory's, of a size that most memories bound. In encoders and in cross-attention the whole text enters
// before a query reads.
#include <cmath>

#include "lithe/nn/memory_slot.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/memory_state.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

struct MemoryAttentionConfig : HeadSizes {
  PartChoice heads{"mha", {}}, memory{"avg_pool", {}}, output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    biases(f);
    f.part("heads", "heads", heads, "maps rows to queries, keys and values per head");
    f.part("memory", "memory", memory, "what is kept of past tokens");
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

class MemoryAttention final : public Mixer {
 public:
  MemoryAttention(const Scope& scope, const MemoryAttentionConfig& config, const Args& args)
      : position_(args.cross ? nullptr : args.position), causal_(args.causal), cross_(args.cross) {
    Heads::Args size = config.args("memory_attention", args.hidden_size);
    size.turns = position_ && position_->turns();
    head_dim_ = size.head_dim;
    if (position_) position_->check_head_dim(head_dim_);
    check_usage(
        !position_ || !position_->biases(), "model",
        "memory_attention has pairs without a place, so that no distance can be added to their logits; give "
        "model.position one that adds to rows or rotates queries and keys (rotary, sinusoidal, learned), or none");
    const Registry& registry = Registry::instance();
    heads_ = registry.make<Heads>(config.heads, scope / "heads", size);
    check_usage(!heads_->reads_embedding(), "model", "memory_attention and heads ", config.heads.type,
                ", which read each token's own embedding, do not go together; choose heads mha, gqa or mqa");
    const int64_t query = heads_->query_heads();
    memory_ = registry.make<Memory>(config.memory, scope / "memory",
                                    {.heads = query,
                                     .kv_heads = heads_->kv_heads(),
                                     .key_cols = heads_->kv_heads() * heads_->key_dim(),
                                     .value_cols = heads_->kv_heads() * heads_->value_dim(),
                                     .layer_rows = args.hidden_size,
                                     .causal = args.causal,
                                     .cross = args.cross});
    output_ = registry.make<Output>(
        config.output, scope / "output",
        {.context = heads_->context(), .hidden_size = args.hidden_size, .bias = config.output_bias});
    scope.couples({Dimension::head_width});  // logits are divided by the root of it
  }

  Var forward(const SubLayerInput& in) const override {
    if (cross_) return crossed(in);
    const Heads::Turn turn = [&](const Var& x) { return position_ ? position_->turn(x, in.sequences, head_dim_) : x; };
    auto [q, kept] = heads_->read({in.x, in.x}, turn);
    if (heads_->expands()) kept = heads_->expand(kept, turn);
    const Tensor lengths = memory_->reads_lengths() ? key_lengths(in.x, kept.k) : Tensor();
    auto* state = static_cast<MemoryState*>(in.state);
    check(causal_ || !state, "memory_attention", "reads whole texts here and cannot decode token by token");
    if (state) state->check_continues(in.sequences);
    Pairs all;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      Memory::Kept none;
      if (!state) none = MemoryState::empty_of(*memory_, in.x.dtype(), in.x.device());
      add(all, in.sequences, b, q, kept, lengths, state ? state->of(b) : none);
    }
    if (state) state->add(in.sequences);
    return output_->forward(heads_->finish(attended(all, q, in.sequences)));
  }

  /// The source does not depend on the target's rows.
  void skip(const SubLayerInput& in) const override {
    if (!cross_) forward(in);
  }
  void read_source(State& state, const Rows& source) const override {
    const NoGrad no_grad;
    auto& memory = static_cast<SourceMemory&>(state);
    const Heads::KeyValue kept = of_source(source);
    const Var none(zeros({0, heads_->query_heads() * heads_->key_dim()}, source.x.dtype(), source.x.device()));
    for (int64_t b = 0; b < source.sequences.count(); ++b) {
      const int64_t tokens = source.sequences.length(b);
      if (tokens == 0) continue;
      Memory::Kept fresh = MemoryState::empty_of(*memory_, source.x.dtype(), source.x.device());
      memory_->read(stretch_of(none, kept, source.sequences, b), fresh);
      memory.fill(b, tokens, std::move(fresh));
    }
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (cross_) return std::make_unique<SourceMemory>(shape, *memory_);
    check(causal_, "memory_attention", "reads whole texts here and has no decode state");
    return std::make_unique<MemoryState>(shape, *memory_);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    if (!causal_ && !cross_) return 0;
    int64_t total = 0;
    for (const int64_t count : tokens) total += MemoryState::bytes_of(*memory_, count, dtype);
    return total;
  }

 private:
  // The pairs of all sequences, and who sees them.
  struct Pairs {
    std::vector<Var> k, v, bias, context;
    std::vector<int64_t> offsets{0}, apart;  // apart: of each sequence
    std::vector<Memory::Reading> readings;
    std::vector<int64_t> own;  // where the queries' own pairs begin
    Var gate;
  };

  // What is left of a source: constant while the target is decoded.
  class SourceMemory final : public State {
   public:
    SourceMemory(const StateShape& of, const Memory& memory) : kept_(of, memory), tokens_(size_t(of.sequences), 0) {}
    void fill(int64_t b, int64_t tokens, Memory::Kept kept) {
      kept_.of(b) = std::move(kept);
      tokens_[size_t(b)] = tokens;
      kept_.set(tokens_);
    }
    Memory::Kept& of(int64_t b) { return kept_.of(b); }
    int64_t tokens(int64_t b) const { return tokens_[size_t(b)]; }
    int64_t bytes() const override { return kept_.bytes(); }
    void reorder(const std::vector<int64_t>& from) override {
      Continuation("cross-attention", from, tokens_.size()).apply(tokens_);
      kept_.reorder(from);
    }
    bool truncates() const override { return true; }
    void truncate(int64_t, int64_t) override {}
    NamedTensors save() const override { return kept_.save(); }
    void restore(const NamedTensors& kept) override {
      tokens_ = counts_of(kept_tensor(kept, "tokens"), int64_t(tokens_.size()));
      kept_.restore(kept);
    }

   private:
    MemoryState kept_;
    std::vector<int64_t> tokens_;
  };

  const Position* position_;
  bool causal_, cross_;
  int64_t head_dim_ = 0;
  std::unique_ptr<Heads> heads_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Output> output_;

  Heads::KeyValue of_source(const Rows& source) const {
    const Heads::Turn still = [](const Var& rows) { return rows; };
    const Heads::KeyValue kept = heads_->keep({source.x, source.x}, still);
    return heads_->expands() ? heads_->expand(kept, still) : kept;
  }
  // A whole text enters before its queries read.
  Memory::Stretch stretch_of(const Var& q, const Heads::KeyValue& kept, const Sequences& text, int64_t b) const {
    const auto rows = [&](const Var& x) { return slice_rows(x, text.offset(b), text.offset(b + 1)); };
    return {.q = q,
            .k = rows(kept.k),
            .v = rows(kept.v),
            .before = 0,
            .seen = std::vector<int64_t>(size_t(q.rows()), text.length(b)),
            .scale = scale(),
            .own = false};
  }
  Var crossed(const SubLayerInput& in) const {
    const Heads::Turn still = [](const Var& rows) { return rows; };
    const Var q = heads_->queries({in.x, in.x}, still);
    auto* state = static_cast<SourceMemory*>(in.state);
    check(state || in.source, "cross-attention", "needs rows of an encoder");
    const Heads::KeyValue kept = state ? Heads::KeyValue() : of_source(*in.source);
    Pairs all;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const Var queries = slice_rows(q, in.sequences.offset(b), in.sequences.offset(b + 1));
      Memory::Kept none = MemoryState::empty_of(*memory_, in.x.dtype(), in.x.device());
      if (!state) {
        put(all, stretch_of(queries, kept, in.source->sequences, b), none);
        continue;
      }
      const int64_t tokens = state->tokens(b), heads = heads_->kv_heads();
      const auto empty = [&](int64_t dim) { return Var(zeros({0, heads * dim}, in.x.dtype(), in.x.device())); };
      put(all,
          {.q = queries,
           .k = empty(heads_->key_dim()),
           .v = empty(heads_->value_dim()),
           .before = tokens,
           .seen = std::vector<int64_t>(size_t(queries.rows()), tokens),
           .scale = scale(),
           .own = false},
          state->of(b));
    }
    return output_->forward(heads_->finish(attended(all, q, in.sequences)));
  }

  double scale() const { return 1 / std::sqrt(double(heads_->key_dim())); }

  // Of keys before positions turn them.
  Tensor key_lengths(const Var& x, const Var& turned) const {
    const NoGrad no_grad;
    const Heads::Turn still = [](const Var& rows) { return rows; };
    Var k = turned;
    if (position_ && position_->turns()) {
      const Heads::KeyValue kept = heads_->keep({x, x}, still);
      k = heads_->expands() ? heads_->expand(kept, still).k : kept.k;
    }
    const int64_t heads = heads_->kv_heads(), d = heads_->key_dim();
    const Tensor out = empty({k.rows(), heads}, wide_of(k.dtype()), k.value().device());
    for (int64_t i = 0; i < out.numel() && !out.is_meta(); ++i) {
      double sum = 0;
      for (int64_t c = 0; c < d; ++c) sum += std::pow(value_at(k.value(), i * d + c), 2);
      set_value(out, i, std::sqrt(sum));
    }
    return out;
  }

  void add(Pairs& all, const Sequences& sequences, int64_t b, const Var& q, const Heads::KeyValue& kept,
           const Tensor& lengths, Memory::Kept& memory) const {
    const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1), rows = end - begin;
    const Var k = slice_rows(kept.k, begin, end), v = slice_rows(kept.v, begin, end);
    if (!causal_) return put(all, stretch_of(slice_rows(q, begin, end), kept, sequences, b), memory);
    const int64_t ahead = memory_->includes_own() ? 1 : 0;
    Memory::Stretch stretch{.q = slice_rows(q, begin, end),
                            .k = k,
                            .v = v,
                            .before = sequences.past(b),
                            .seen = {},
                            .lengths = lengths ? lengths.slice(begin, end) : Tensor(),
                            .scale = scale(),
                            .own = beside()};
    for (int64_t i = 0; i < rows; ++i) stretch.seen.push_back(stretch.before + i + ahead);
    put(all, stretch, memory);
  }

  // A query sees its own pair beside the memory's.
  bool beside() const { return causal_ && !memory_->includes_own() && memory_->beside_own(); }
  void put(Pairs& all, const Memory::Stretch& stretch, Memory::Kept& memory) const {
    const Var &q = stretch.q, &k = stretch.k, &v = stretch.v;
    const int64_t rows = q.rows();
    Memory::Reading reading = memory_->read(stretch, memory);
    const int64_t pairs = reading.k.rows(), added = beside() ? rows : pairs == 0 ? 1 : 0;
    const auto put = [&](std::vector<Var>& to, const Var& of_memory, const Var& own) {
      if (pairs) to.push_back(of_memory);
      if (beside() && rows) to.push_back(own);
      if (!beside() && pairs == 0) to.push_back(zeros({1, own.cols()}, own.dtype(), own.device()));  // seen by nobody
    };
    put(all.k, reading.k, k);
    put(all.v, reading.v, v);
    const DType wide = wide_of(q.dtype());
    if (reading.bias.defined()) {
      all.bias.push_back(reading.bias);
      if (added) all.bias.push_back(zeros({added, heads_->query_heads()}, wide, q.device()));
    }
    all.offsets.push_back(all.offsets.back() + pairs + added);
    all.own.push_back(pairs);
    all.apart.push_back(reading.apart);
    if (reading.context.defined()) all.context.push_back(reading.context);
    if (reading.gate.defined()) all.gate = reading.gate;
    reading.k = reading.v = reading.context = {};
    all.readings.push_back(std::move(reading));
  }

  // Pairs [from, to) of what each query sees.
  enum class Share { all, apart, rest };
  std::shared_ptr<const kernels::TileMask> tiles(const Pairs& all, const Sequences& queries, Share share) const {
    auto out = std::make_shared<kernels::TileMask>();
    for (int64_t b = 0; b < queries.count(); ++b) {
      const Memory::Reading& reading = all.readings[size_t(b)];
      const int64_t pairs = all.offsets[size_t(b) + 1] - all.offsets[size_t(b)], cut = all.apart[size_t(b)];
      std::shared_ptr<const Visits> made;
      for (int64_t head = 0; head < heads_->query_heads(); ++head) {
        if (head == 0 || reading.by_head) {
          std::vector<Memory::Range> seen;
          made = visits_of(queries.length(b), pairs, [&](int64_t i, std::vector<KeyRange>& ranges) {
            seen.clear();
            reading.see(head, i, seen);
            if (beside()) seen.push_back({all.own[size_t(b)] + i, all.own[size_t(b)] + i + 1});
            for (Memory::Range r : seen) {
              if (share == Share::apart) r.end = std::min(r.end, cut);
              if (share == Share::rest) r.begin = std::max(r.begin, cut);
              if (r.begin < r.end) ranges.push_back({r.begin, r.end});
            }
          });
        }
        out->visits.push_back(made);
      }
    }
    return out;
  }

  Var attended(const Pairs& all, const Var& q, const Sequences& queries) const {
    const Sequences keys(all.offsets, {}, q.device());
    const Var k = concatenate_rows(all.k), v = concatenate_rows(all.v);
    AttendOptions options{
        .heads = heads_->query_heads(), .kv_heads = heads_->kv_heads(), .scale = scale(), .mask = {.causal = false}};
    if (!all.bias.empty()) options.bias.columns = concatenate_rows(all.bias);
    const auto part = [&](Share share) {
      options.tiles = tiles(all, queries, share);
      return attend(q, k, v, queries, keys, options);
    };
    const auto of_long = [&](Share share) {
      const Var read = part(share);
      return all.context.empty() ? read : add(read, concatenate_rows(all.context));
    };
    if (!all.gate.defined()) return of_long(Share::all);
    const int64_t heads = heads_->query_heads();
    const Var of_memory = of_long(Share::apart), of_rest = part(Share::rest);
    const Var gate = pointwise(kernels::Pointwise::sigmoid, cast(reshape(all.gate, {1, heads}), wide_of(q.dtype())));
    const int64_t width = of_memory.cols() / heads;
    const Var wide = reshape(repeat(gate, width), {heads * width});
    return add(of_rest, row_affine(add(of_memory, of_rest, 1, -1), wide, {}));
  }
  static Var repeat(const Var& gate, int64_t width) {
    return linear(reshape(gate, {gate.cols(), 1}), Var(filled({1, width}, 1, gate.dtype(), gate.device())));
  }
  static Var add(const Var& a, const Var& b, double alpha = 1, double beta = 1) {
    return lithe::add(a, b, alpha, beta);
  }
};

}  // namespace

void register_mixer_memory_attention(Registry& registry) {
  registry.add<Mixer, MemoryAttention, MemoryAttentionConfig>(
      "memory_attention", {.summary = "softmax attention to a memory of the past",
                           .source = "TB 6.4.2",
                           .cross = true,
                           .samples = {"{num_attention_heads: 2, memory: {type: snapshot, chunk: 2, slots: 2}}",
                                       "{num_attention_heads: 1, memory: {type: retrieval, nearest: 2}}",
                                       "{num_attention_heads: 1, memory: {type: continuous, basis: 3, refit: 2}}",
                                       "{num_attention_heads: 1, memory: {type: continuous, basis: 3, refit: 2, "
                                       "reading: gaussian}}"}});
}

}  // namespace lithe
