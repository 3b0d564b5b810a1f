// Attention to a share of the keys [TB Eq 6.131-6.132]: those of largest mean logit with a few queries that are drawn
// from the text, over all heads. The choice reads a whole text: there is no causal form; the field topk_importance has
// scores that are known when a key comes. In cross-attention, whose target comes token by token, the source's own rows
// are what queries are drawn from, so that a state keeps the chosen keys alone.
#include <algorithm>
#include <cmath>

#include "lithe/base/random.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/source_cache.h"

namespace lithe {
namespace {

struct SelectKvConfig : HeadSizes {
  double keys = 0.25;
  int64_t sampled_queries = 0, seed = 3;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("keys", keys, "share of a text's keys to keep, rounded up", between(1e-6, 1));
    f("sampled_queries", sampled_queries, "number of random queries that choose the keys; 0: ceil(ln(tokens)) + 1",
      at_least(0));
    f("seed", seed, "seed of the draw of queries", at_least(0));
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

class SelectKv final : public Mixer {
 public:
  SelectKv(const Scope& scope, const SelectKvConfig& config, const Args& args)
      : config_(config), position_(args.cross ? nullptr : args.position), cross_(args.cross), layer_(scope.layer()) {
    Heads::Args size = config.args("select_kv", args.hidden_size);
    check_usage(!args.causal, "select_kv",
                "chooses keys by queries of the whole text, and has no causal form; the field topk_importance has one");
    check_usage(!position_ || !position_->biases(), "select_kv",
                "keys that are left stand at no distance; give a position that is added to the rows, or rotary");
    head_dim_ = size.head_dim;
    if (position_) position_->check_head_dim(head_dim_);
    heads_ = std::make_unique<ProjectedHeads>(scope / "heads", size, config.num_attention_heads);
    output_ = Registry::instance().make<Output>(
        config.output, scope / "output",
        {.context = heads_->context(), .hidden_size = args.hidden_size, .bias = config.output_bias});
    // Keys are chosen by the mean over all heads, and logits are divided by the root of their width.
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});
  }
  Var forward(const SubLayerInput& in) const override {
    check(cross_ || !in.state, "select_kv", "chooses keys of whole texts and cannot decode token by token");
    const AttendOptions options{.heads = heads_->query_heads(), .kv_heads = heads_->kv_heads()};
    if (in.state) {
      const auto& chosen = static_cast<const SourceCache&>(*in.state);
      return output_->forward(
          attend_cached(queries(in.x, in.sequences).value(), chosen.entries(), chosen.tokens(), in.sequences, options));
    }
    check(!cross_ || in.source, "cross-attention", "needs rows of an encoder");
    if (cross_) {
      const auto [k, v, rows] = chosen_of(queries(in.source->x, in.source->sequences),
                                          keys_and_values(in.source->x, in.source->sequences), in.source->sequences);
      return output_->forward(attend(queries(in.x, in.sequences), k, v, in.sequences, rows, options));
    }
    const auto [q, kv] = heads_->read({in.x, in.x}, turn_by(in.sequences));
    const auto [k, v, rows] = chosen_of(q, kv, in.sequences);
    return output_->forward(attend(q, k, v, in.sequences, rows, options));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    check(cross_, "select_kv", "chooses keys of whole texts and has no decode state");
    return std::make_unique<SourceCache>(shape.sequences, numbers_a_key());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t rows = 0;
    for (const int64_t count : tokens) rows += kept_of(count);
    return cross_ ? rows * numbers_a_key() * size_of(dtype) : 0;
  }
  /// The source does not depend on the target's rows.
  void skip(const SubLayerInput& in) const override {
    if (!cross_) forward(in);
  }
  void read_source(State& state, const Rows& source) const override {
    const MemoryScope scope(MemoryClass::decode);
    const auto [k, v, rows] =
        chosen_of(queries(source.x, source.sequences), keys_and_values(source.x, source.sequences), source.sequences);
    static_cast<SourceCache&>(state).fill(k.value(), v.value(), rows, source.sequences);
  }

 private:
  SelectKvConfig config_;
  const Position* position_;
  bool cross_;
  int64_t layer_, head_dim_ = 0;
  std::unique_ptr<ProjectedHeads> heads_;
  std::unique_ptr<Output> output_;

  Heads::Turn turn_by(const Sequences& sequences) const {
    return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, head_dim_) : x; };
  }
  Var queries(const Var& x, const Sequences& sequences) const { return heads_->queries({x, x}, turn_by(sequences)); }
  Heads::KeyValue keys_and_values(const Var& x, const Sequences& sequences) const {
    return heads_->keep({x, x}, turn_by(sequences));
  }
  int64_t numbers_a_key() const { return heads_->kept_columns() + heads_->kept_value_columns(); }
  int64_t kept_of(int64_t tokens) const { return int64_t(std::ceil(config_.keys * double(tokens) - 1e-9)); }
  struct Chosen {
    Var k, v;
    Sequences rows;
  };
  // The keys and values of each text that its queries choose.
  Chosen chosen_of(const Var& q, const Heads::KeyValue& kv, const Sequences& text) const {
    std::vector<int64_t> chosen, offsets{0};
    for (int64_t b = 0; b < text.count(); ++b) {
      choose(q.value(), kv.k.value(), text.offset(b), text.length(b), chosen);
      offsets.push_back(int64_t(chosen.size()));
    }
    return {pick_rows(kv.k, chosen), pick_rows(kv.v, chosen), Sequences(offsets, {}, q.value().device())};
  }

  // Adds the rows of the keys that are kept, in their order. All heads' logits add up to the product of whole rows.
  void choose(const Tensor& q, const Tensor& k, int64_t begin, int64_t tokens, std::vector<int64_t>& chosen) const {
    if (tokens == 0) return;
    const int64_t kept = kept_of(tokens);
    const int64_t most = config_.sampled_queries ? config_.sampled_queries
                                                 : int64_t(std::ceil(std::log(double(tokens)))) + 1,
                  asked = std::min(most, tokens), cols = k.cols();
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t j = 0; j < tokens; ++j) scores.emplace_back(0.0, begin + j);
    if (!k.is_meta()) {
      std::vector<int64_t> order(static_cast<size_t>(tokens));
      for (int64_t i = 0; i < tokens; ++i) order[size_t(i)] = i;
      const RandomKey key{
          .seed = uint64_t(config_.seed), .layer = uint32_t(layer_ + 1), .purpose = purpose_of("select_kv")};
      std::vector<double> query(size_t(cols), 0.0);
      for (int64_t i = 0; i < asked; ++i) {
        std::swap(order[size_t(i)], order[size_t(i + int64_t(random_below(key, uint64_t(i), uint64_t(tokens - i))))]);
        for (int64_t c = 0; c < cols; ++c) query[size_t(c)] += value_at(q, (begin + order[size_t(i)]) * cols + c);
      }
      for (auto& [score, row] : scores)
        for (int64_t c = 0; c < cols; ++c) score -= query[size_t(c)] * value_at(k, row * cols + c);
    }
    std::partial_sort(scores.begin(), scores.begin() + kept, scores.end());
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < kept; ++i) rows.push_back(scores[size_t(i)].second);
    std::sort(rows.begin(), rows.end());
    chosen.insert(chosen.end(), rows.begin(), rows.end());
  }
};

}  // namespace

void register_mixer_select_kv(Registry& registry) {
  registry.add<Mixer, SelectKv, SelectKvConfig>(
      "select_kv", {.spec = "lowdim.select_kv",
                    .summary = "attention to a share of the keys: those that sampled queries find important",
                    .source = "TB Eq 6.131-6.132",
                    .causal = false,
                    .cross = true,
                    .samples = {"{num_attention_heads: 1, keys: 0.6, sampled_queries: 4}"}});
}

}  // namespace lithe
