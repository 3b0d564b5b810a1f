// Mixers whose heads run a linear recurrence: queries read a state matrix that keys and values are written to. The
// common ground of retention, linear attention, its gates and the delta rule.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/linear_recurrence.h"
#include "lithe/ops/norm.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/recurrent_state.h"
#include "lithe/parts/common/time_convolution.h"

namespace lithe {

/// What recipes say of all of them.
struct RecurrenceConfig : HeadSizes {
  bool output_norm = false, output_gate = false;
  int64_t conv_size = 0;
  PartChoice heads{"mha", {}}, output{"dense", {}};
  void head_fields(Fields& f) {
    sizes(f);
    biases(f);
    f.part("heads", "heads", heads, "maps rows to queries, keys and values per head");
    f("conv_size", conv_size,
      "kernel size of a short depthwise causal convolution with SiLU on queries, keys and values each; 0: none",
      between(0, 64).of({Dimension::taps}));
  }
  void output_fields(Fields& f) {
    f("output_norm", output_norm, "RMS norm of each head's result, with a learned scale");
    f("output_gate", output_gate, "multiply the heads' results by silu(x W_g), W_g [d, h d_h]");
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

class RecurrenceMixer : public Mixer {
 public:
  Var forward(const SubLayerInput& in) const override {
    const Core c = core(in);
    std::vector<Tensor> states;
    if (in.state) {
      State& past = convolutions_.empty() ? *in.state : static_cast<JointState&>(*in.state)[convolutions_.size()];
      states = static_cast<RecurrentState&>(past).advance(in.sequences);
    }
    return finished(run(c, c.v, in.sequences, states), in.x);
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    auto past = std::make_unique<RecurrentState>(name_, shape, state_shape(), true);
    if (convolutions_.empty()) return past;
    std::vector<std::unique_ptr<State>> states;
    for (const Convolution& c : convolutions_) states.push_back(c.along.make_state(shape));
    states.push_back(std::move(past));
    return std::make_unique<JointState>(std::move(states));
  }
  // h d' (d_h + 1) scalars with divisors, h d' d_h without, and the rows that convolutions keep; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t bytes = int64_t(tokens.size()) * state_shape().numel() * size_of(wide_of(dtype));
    for (const Convolution& c : convolutions_) bytes += c.along.state_bytes(tokens.size(), dtype);
    return bytes;
  }
  bool reads_embedding() const override { return heads_->reads_embedding(); }

  /// What each row takes of the others: the results for values that name the tokens.
  MixerMaps maps(const SubLayerInput& in) const override {
    const Core c = core(in);
    return maps_of(in.x.rows(), in.x.rows(), in.x.dtype(),
                   [&](const Var& names) { return run(c, names, in.sequences, {}); });
  }

 protected:
  /// What the recurrence reads: [N, h d'], [N, h d'], [N, h d_h], and the decay and weights that it takes.
  struct Core {
    Var q, k, v, log_decay, write;
  };
  virtual Core core(const SubLayerInput& in) const = 0;

  /// `name` is the mixer's in errors, `features` the columns d' of a head's queries and keys (0: head_dim).
  RecurrenceMixer(const char* name, const Scope& scope, const RecurrenceConfig& config, const Args& args,
                  const RecurrenceOptions& options, bool turns, int64_t features = 0)
      : name_(name),
        position_(turns ? args.position : nullptr),
        size_(config.args(name, args.hidden_size)),
        options_(options) {
    options_.heads = size_.num_attention_heads;
    // Without decay and the delta rule the kernel sums over both directions.
    halves_ = !args.causal && options_.causal;
    check_halves(name, "num_attention_heads", options_.heads, !halves_);
    size_.turns = true;  // whatever is done to queries and keys is done to those of each head
    if (position_) position_->check_head_dim(size_.head_dim);
    key_dim_ = features ? features : size_.head_dim;
    heads_ = Registry::instance().make<Heads>(config.heads, scope / "heads", size_);
    check_usage(heads_->query_heads() == options_.heads && heads_->key_dim() == size_.head_dim &&
                    heads_->value_dim() == size_.head_dim,
                name, "heads ", config.heads.type, " do not make ", options_.heads, " heads of ", size_.head_dim,
                " channels; choose mha, gqa or mqa");
    check_usage(
        !args.cross || !(config.conv_size > 0 || heads_->reads_embedding()), name,
        "reads another text in cross-attention: conv_size, and heads of tokens' embeddings, are of one text; leave "
        "them out");
    if (config.conv_size > 0) {
      check_usage(!heads_->expands(), name,
                  "conv_size goes with heads whose keys and values are kept as they are read ",
                  "(mha, gqa, mqa), not with ", config.heads.type);
      const int64_t d = size_.head_dim;
      const Axis queries = Axis::query_heads(options_.heads, heads_->kv_heads(), d),
                 kept = Axis::key_heads(heads_->kv_heads(), d);
      for (const auto& [what, columns] : {std::pair{"q", queries}, {"k", kept}, {"v", kept}})
        convolutions_.push_back({TimeConvolution(name, config.conv_size, columns.size(), args.causal),
                                 make_taps(scope / "convolution" / what, config.conv_size, columns)});
    }
    if (config.output_norm) {
      norm_ = (scope / "norm").parameter("weight", {Axis::head_width(size_.head_dim)}, InitRole::ones);
      scope.couples({Dimension::head_width});
    }
    const Axis context = heads_->context();
    if (config.output_gate) gate_ = Linear(scope / "gate", Axis::hidden(args.hidden_size), context, false);
    output_ = Registry::instance().make<Output>(
        config.output, scope / "output",
        {.context = context, .hidden_size = args.hidden_size, .bias = config.output_bias});
  }

  /// maps() of `rows` rows that read `read` others: results(values [read, h read]) [rows, h read] of each head.
  template <class F>
  MixerMaps maps_of(int64_t rows, int64_t read, DType type, const F& results) const {
    const int64_t h = options_.heads;
    const Tensor names = zeros({read, h * read}, type);
    for (int64_t i = 0; i < read * h; ++i) set_value(names, i * read + i / h, 1);
    const Tensor weights = results(Var(names)).value();
    const MixerMaps maps{.heads = h, .weights = empty({h * rows, read}, DType::f32), .logits = {}};
    for (int64_t i = 0; i < weights.numel(); ++i) {
      const int64_t t = i / (h * read), head = i / read % h;
      set_value(maps.weights, (head * rows + t) * read + i % read, value_at(weights, i));
    }
    return maps;
  }
  /// The heads' results [N, h d_h] as rows, gated by x.
  Var finished(Var y, const Var& x) const {
    if (norm_) {
      const Shape rows{y.rows() * options_.heads, size_.head_dim};
      y = reshape(normalise(kernels::NormKind::rms, reshape(y, rows), norm_->var(), {}, 1e-6), y.shape());
    }
    if (gate_.weight) y = gated(kernels::Activation::silu, gate_(x), y);
    return output_->forward(y);
  }

  /// Queries of every head that no position turns, and keys and values.
  Var queries(const Var& x) const { return heads_->queries({x, x}, as_it_is); }
  Heads::KeyValue keys_and_values(const Var& x) const {
    Heads::KeyValue kept = heads_->keep({x, x}, as_it_is);
    return of_query_heads(heads_->expands() ? heads_->expand(kept, as_it_is) : kept);
  }
  /// Queries, keys and values of every head.
  Heads::QueryKeyValue read(const SubLayerInput& in) const {
    const Heads::Turn turn = [&](const Var& x) {
      return position_ ? position_->turn(x, in.sequences, size_.head_dim) : x;
    };
    Heads::Input rows{in.x, in.x};
    if (heads_->reads_embedding())
      if (const Var embedded = in.pass.embedded(); embedded.defined())
        rows.embedded = in.wired ? in.wired(embedded) : embedded;
    auto [q, kept] = convolutions_.empty() ? heads_->read(rows, turn) : convolved(rows, turn, in);
    if (heads_->expands()) kept = heads_->expand(kept, turn);
    return {q, of_query_heads(kept)};
  }
  int64_t heads() const { return options_.heads; }
  Axis query_heads() const { return heads_->context().without(Dimension::head_width); }
  int64_t head_dim() const { return size_.head_dim; }
  const RecurrenceOptions& options() const { return options_; }
  /// What a state holds of a sequence, in f32 at least.
  Shape state_shape() const {
    return {options_.heads, kernels::recurrence_state(key_dim_, size_.head_dim, options_.normalise)};
  }

 private:
  struct Convolution {
    TimeConvolution along;
    Parameter* taps;
  };
  const char* name_;
  const Position* position_;
  Heads::Args size_;
  RecurrenceOptions options_;
  std::vector<Convolution> convolutions_;  // none, or of queries, keys and values
  bool halves_ = false;
  int64_t key_dim_ = 0;
  std::unique_ptr<Heads> heads_;
  std::unique_ptr<Output> output_;
  Parameter* norm_ = nullptr;
  Linear gate_;

  /// Rows are convolved before positions turn them.
  Heads::QueryKeyValue convolved(const Heads::Input& rows, const Heads::Turn& turn, const SubLayerInput& in) const {
    auto [q, kept] = heads_->read(rows, as_it_is);
    const auto along = [&](size_t i, const Var& x) {
      const Convolution& c = convolutions_[i];
      State* state = in.state ? &static_cast<JointState&>(*in.state)[i] : nullptr;
      return activate(kernels::Activation::silu, c.along(x, wide_taps(c.taps), in.sequences, state));
    };
    return {turn(along(0, q)), {turn(along(1, kept.k)), along(2, kept.v)}};
  }
  Var run(const Core& c, const Var& values, const Sequences& sequences, const std::vector<Tensor>& states) const {
    if (!halves_) return linear_recurrence(c.q, c.k, values, c.log_decay, c.write, sequences, options_, states);
    const auto turned = [&](const Var& x) {
      return x.defined() && x.value().shape().rank() == 2 ? half_turned(x, sequences) : x;
    };
    return turned(linear_recurrence(turned(c.q), turned(c.k), turned(values), turned(c.log_decay), turned(c.write),
                                    sequences, options_));
  }
  Heads::KeyValue of_query_heads(const Heads::KeyValue& kept) const {
    const int64_t from = heads_->kv_heads(), to = options_.heads;
    if (from == to) return kept;
    return {repeat_heads(kept.k, from, to), repeat_heads(kept.v, from, to)};
  }
  static Var as_it_is(const Var& x) { return x; }
};

}  // namespace lithe
