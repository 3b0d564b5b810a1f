// Attention whose heads look at different scales [TB 6.2.4]: queries stand at words, keys and values of head i are
// means over blocks of s_i tokens, or over the spans that a column names. Causal: a row sees the blocks that ended
// before it, and its own key and value.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pool.h"
#include "lithe/parts/common/block_state.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/row_groups.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

struct MultiScaleConfig {
  int64_t num_attention_heads = 8, head_dim = 0;
  std::vector<int64_t> scales{1, 2, 4};
  std::string spans;
  bool attention_bias = false, output_bias = false;
  void fields(Fields& f) {
    f("num_attention_heads", num_attention_heads, "attention heads h", at_least(1));
    f("head_dim", head_dim, "channels d_h per head; 0: hidden_size / num_attention_heads",
      at_least(0).of({Dimension::head_width}));
    f("scales", scales,
      "block size in tokens of each head: its keys and values are means over such blocks; a shorter list repeats; 0: "
      "the spans of column `spans`");
    f("spans", spans,
      "encoders: column of the input: neighbours with the same number are one span; a token with a negative number is "
      "its own span");
    f("attention_bias", attention_bias, "biases on queries, keys and values");
    f("output_bias", output_bias, "bias on the output projection");
  }
};

// The heads of one scale: attention with a map of its own from contexts to rows.
class ScaleHeads {
 public:
  ScaleHeads(const Scope& scope, int64_t scale, int64_t heads, int64_t head_dim, const MultiScaleConfig& config,
             const Mixer::Args& args, bool output_bias)
      : scale_(scale), heads_(heads), head_dim_(head_dim), causal_(args.causal && !args.cross), spans_(config.spans) {
    const Axis d = Axis::hidden(args.hidden_size), wide = Axis(heads) * Axis::head_width(head_dim);
    q_ = Linear(scope / "q", d, wide, config.attention_bias, InitRole::query_key);
    k_ = Linear(scope / "k", d, wide, config.attention_bias, InitRole::query_key);
    v_ = Linear(scope / "v", d, wide, config.attention_bias);
    output_ = Linear(scope / "output", wide, d, output_bias, InitRole::residual_output);
    columns_ = {.keys = wide.size(), .values = wide.size(), .heads = heads};
  }

  int64_t scale() const { return scale_; }
  const KeyValueCache::Columns& columns() const { return columns_; }

  Var of_text(const SubLayerInput& in, const Position* position) const {
    const auto turn = [&](const Var& x) { return position ? position->turn(x, in.sequences, head_dim_) : x; };
    const Var q = turn(q_(in.x)), k = turn(k_(in.x)), v = v_(in.x);
    if (causal_) return output_(in.state ? continued(in, q, k, v) : causal(in.sequences, q, k, v));
    const RowGroups at = groups(in.sequences, &in.pass);
    return output_(attend(q, mean(k, at), mean(v, at), in.sequences, at.sequences, options()));
  }
  Var of_source(const SubLayerInput& in) const {
    const Var q = q_(in.x);
    if (in.state) {
      const auto& kept = static_cast<const SourceCache&>(*in.state);
      return output_(Var(attend_cached(q.value(), kept.entries(), kept.tokens(), in.sequences, options())));
    }
    check(in.source != nullptr, "cross-attention", "needs rows of an encoder");
    const RowGroups at = groups(in.source->sequences, nullptr);
    const Sequences fresh(in.sequences.offsets(), {}, q.device());
    return output_(attend(q, mean(k_(in.source->x), at), mean(v_(in.source->x), at), fresh, at.sequences, options()));
  }
  void keep_source(State& state, const Rows& source) const {
    const RowGroups at = groups(source.sequences, nullptr);
    static_cast<SourceCache&>(state).fill(mean(k_(source.x), at).value(), mean(v_(source.x), at).value(), at.sequences,
                                          source.sequences);
  }

 private:
  int64_t scale_, heads_, head_dim_;
  bool causal_;
  std::string spans_;
  Linear q_, k_, v_, output_;
  KeyValueCache::Columns columns_;

  AttendOptions options() const { return {.heads = heads_, .kv_heads = heads_}; }
  RowGroups groups(const Sequences& text, const Pass* pass) const {
    if (scale_) return RowGroups::blocks(text, scale_);
    return RowGroups::spans(text, pass ? *pass : Pass::nowhere(), spans_, "multi_scale");
  }
  static Var mean(const Var& x, const RowGroups& at) {
    return at.groups.count() == x.rows() ? x : pool(x, at.groups, "mean");
  }

  // Query i of a text, at position past + i, sees the blocks that ended before it, of the `blocks[b]` that stand first
  // among its keys, and its own key behind these.
  Var attended(const Var& q, const Var& k, const Var& v, const Sequences& queries, const Sequences& keys,
               const std::vector<int64_t>& blocks) const {
    auto tiles = std::make_shared<kernels::TileMask>();
    for (int64_t b = 0; b < queries.count(); ++b) {
      const auto seen = visits_of(queries.length(b), keys.length(b), [&](int64_t i, std::vector<KeyRange>& out) {
        out.push_back({0, std::min(blocks[size_t(b)], (queries.past(b) + i) / scale_)});
        out.push_back({blocks[size_t(b)] + i, blocks[size_t(b)] + i + 1});
      });
      tiles->visits.insert(tiles->visits.end(), size_t(heads_), seen);
    }
    AttendOptions with = options();
    with.tiles = tiles;
    return attend(q, k, v, Sequences(queries.offsets(), {}, q.device()), keys, with);
  }
  Var causal(const Sequences& text, const Var& q, const Var& k, const Var& v) const {
    if (scale_ == 1) {
      AttendOptions with = options();
      with.mask = {.causal = true};
      return attend(q, k, v, text, text, with);
    }
    // Of each text the whole blocks, but for one that nobody stands behind, then all tokens.
    std::vector<int64_t> rows, groups{0}, blocks, order, offsets{0};
    for (int64_t b = 0; b < text.count(); ++b) {
      blocks.push_back(std::max<int64_t>(0, text.length(b) - 1) / scale_);
      for (int64_t i = 0; i < blocks.back() * scale_; ++i) rows.push_back(text.offset(b) + i);
      for (int64_t i = 0; i < blocks.back(); ++i) {
        order.push_back(text.rows() + int64_t(groups.size()) - 1);
        groups.push_back(groups.back() + scale_);
      }
      for (int64_t row = text.offset(b); row < text.offset(b + 1); ++row) order.push_back(row);
      offsets.push_back(int64_t(order.size()));
    }
    const Sequences spans(groups, {}, q.device());
    const auto keys = [&](const Var& x) {
      if (rows.empty()) return x;
      return pick_rows(concatenate_rows({x, pool(pick_rows(x, rows), spans, "mean")}), order);
    };
    return attended(q, keys(k), keys(v), text, Sequences(offsets, {}, q.device()), blocks);
  }
  Var continued(const SubLayerInput& in, const Var& q, const Var& k, const Var& v) const {
    auto& state = static_cast<BlockState&>(*in.state);
    state.append(k.value(), v.value(), in.sequences);
    std::vector<Var> keys, values;
    std::vector<int64_t> offsets{0}, blocks;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      blocks.push_back(state.cache().tokens()[size_t(b)]);
      if (blocks.back()) {
        const KeyValueCache::Rows kept = state.cache().gather(b, in.x.dtype());
        keys.push_back(Var(kept.keys)), values.push_back(Var(kept.values));
      }
      keys.push_back(slice_rows(k, in.sequences.offset(b), in.sequences.offset(b + 1)));
      values.push_back(slice_rows(v, in.sequences.offset(b), in.sequences.offset(b + 1)));
      offsets.push_back(offsets.back() + blocks.back() + in.sequences.length(b));
    }
    return attended(q, concatenate_rows(keys), concatenate_rows(values), in.sequences,
                    Sequences(offsets, {}, in.x.device()), blocks);
  }
};

class MultiScale final : public Mixer {
 public:
  MultiScale(const Scope& scope, const MultiScaleConfig& config, const Args& args)
      : causal_(args.causal && !args.cross), cross_(args.cross), spans_(config.spans), position_(args.position) {
    const int64_t heads = config.num_attention_heads;
    check_usage(config.head_dim || args.hidden_size % heads == 0, "multi_scale", "hidden_size ", args.hidden_size,
                " must be a multiple of num_attention_heads ", heads, ", or give head_dim");
    const int64_t head_dim = config.head_dim ? config.head_dim : args.hidden_size / heads;
    check_usage(cross_ || !position_ || !position_->biases(), "multi_scale",
                "keys of many tokens stand at no one position; give a position that is added to the rows, or rotary");
    if (cross_) position_ = nullptr;  // positions of two texts are of no common sequence
    if (position_) position_->check_head_dim(head_dim);
    std::vector<std::pair<int64_t, int64_t>> groups = heads_of(config);
    for (const auto& [scale, count] : groups) {
      check_usage(scale > 0 || !(causal_ || cross_), "multi_scale",
                  "scale 0 is of spans, which are known of whole texts "
                  "alone: ",
                  cross_ ? "cross-attention" : "a causal model", " needs blocks; give scales of 1 or more");
      scales_.push_back(std::make_unique<ScaleHeads>(scope / (scale ? cat("scale_", scale) : "spans"), scale, count,
                                                     head_dim, config, args, config.output_bias && scales_.empty()));
    }
    scope.couples({Dimension::head_width});
  }

  Var forward(const SubLayerInput& in) const override {
    check(!in.state || causal_ || cross_, "multi_scale", "decodes only where it is causal");
    Var out;
    for (size_t i = 0; i < scales_.size(); ++i) {
      SubLayerInput mine = in;
      if (in.state) mine.state = &static_cast<JointState&>(*in.state)[i];
      const Var part = cross_ ? scales_[i]->of_source(mine) : scales_[i]->of_text(mine, position_);
      out = out.defined() ? add(out, part) : part;
    }
    return out;
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    check(causal_ || cross_, "multi_scale", "has a decode state only where it is causal");
    std::vector<std::unique_ptr<State>> states;
    for (const auto& of : scales_) {
      const KeyValueCache::Columns& columns = of->columns();
      if (cross_)
        states.push_back(std::make_unique<SourceCache>(shape.sequences, columns.keys + columns.values));
      else
        states.push_back(std::make_unique<BlockState>(shape, columns, of->scale()));
    }
    return std::make_unique<JointState>(std::move(states));
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t total = 0;
    if (!causal_ && !cross_) return total;  // and there is no state
    for (const auto& of : scales_) {
      const KeyValueCache::Columns& columns = of->columns();
      const int64_t scale = of->scale();
      if (!cross_)
        total += BlockState::bytes_of(tokens, columns, scale, dtype);
      else
        for (const int64_t n : tokens)
          total += (n + scale - 1) / scale * (columns.keys + columns.values) * size_of(dtype);
    }
    return total;
  }
  bool keeps_rows() const override { return causal_; }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    for (size_t i = 0; i < scales_.size(); ++i) scales_[i]->keep_source(static_cast<JointState&>(state)[i], source);
  }
  std::vector<std::string> reads_columns() const override {
    for (const auto& of : scales_)
      if (of->scale() == 0) return {spans_};
    return {};
  }

 private:
  bool causal_, cross_;
  std::string spans_;
  const Position* position_;
  std::vector<std::unique_ptr<ScaleHeads>> scales_;

  // Scales in the order in which heads name them, and how many heads have each.
  static std::vector<std::pair<int64_t, int64_t>> heads_of(const MultiScaleConfig& config) {
    check_usage(!config.scales.empty(), "multi_scale", "scales has no number; give one a head, or some that repeat");
    std::vector<std::pair<int64_t, int64_t>> out;
    for (int64_t head = 0; head < config.num_attention_heads; ++head) {
      const int64_t scale = config.scales[size_t(head) % config.scales.size()];
      check_usage(scale >= 0 && scale <= 1 << 16, "multi_scale", "scales must be between 0 and 65536, got ", scale);
      check_usage(scale > 0 || !config.spans.empty(), "multi_scale", "scale 0 is of spans; name their column: spans");
      const auto found = std::ranges::find(out, scale, &std::pair<int64_t, int64_t>::first);
      if (found == out.end())
        out.emplace_back(scale, 1);
      else
        ++found->second;
    }
    const bool of_spans = std::ranges::any_of(out, [](const auto& group) { return group.first == 0; });
    check_usage(of_spans || config.spans.empty(), "multi_scale", "spans names column '", config.spans,
                "', and no head has scale 0, which reads it");
    return out;
  }
};

}  // namespace

void register_mixer_multi_scale(Registry& registry) {
  registry.add<Mixer, MultiScale, MultiScaleConfig>(
      "multi_scale",
      {.spec = "ms.heads",
       .summary = "attention whose heads see means over blocks of 1, 2, 4, … tokens",
       .source = "TB 6.2.4",
       .cross = true,
       .samples = {"{num_attention_heads: 1, scales: [2]}", "{num_attention_heads: 3, scales: [1, 2, 4]}",
                   "{num_attention_heads: 4, scales: [3, 1], head_dim: 2, attention_bias: true, "
                   "output_bias: true}"}});
}

}  // namespace lithe
