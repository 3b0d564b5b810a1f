// A recurrent decoder over an encoder's rows: its hidden rows ask a source, and what they get may enter its next step
// [TB 6.5.2; Bahdanau et al. 2015, Luong et al. 2015]. It stands where a decoder layer reads its source:
// sub_layers: [{cross: {type: recurrent_attention}}].
//   h_t = cell(x_t, o_{t-1}, h_{t-1})     o_{t-1} with input feeding
//   o_t = h_t + attend(h_t, source)       or tanh(h_t W_h + attend(h_t, source) W_c)
#include <algorithm>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/recurrent.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/recurrent_state.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

constexpr const char* kRecurrentAttention = "recurrent_attention";

struct RecurrentAttentionConfig : AttentionConfig {
  std::string cell = "lstm", combine = "sum";
  bool input_feeding = true, two_biases = false;
  void fields(Fields& f) {
    f("cell", cell, "recurrent cell", one_of({"lstm", "gru", "elman"}));
    f("input_feeding", input_feeding,
      "each step also reads the result of the step before (hidden state and context); adds d G d weights for G gates; "
      "false: all rows of a text are computed at once");
    f("combine", combine,
      "how hidden row h and context c make a row: sum: h + c; tanh: tanh(h W_h + c W_c), 2 d^2 more weights",
      one_of({"sum", "tanh"}));
    f("two_biases", two_biases,
      "a bias on the input product and one on the recurrent product, as in PyTorch; false: one bias");
    AttentionConfig::fields(f);
  }
};

kernels::RecurrentCell cell_named(const std::string& name) {
  return name == "gru"    ? kernels::RecurrentCell::gru
         : name == "lstm" ? kernels::RecurrentCell::lstm
                          : kernels::RecurrentCell::elman;
}

class RecurrentAttention final : public Mixer {
 public:
  RecurrentAttention(const Scope& scope, const RecurrentAttentionConfig& config, const Args& args)
      : kind_(cell_named(config.cell)),
        width_(args.hidden_size),
        core_(scope / "attention", config, args, nullptr),
        rows_(scope / "rows", Axis::hidden(width_), gates(), true) {
    check_usage(!core_.heads().reads_embedding(), kRecurrentAttention, "heads ", config.heads.type,
                " make queries of the tokens' embeddings, and here the hidden row of the recurrent layer asks; choose "
                "heads mha, gqa, mqa or others of rows");
    check_usage(config.map == "own", kRecurrentAttention, "map ", config.map, " has no form here; leave it out (own)");
    weight_ = (scope / "recurrent").parameter("weight", {Axis::hidden(width_), gates()}, InitRole::matrix);
    if (config.two_biases) bias_ = (scope / "recurrent").parameter("bias", {gates()}, InitRole::zeros);
    if (config.input_feeding) fed_ = Linear(scope / "fed", Axis::hidden(width_), gates(), false);
    if (config.combine == "tanh") {
      from_hidden_ = Linear(scope / "combine" / "hidden", Axis::hidden(width_), Axis::hidden(width_), false);
      from_context_ = Linear(scope / "combine" / "context", Axis::hidden(width_), Axis::hidden(width_), false);
    }
    const Tensor& start = rows_.bias->master.value();  // an lstm remembers at first
    for (int64_t c = width_; c < 2 * width_ && kind_ == kernels::RecurrentCell::lstm && !start.is_meta(); ++c)
      set_value(start, c, 1);
  }

  Var forward(const SubLayerInput& in) const override {
    if (!in.state) check(in.source, kRecurrentAttention, "needs rows of an encoder");
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(joint(in)[0]).advance(in.sequences);
    const Source source = source_of(in);
    const Var x = rows_(in.x);
    if (fed_.weight) return stepwise(in, x, source, states);
    const Var h = recurrent(kind_, x, weight_->var(), var_or_none(bias_), in.sequences, states);
    return combined(h, attended(in, h, in.sequences, source));
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    std::vector<std::unique_ptr<State>> parts;
    parts.push_back(std::make_unique<RecurrentState>(kRecurrentAttention, shape, Shape{kept()}));
    parts.push_back(std::make_unique<SourceCache>(shape.sequences, numbers_a_token()));
    return std::make_unique<JointState>(std::move(parts));
  }
  // h, c of an lstm, the row before with input feeding, in f32 at least; keys and values of the source.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t rows = 0;
    for (const int64_t count : tokens) rows += count;
    return int64_t(tokens.size()) * kept() * size_of(wide_of(dtype)) + rows * numbers_a_token() * size_of(dtype);
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const Heads::KeyValue read = keys_and_values(source);
    static_cast<SourceCache&>(static_cast<JointState&>(state)[1])
        .fill(read.k.value(), read.v.value(), source.sequences);
  }

 private:
  kernels::RecurrentCell kind_;
  int64_t width_;
  AttentionCore core_;
  Linear rows_, fed_, from_hidden_, from_context_;
  Parameter *weight_ = nullptr, *bias_ = nullptr;

  /// Keys and values that every step reads: of rows, or of a state.
  struct Source {
    Heads::KeyValue read;
    const Sequences* sequences = nullptr;
    const SourceCache* cache = nullptr;  // null: of rows
    Var cached_keys;                     // all of a cache, for a field that reads them
  };

  Axis gates() const { return Axis(kernels::gates_of(kind_)) * Axis::hidden(width_); }
  int64_t kept() const { return recurrent_state(kind_, width_) + (fed_.weight ? width_ : 0); }
  int64_t numbers_a_token() const {
    const Heads& heads = core_.whole();
    if (heads.expands()) return heads.kv_heads() * (heads.key_dim() + heads.value_dim());
    return heads.kept_columns() + (heads.shares() ? 0 : heads.kept_value_columns());
  }
  static JointState& joint(const SubLayerInput& in) { return static_cast<JointState&>(*in.state); }
  Heads::KeyValue keys_and_values(const Rows& source) const {
    const Heads::Turn turn = core_.turn_by(source.sequences);
    return AttentionCore::read(core_.whole(), core_.whole().keep({source.x, source.x}, turn), turn);
  }
  Source source_of(const SubLayerInput& in) const {
    if (!in.state) return {keys_and_values(*in.source), &in.source->sequences, nullptr, {}};
    Source out{{}, nullptr, &static_cast<const SourceCache&>(joint(in)[1]), {}};
    std::vector<Var> keys;
    for (const KeyValues& entry : out.cache->entries())
      for (size_t i = 0; core_.reads_keys() && i < entry.keys.pages.size(); ++i) keys.push_back(entry.keys.pages[i]);
    if (!keys.empty()) out.cached_keys = concatenate_rows(keys);
    return out;
  }

  /// What hidden rows h of `sequences` get of the source.
  Var attended(const SubLayerInput& in, const Var& h, const Sequences& sequences, const Source& source) const {
    const SubLayerInput asks{.x = h, .sequences = sequences, .state = in.state, .pass = in.pass, .source = in.source};
    const Heads& heads = core_.whole();
    const Var q = heads.queries({h, h}, core_.turn_by(sequences));
    Var context;
    if (source.cache)
      context = attend_cached(q.value(), source.cache->entries(), source.cache->tokens(), sequences,
                              core_.options(heads, asks, q, source.cached_keys, key_counts(source.cache->tokens())));
    else
      context = attend(q, source.read.k, source.read.v, sequences, *source.sequences,
                       core_.options(heads, asks, q, source.read.k, key_counts(*source.sequences)));
    return core_.output(heads.finish(context));
  }
  Var combined(const Var& h, const Var& context) const {
    if (!from_hidden_.weight) return add(h, context);
    return activate(kernels::Activation::tanh, add(from_hidden_(h), from_context_(context)));
  }

  // Row after row: of all sequences that have one.
  Var stepwise(const SubLayerInput& in, const Var& x, const Source& source, const std::vector<Tensor>& states) const {
    const Sequences& all = in.sequences;
    std::vector<int64_t> active, place(size_t(all.rows()));
    for (int64_t b = 0; b < all.count(); ++b)
      if (all.length(b)) active.push_back(b);
    RecurrentRows rows{started(active, states, 0, x), {}};
    if (kind_ == kernels::RecurrentCell::lstm) rows.cell = started(active, states, 1, x);
    Var before = started(active, states, kept() / width_ - 1, x);
    std::vector<Var> made;
    int64_t count = 0;
    for (int64_t t = 0; !active.empty(); ++t) {
      std::vector<int64_t> at, go_on, next;
      for (const int64_t b : active) at.push_back(all.offset(b) + t), place[size_t(at.back())] = count++;
      rows = recurrent_step(kind_, add(pick_rows(x, at), fed_(before)), weight_->var(), var_or_none(bias_), rows);
      before = combined(rows.hidden, attended(in, rows.hidden, step_of(all, t, in.x.device()), source));
      made.push_back(before);
      for (size_t i = 0; i < active.size(); ++i) {
        const int64_t b = active[i];
        if (t + 1 < all.length(b))
          next.push_back(b), go_on.push_back(int64_t(i));
        else if (!states.empty())
          keep(states[size_t(b)], {rows.hidden, rows.cell, before}, int64_t(i));
      }
      if (next.size() < active.size() && !next.empty()) {
        rows.hidden = pick_rows(rows.hidden, go_on), before = pick_rows(before, go_on);
        if (rows.cell.defined()) rows.cell = pick_rows(rows.cell, go_on);
      }
      active = std::move(next);
    }
    return made.empty() ? in.x : pick_rows(concatenate_rows(made), place);
  }
  // The t-th row of each sequence that has one.
  static Sequences step_of(const Sequences& all, int64_t t, Device device) {
    std::vector<int64_t> offsets{0}, past;
    for (int64_t b = 0; b < all.count(); ++b) {
      offsets.push_back(offsets.back() + (t < all.length(b)));
      past.push_back(all.past(b) + t);
    }
    return Sequences(offsets, past, device);
  }
  // Part `part` of the states of these sequences; zeros where there are none. A cell is kept wide.
  Var started(const std::vector<int64_t>& of, const std::vector<Tensor>& states, int64_t part, const Var& x) const {
    const bool cell = part == 1 && kind_ == kernels::RecurrentCell::lstm;
    const Tensor out = zeros({int64_t(of.size()), width_}, cell ? wide_of(x.dtype()) : x.dtype(), x.device());
    for (size_t i = 0; i < of.size() && !states.empty(); ++i)
      kernels::add({.a = states[size_t(of[i])].reshape({kept() / width_, width_}).slice(part, part + 1),
                    .out = out.slice(int64_t(i), int64_t(i) + 1)});
    return out;
  }
  void keep(const Tensor& state, std::initializer_list<Var> parts, int64_t row) const {
    const Tensor rows = state.reshape({kept() / width_, width_});
    int64_t at = 0;
    for (const Var& part : parts) {
      if (!part.defined()) continue;
      kernels::add({.a = part.value().slice(row, row + 1), .out = rows.slice(at, at + 1)});
      ++at;
    }
  }
};

}  // namespace

// spec: app.enc_hybrid_decoder | mixer | lstm and gru decoders that ask an encoder's rows, with input feeding |
// TB 6.5.2
void register_mixer_recurrent_attention(Registry& registry) {
  registry.add<Mixer, RecurrentAttention, RecurrentAttentionConfig>(
      kRecurrentAttention,
      {.spec = "app.enc_hybrid_decoder",
       .summary = "a recurrent decoder with attention to the encoder and input feeding",
       .source = "TB 6.5.2; Luong et al. 2015",
       .causal = false,
       .cross = true,
       .recurs = true,
       .samples = {"{num_attention_heads: 1, cell: gru, combine: tanh, two_biases: true}",
                   "{num_attention_heads: 1, cell: lstm, input_feeding: false}",
                   "{num_attention_heads: 1, cell: gru, input_feeding: false, heads: mhe_add, output: none}"}});
}

}  // namespace lithe
