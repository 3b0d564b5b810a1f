// Attention to few keys and values that are made of all by learned maps over the tokens [TB Eq 6.134-6.135; Wang et al.
// 2020]: K' = U_k K and V' = U_v V with U [n', n_max]; shorter texts use the first columns. With `reduced_dim` queries
// and keys are also made narrower [TB Eq 6.149]. A key mixes the whole text: there is no causal form. Cross-attention
// reads a source of any length through n' keys, which a state keeps.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/project_tokens.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

struct LinformerConfig : HeadSizes {
  int64_t projected_keys = 256, reduced_dim = 0, max_source_positions = 0;
  std::string share = "heads";
  bool reduce_values = false;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("projected_keys", projected_keys, "number n' of keys and values per text", at_least(1));
    f("share", share,
      "projections along the tokens that are shared: none: each head has two; heads: all heads share one for keys and "
      "one for values; kv: one for both; layers: one for all layers",
      one_of({"none", "heads", "kv", "layers"}));
    f("reduced_dim", reduced_dim, "channels of queries and keys per head; 0: head_dim", at_least(0));
    f("reduce_values", reduce_values,
      "values have reduced_dim channels, too, and the results are mapped back to head_dim");
    f("max_source_positions", max_source_positions,
      "cross-attention: longest source in tokens; 0: max_position_embeddings", at_least(0));
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

// spec: lowdim.combined | mixer | linformer with reduced_dim: fewer keys, and narrower ones | TB Eq 6.149
class Linformer final : public Mixer {
 public:
  Linformer(const Scope& scope, const LinformerConfig& config, const Args& args)
      : cross_(args.cross),
        heads_(config.num_attention_heads),
        slots_(config.projected_keys),
        maps_(config.share == "none" ? config.num_attention_heads : 1),
        position_(args.position) {
    const int64_t d = args.hidden_size, longest = args.cross && config.max_source_positions
                                                      ? config.max_source_positions
                                                      : args.max_position_embeddings;
    const Heads::Args size = config.args("linformer", d);
    check_usage(cross_ || !position_ || !position_->biases(), "linformer",
                "keys that mix many tokens stand at no position; give a position that is added to the rows, or rotary");
    head_dim_ = size.head_dim;
    if (cross_) position_ = nullptr;
    if (position_) position_->check_head_dim(head_dim_);
    const Axis rows = Axis::hidden(d), width = Axis::query_heads(heads_, heads_, head_dim_);
    const Scope heads = scope / "heads";
    q_ = Linear(heads / "q", rows, width, config.attention_bias, InitRole::query_key);
    k_ = Linear(heads / "k", rows, width, config.attention_bias, InitRole::query_key);
    v_ = Linear(heads / "v", rows, width, config.attention_bias);
    scope.couples({Dimension::head_width});  // logits are divided by the root of it
    const auto map = [&](const char* name) {
      const Axis positions = Axis::positions(longest), heads = Axis::query_heads(maps_, maps_);
      if (config.share == "layers")
        if (Parameter* const first = in_layer_before(scope, name, {longest, slots_})) return first;
      return (scope / name).parameter("weight", {maps_ > 1 ? heads * positions : positions, slots_}, InitRole::matrix);
    };
    of_keys_ = map("project_keys");
    if (config.share != "kv" && config.share != "layers") of_values_ = map("project_values");
    check_usage(config.reduced_dim || !config.reduce_values, "linformer", "reduce_values needs reduced_dim");
    if (config.reduced_dim) {
      const auto narrow = [&](const char* name) {
        return (scope / name)
            .parameter("weight", {Axis::head_width(head_dim_), Axis::query_heads(heads_, heads_, config.reduced_dim)},
                       InitRole::query_key);
      };
      reduce_q_ = narrow("reduce_q"), reduce_k_ = narrow("reduce_k");
      if (config.reduce_values) {
        reduce_v_ = narrow("reduce_v");
        widen_ = (scope / "widen").parameter("weight", {Axis::head_width(config.reduced_dim), width}, InitRole::matrix);
      }
    }
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = width, .hidden_size = d, .bias = config.output_bias});
  }

  int64_t limit() const override { return cross_ ? 0 : longest(); }
  int64_t source_limit() const override { return cross_ ? longest() : 0; }
  Var forward(const SubLayerInput& in) const override {
    check(cross_ || !in.state, "linformer", "makes its keys of whole texts and cannot decode token by token");
    const Var q = mapped(turned(q_(in.x), in.sequences), reduce_q_);
    if (in.state) {
      const auto& made = static_cast<const SourceCache&>(*in.state);
      return output_->forward(
          mapped(attend_cached(q.value(), made.entries(), made.tokens(), in.sequences, options()), widen_));
    }
    check(!cross_ || in.source, "cross-attention", "needs rows of an encoder");
    const auto [k, v, slots] = cross_ ? made_of(in.source->x, in.source->sequences) : made_of(in.x, in.sequences);
    return output_->forward(mapped(attend(q, k, v, in.sequences, slots, options()), widen_));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    check(cross_, "linformer", "makes its keys of whole texts and has no decode state");
    return std::make_unique<SourceCache>(shape.sequences, numbers_a_key());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return cross_ ? int64_t(tokens.size()) * slots_ * numbers_a_key() * size_of(dtype) : 0;
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const auto [k, v, slots] = made_of(source.x, source.sequences);
    static_cast<SourceCache&>(state).fill(k.value(), v.value(), slots, source.sequences);
  }

 private:
  bool cross_;
  int64_t heads_, slots_, maps_, head_dim_ = 0;
  const Position* position_;
  Linear q_, k_, v_;
  Parameter *of_keys_ = nullptr, *of_values_ = nullptr, *reduce_q_ = nullptr, *reduce_k_ = nullptr,
            *reduce_v_ = nullptr, *widen_ = nullptr;
  std::unique_ptr<Output> output_;

  // The map of the first layer before this one that has it; null: this is the first.
  static Parameter* in_layer_before(const Scope& scope, const std::string& name, const Shape& shape) {
    const std::string& path = scope.path();
    const std::string layer = cat("layers.", scope.layer(), ".");
    const size_t at = path.rfind(layer);
    for (int64_t before = 0; at != std::string::npos && before < scope.layer(); ++before) {
      const std::string there = cat(path.substr(0, at), "layers.", before, ".", path.substr(at + layer.size()));
      Parameter* const found = scope.context().parameters->find(cat(there, ".", name, ".weight"));
      if (!found) continue;
      check_usage(found->master.shape() == shape, "linformer", "share: layers reads the map of '", there,
                  "', which is ", found->master.shape(), ", and '", path, "' needs it as ", shape,
                  "; give all layers the same projected_keys and positions");
      return found;
    }
    return nullptr;
  }

  struct Made {
    Var k, v;         // [sequences * n', heads * d]
    Sequences slots;  // n' of each sequence
  };
  Made made_of(const Var& x, const Sequences& text) const {
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < text.count(); ++b) {
      check(text.length(b) <= longest(), "linformer", "maps texts of at most ", longest(), " tokens, got ",
            text.length(b), "; raise ",
            cross_ ? "max_source_positions of model.cross_attention" : "max_position_embeddings", " and train anew");
      offsets.push_back(offsets.back() + slots_);
    }
    return {mapped(made_by(*of_keys_, turned(k_(x), text), text), reduce_k_),
            mapped(made_by(of_values_ ? *of_values_ : *of_keys_, v_(x), text), reduce_v_),
            Sequences(offsets, {}, x.device())};
  }
  int64_t longest() const { return of_keys_->master.rows() / maps_; }
  // x [N, heads*d] -> [sequences * n', heads*d], each head by its map.
  Var made_by(const Parameter& map, const Var& x, const Sequences& text) const {
    if (maps_ == 1) return project_tokens(map.var(), x, text);
    const int64_t N = x.rows(), rows = text.count() * slots_, h = heads_;
    const Var split = reshape(x, {N * h, x.cols() / h});
    std::vector<Var> made;  // of each head
    for (int64_t j = 0; j < h; ++j) {
      std::vector<int64_t> of_head;
      for (int64_t i = 0; i < N; ++i) of_head.push_back(i * h + j);
      made.push_back(
          project_tokens(slice_rows(map.var(), j * longest(), (j + 1) * longest()), pick_rows(split, of_head), text));
    }
    std::vector<int64_t> order;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < h; ++j) order.push_back(j * rows + i);
    return reshape(pick_rows(concatenate_rows(made), order), {rows, x.cols()});
  }
  AttendOptions options() const { return {.heads = heads_, .kv_heads = heads_}; }
  int64_t numbers_a_key() const {
    const auto columns = [&](const Parameter* by) { return by ? by->master.cols() : heads_ * head_dim_; };
    return columns(reduce_k_) + columns(reduce_v_);
  }

  Var turned(const Var& x, const Sequences& sequences) const {
    return position_ ? position_->turn(x, sequences, head_dim_) : x;
  }
  Var mapped(const Var& x, const Parameter* by) const { return by ? head_linear(x, by->var(), heads_, false) : x; }
};

}  // namespace

void register_mixer_linformer(Registry& registry) {
  registry.add<Mixer, Linformer, LinformerConfig>(
      "linformer", {.spec = "lowdim.linformer",
                    .summary = "attention to a few keys and values, which are learned mixtures of all tokens",
                    .source = "TB Eq 6.134-6.135; Wang et al. 2020",
                    .causal = false,
                    .cross = true,
                    .samples = {"{projected_keys: 3, num_attention_heads: 1}",
                                "{projected_keys: 3, num_attention_heads: 1, share: kv, reduced_dim: 2}",
                                "{projected_keys: 3, num_attention_heads: 2, share: none}",
                                "{projected_keys: 3, num_attention_heads: 1, share: layers}",
                                "{projected_keys: 3, num_attention_heads: 1, reduced_dim: 2, reduce_values: true}"}});
}

}  // namespace lithe
