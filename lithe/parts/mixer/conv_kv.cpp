// Attention to fewer keys, each a convolution of some tokens' [TB Eq 6.133]: K' = Conv(K) and V' = Conv(V) of
// `kernel_size` tokens, one every `stride`. Causal: token i sees the windows that ended by then, and its own key and
// value. Cross-attention reads the windows of its source, which a state keeps. With `reduced_dim` queries and keys are
// also made narrower [TB Eq 6.149].
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/key_value_cache.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/recurrent_state.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

struct ConvKvConfig : HeadSizes {
  int64_t kernel_size = 3, stride = 3, reduced_dim = 0;
  bool depthwise = true, keep_rest = true, reduce_values = false;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("kernel_size", kernel_size, "tokens per key (r)", between(1, 1 << 16).of({Dimension::taps}));
    f("stride", stride, "tokens between the starts of two windows (s)", at_least(1));
    f("depthwise", depthwise,
      "each channel has its own kernel, initially the mean of the window; false: a full convolution over all channels");
    f("keep_rest", keep_rest,
      "encoders: tokens after the last full window keep their own keys; false: no query sees them");
    f("reduced_dim", reduced_dim, "channels of queries and keys per head; 0: head_dim",
      at_least(0).of({Dimension::head_width}));
    f("reduce_values", reduce_values,
      "values have reduced_dim channels, too, and the results are mapped back to head_dim");
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

// Windows of `size` tokens every `stride`.
struct Windows {
  int64_t size, stride;
  /// That end within the first `tokens` tokens.
  int64_t within(int64_t tokens) const { return tokens < size ? 0 : (tokens - size) / stride + 1; }
  /// Tokens up to the end of the last of these.
  int64_t read(int64_t tokens) const { return tokens < size ? 0 : (within(tokens) - 1) * stride + size; }
};

// Keys and values of the windows so far, and the rows that the next ones begin with.
class WindowState final : public State {
 public:
  WindowState(const StateShape& shape, const KeyValueCache::Columns& columns, int64_t open_columns,
              const Windows& windows)
      : windows_(windows),
        cache({shape.sequences, windows.within(shape.capacity) + 1, shape.dtype, shape.device}, columns),
        open("conv_kv", shape, Shape{windows.size - 1, open_columns}) {}
  int64_t bytes() const override { return cache.bytes() + open.bytes(); }
  void reorder(const std::vector<int64_t>& from) override { cache.reorder(from), open.reorder(from); }
  bool truncates() const override { return windows_.size == 1 && windows_.stride == 1; }
  void truncate(int64_t sequence, int64_t tokens) override {
    open.truncate(sequence, tokens);
    const int64_t left = windows_.within(tokens);
    if (left < cache.tokens()[size_t(sequence)]) cache.truncate(sequence, left);
  }
  NamedTensors save() const override {
    NamedTensors out;
    for (const auto& [name, tensor] : cache.save()) out["windows." + name] = tensor;
    for (const auto& [name, tensor] : open.save()) out["open." + name] = tensor;
    return out;
  }
  void restore(const NamedTensors& kept) override {
    NamedTensors windows, rows;
    for (const auto& [name, tensor] : kept)
      name.starts_with("open.") ? rows[name.substr(5)] = tensor : windows[name.substr(8)] = tensor;
    cache.restore(windows), open.restore(rows);
  }

 private:
  Windows windows_;

 public:
  KeyValueCache cache;
  RecurrentState open;
};

// One convolution of rows, of all channels or of each.
class WindowMap {
 public:
  WindowMap() = default;
  WindowMap(const Scope& scope, const ConvKvConfig& config, const Axis& width)
      : size_(config.kernel_size), width_(width.size()) {
    if (!config.depthwise) {
      full_ = Linear(scope, Axis::taps(size_) * width, width, true, InitRole::matrix);
      return;
    }
    for (int64_t t = 0; t < size_; ++t)
      taps_.push_back((scope / std::to_string(t)).parameter("taps", {width}, InitRole::ones));
    bias_ = scope.parameter("bias", {width}, InitRole::zeros);
  }
  /// x [S, width], the first row of each window -> [windows, width].
  Var operator()(const Var& x, const std::vector<int64_t>& firsts) const {
    std::vector<int64_t> rows;
    if (taps_.empty()) {
      for (const int64_t first : firsts)
        for (int64_t t = 0; t < size_; ++t) rows.push_back(first + t);
      return full_(reshape(pick_rows(x, rows), {int64_t(firsts.size()), size_ * width_}));
    }
    Var sum;
    for (int64_t t = 0; t < size_; ++t) {
      rows = firsts;
      for (int64_t& row : rows) row += t;
      const Var one = row_affine(pick_rows(x, rows), taps_[size_t(t)]->var(), {});
      sum = sum.defined() ? add(sum, one) : one;
    }
    return row_affine(size_ == 1 ? sum : scale(sum, 1 / double(size_)), {}, bias_->var());
  }

 private:
  int64_t size_ = 1, width_ = 0;
  Linear full_;
  std::vector<Parameter*> taps_;
  Parameter* bias_ = nullptr;
};

class ConvKv final : public Mixer {
 public:
  ConvKv(const Scope& scope, const ConvKvConfig& config, const Args& args)
      : windows_{config.kernel_size, config.stride},
        causal_(args.causal && !args.cross),
        cross_(args.cross),
        keep_rest_(config.keep_rest),
        position_(args.position) {
    const Heads::Args size = config.args("conv_kv", args.hidden_size);
    check_usage(cross_ || !position_ || !position_->biases(), "conv_kv",
                "keys of many tokens stand at no one position; give a position that is added to the rows, or rotary");
    head_dim_ = size.head_dim;
    if (cross_) position_ = nullptr;  // positions of two texts are of no common sequence
    if (position_) position_->check_head_dim(head_dim_);
    heads_ = std::make_unique<ProjectedHeads>(scope / "heads", size, config.num_attention_heads);
    count_ = config.num_attention_heads;
    const Axis wide = Axis::query_heads(count_, count_, head_dim_),
               narrow_heads = Axis::query_heads(count_, count_, config.reduced_dim ? config.reduced_dim : head_dim_);
    const int64_t width = wide.size(), narrow = narrow_heads.size();
    check_usage(config.reduced_dim <= head_dim_, "conv_kv", "reduced_dim ", config.reduced_dim,
                " must be at most head_dim ", head_dim_);
    check_usage(config.reduced_dim || !config.reduce_values, "conv_kv", "reduce_values needs reduced_dim");
    of_keys_ = WindowMap(scope / "conv_keys", config, wide);
    of_values_ = WindowMap(scope / "conv_values", config, wide);
    // Windows end where their last tap does; logits are divided by the root of the heads' width.
    scope.couples({Dimension::taps, Dimension::head_width});
    if (config.reduced_dim) {
      const auto map = [&](const char* name) {
        return (scope / name).parameter("weight", {Axis::head_width(head_dim_), narrow_heads}, InitRole::query_key);
      };
      reduce_q_ = map("reduce_q"), reduce_k_ = map("reduce_k");
      if (config.reduce_values) {
        reduce_v_ = map("reduce_v");
        widen_ = (scope / "widen").parameter("weight", {Axis::head_width(config.reduced_dim), wide}, InitRole::matrix);
      }
    }
    columns_ = {.keys = narrow, .values = reduce_v_ ? narrow : width, .heads = count_};
    open_ = {.keys = width, .values = width};
    output_ = Registry::instance().make<Output>(
        config.output, scope / "output",
        {.context = wide, .hidden_size = args.hidden_size, .bias = config.output_bias});
  }

  Var forward(const SubLayerInput& in) const override {
    if (cross_) return output_->forward(crossed(in));
    check(!in.state || causal_, "conv_kv", "decodes only where it is causal");
    const auto turn = [&](const Var& x) { return position_ ? position_->turn(x, in.sequences, head_dim_) : x; };
    const auto [q, own] = heads_->read({in.x, in.x}, turn);
    if (in.state) return output_->forward(continued(in, q, own));
    const Keys keys = keys_of(own, in.sequences);
    return output_->forward(attended(q, keys.k, keys.v, in.sequences, keys.sequences, keys.windows));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (cross_) return std::make_unique<SourceCache>(shape.sequences, columns_.keys + columns_.values);
    check(causal_, "conv_kv", "has a decode state only where it is causal");
    return std::make_unique<WindowState>(shape, columns_, open_.keys + open_.values, windows_);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    std::vector<int64_t> windows;
    for (const int64_t n : tokens) windows.push_back(windows_.within(n));
    if (cross_) {
      int64_t keys = 0;
      for (const int64_t n : tokens) keys += windows_.within(n) + (keep_rest_ ? n - windows_.read(n) : 0);
      return keys * (columns_.keys + columns_.values) * size_of(dtype);
    }
    return KeyValueCache::bytes_of(windows, columns_, dtype) +
           int64_t(tokens.size()) * (windows_.size - 1) * (open_.keys + open_.values) * size_of(wide_of(dtype));
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const Keys keys = source_keys(source);
    static_cast<SourceCache&>(state).fill(keys.k.value(), keys.v.value(), keys.sequences, source.sequences);
  }

 private:
  Windows windows_;
  bool causal_, cross_, keep_rest_;
  const Position* position_;
  int64_t head_dim_ = 0, count_ = 0;
  std::unique_ptr<ProjectedHeads> heads_;
  WindowMap of_keys_, of_values_;
  Parameter *reduce_q_ = nullptr, *reduce_k_ = nullptr, *reduce_v_ = nullptr, *widen_ = nullptr;
  KeyValueCache::Columns columns_, open_;  // open_: of rows before windows are made
  std::unique_ptr<Output> output_;

  Var mapped(const Var& x, const Parameter* by) const { return by ? head_linear(x, by->var(), count_, false) : x; }

  // Attention of the queries of each sequence to its keys, `windows[b]` of windows and then those of single tokens.
  // Query i, at position past + i, sees the windows that ended by then and its own key; not causal: all.
  Var attended(const Var& q, const Var& k, const Var& v, const Sequences& queries, const Sequences& keys,
               const std::vector<int64_t>& windows) const {
    AttendOptions options{.heads = count_, .kv_heads = count_};
    if (causal_) {
      auto tiles = std::make_shared<kernels::TileMask>();
      for (int64_t b = 0; b < queries.count(); ++b) {
        const auto seen = visits_of(queries.length(b), keys.length(b), [&](int64_t i, std::vector<KeyRange>& out) {
          out.push_back({0, windows_.within(queries.past(b) + i + 1)});
          out.push_back({windows[size_t(b)] + i, windows[size_t(b)] + i + 1});
        });
        tiles->visits.insert(tiles->visits.end(), size_t(count_), seen);
      }
      options.tiles = tiles;
    }
    const Sequences fresh(queries.offsets(), {}, q.device());
    return mapped(attend(mapped(q, reduce_q_), k, v, fresh, keys, options), widen_);
  }

  // The keys that texts are seen by: of each text its windows, then single tokens.
  struct Keys {
    Var k, v;
    Sequences sequences;
    std::vector<int64_t> windows;
  };
  Keys keys_of(const Heads::KeyValue& own, const Sequences& text) const {
    const int64_t n = text.rows();
    std::vector<int64_t> firsts, windows, order, offsets{0};
    for (int64_t b = 0; b < text.count(); ++b) {
      const int64_t begin = text.offset(b), length = text.length(b), count = windows_.within(length);
      windows.push_back(count);
      for (int64_t w = 0; w < count; ++w) {
        order.push_back(n + int64_t(firsts.size()));
        firsts.push_back(begin + w * windows_.stride);
      }
      for (int64_t i = causal_ ? 0 : keep_rest_ ? windows_.read(length) : length; i < length; ++i)
        order.push_back(begin + i);
      offsets.push_back(int64_t(order.size()));
    }
    const auto joined = [&](const Var& x, const Var& made) {
      return pick_rows(made.defined() ? concatenate_rows({x, made}) : x, order);
    };
    Var k, v;
    if (!firsts.empty())
      k = mapped(of_keys_(own.k, firsts), reduce_k_), v = mapped(of_values_(own.v, firsts), reduce_v_);
    return {joined(mapped(own.k, reduce_k_), k), joined(mapped(own.v, reduce_v_), v),
            Sequences(offsets, {}, own.k.device()), windows};
  }
  Keys source_keys(const Rows& source) const {
    return keys_of(heads_->keep({source.x, source.x}, [](const Var& x) { return x; }), source.sequences);
  }

  Var crossed(const SubLayerInput& in) const {
    const Var q = heads_->queries({in.x, in.x}, [](const Var& x) { return x; });
    if (in.state) {
      const auto& kept = static_cast<const SourceCache&>(*in.state);
      return mapped(attend_cached(mapped(q, reduce_q_).value(), kept.entries(), kept.tokens(), in.sequences,
                                  {.heads = count_, .kv_heads = count_}),
                    widen_);
    }
    check(in.source != nullptr, "cross-attention", "needs rows of an encoder");
    const Keys keys = source_keys(*in.source);
    return attended(q, keys.k, keys.v, in.sequences, keys.sequences, keys.windows);
  }

  Var continued(const SubLayerInput& in, const Var& q, const Heads::KeyValue& own) const {
    auto& state = static_cast<WindowState&>(*in.state);
    const std::vector<Tensor>& open = state.open.advance(in.sequences);
    const DType dtype = in.x.dtype();
    const int64_t tail = windows_.size - 1, keys = open_.keys, values = open_.values;
    // The rows that windows are made of: for each sequence its open rows, then the new ones.
    std::vector<Var> k, v;
    std::vector<int64_t> firsts, made{0}, past;
    int64_t begin = 0;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t before = in.sequences.past(b), length = in.sequences.length(b);
      if (tail) {
        const Tensor kept_k = empty({tail, keys}, dtype, in.x.device()),
                     kept_v = empty({tail, values}, dtype, in.x.device());
        if (!kept_k.is_meta())
          for (int64_t i = 0; i < tail; ++i) {
            for (int64_t c = 0; c < keys; ++c)
              set_value(kept_k, i * keys + c, value_at(open[size_t(b)], i * (keys + values) + c));
            for (int64_t c = 0; c < values; ++c)
              set_value(kept_v, i * values + c, value_at(open[size_t(b)], i * (keys + values) + keys + c));
          }
        k.push_back(kept_k), v.push_back(kept_v);
      }
      k.push_back(slice_rows(own.k, in.sequences.offset(b), in.sequences.offset(b + 1)));
      v.push_back(slice_rows(own.v, in.sequences.offset(b), in.sequences.offset(b + 1)));
      past.push_back(windows_.within(before));
      for (int64_t w = past.back(); w < windows_.within(before + length); ++w)
        firsts.push_back(begin + w * windows_.stride - (before - tail));
      made.push_back(int64_t(firsts.size()));
      begin += tail + length;
    }
    const Var rows_k = concatenate_rows(k), rows_v = concatenate_rows(v);
    if (!firsts.empty())
      state.cache.append(mapped(of_keys_(rows_k, firsts), reduce_k_).value(),
                         mapped(of_values_(rows_v, firsts), reduce_v_).value(), Sequences(made, past, in.x.device()));
    keep_open(in, open, rows_k.value(), rows_v.value());
    // Keys: the windows so far, then the new tokens' own.
    const Var own_k = mapped(own.k, reduce_k_), own_v = mapped(own.v, reduce_v_);
    std::vector<Var> all_k, all_v;
    std::vector<int64_t> offsets{0}, windows;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      windows.push_back(state.cache.tokens()[size_t(b)]);
      if (windows.back()) {
        const KeyValueCache::Rows kept = state.cache.gather(b, dtype);
        all_k.push_back(Var(kept.keys)), all_v.push_back(Var(kept.values));
      }
      all_k.push_back(slice_rows(own_k, in.sequences.offset(b), in.sequences.offset(b + 1)));
      all_v.push_back(slice_rows(own_v, in.sequences.offset(b), in.sequences.offset(b + 1)));
      offsets.push_back(offsets.back() + windows.back() + in.sequences.length(b));
    }
    return attended(q, concatenate_rows(all_k), concatenate_rows(all_v), in.sequences,
                    Sequences(offsets, {}, in.x.device()), windows);
  }

  // The last rows of each sequence, before the next windows' other ones.
  void keep_open(const SubLayerInput& in, const std::vector<Tensor>& open, const Tensor& k, const Tensor& v) const {
    const int64_t tail = windows_.size - 1, keys = open_.keys, values = open_.values;
    int64_t end = 0;
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      end += tail + in.sequences.length(b);
      if (k.is_meta()) continue;
      for (int64_t i = 0; i < tail; ++i) {
        const int64_t row = end - tail + i;
        for (int64_t c = 0; c < keys; ++c)
          set_value(open[size_t(b)], i * (keys + values) + c, value_at(k, row * keys + c));
        for (int64_t c = 0; c < values; ++c)
          set_value(open[size_t(b)], i * (keys + values) + keys + c, value_at(v, row * values + c));
      }
    }
  }
};

}  // namespace

void register_mixer_conv_kv(Registry& registry) {
  registry.add<Mixer, ConvKv, ConvKvConfig>(
      "conv_kv",
      {.spec = "lowdim.conv_kv",
       .summary = "attention to keys and values that a strided convolution makes (memory-compressed attention)",
       .source = "TB Eq 6.133, 6.149",
       .cross = true,
       .samples = {"{num_attention_heads: 1, kernel_size: 2, stride: 1}",
                   "{num_attention_heads: 1, kernel_size: 2, stride: 3, reduced_dim: 2}",
                   "{num_attention_heads: 1, kernel_size: 2, stride: 2, reduced_dim: 2, reduce_values: true}",
                   "{num_attention_heads: 1, kernel_size: 2, stride: 2, depthwise: false}"}});
}

}  // namespace lithe
