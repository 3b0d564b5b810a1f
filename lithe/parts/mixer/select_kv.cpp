// Attention to a share of the keys [TB Eq 6.131-6.132]: those of largest mean logit with a few queries that are drawn
// from the text, over all heads. The choice reads a whole text: there is no causal form; the field topk_importance has
// scores that are known when a key comes.
#include <algorithm>
#include <cmath>

#include "lithe/base/random.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

struct SelectKvConfig : HeadSizes {
  double keys = 0.25;
  int64_t sampled_queries = 0, seed = 3;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("keys", keys, "share of a text's keys that are kept, rounded up", between(1e-6, 1));
    f("sampled_queries", sampled_queries, "queries that keys are chosen by; 0: the logarithm of the tokens, and one",
      at_least(0));
    f("seed", seed, "of the draw", at_least(0));
    biases(f);
    f.part("output", "output", output, "concatenated heads to rows");
  }
};

class SelectKv final : public Mixer {
 public:
  SelectKv(const Scope& scope, const SelectKvConfig& config, const Args& args)
      : config_(config), position_(args.position), layer_(scope.layer()) {
    Heads::Args size = config.args("select_kv", args.hidden_size);
    check_usage(
        !args.cross, "select_kv",
        "chooses keys by queries of a whole text, and has no cross form for a target that comes token by token; "
        "give model.cross_attention another mixer");
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
    check(!in.state, "select_kv", "chooses keys of whole texts and cannot decode token by token");
    const auto turn = [&](const Var& x) { return position_ ? position_->turn(x, in.sequences, head_dim_) : x; };
    const auto [q, kv] = heads_->read({in.x, in.x}, turn);
    std::vector<int64_t> chosen, offsets{0};
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      choose(q.value(), kv.k.value(), in.sequences.offset(b), in.sequences.length(b), chosen);
      offsets.push_back(int64_t(chosen.size()));
    }
    return output_->forward(attend(q, pick_rows(kv.k, chosen), pick_rows(kv.v, chosen), in.sequences,
                                   Sequences(offsets, {}, in.x.device()),
                                   {.heads = heads_->query_heads(), .kv_heads = heads_->kv_heads()}));
  }
  std::unique_ptr<State> make_state(const StateShape&) const override {
    fail("select_kv", "chooses keys of whole texts and has no decode state");
  }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }

 private:
  SelectKvConfig config_;
  const Position* position_;
  int64_t layer_, head_dim_ = 0;
  std::unique_ptr<ProjectedHeads> heads_;
  std::unique_ptr<Output> output_;

  // Adds the rows of the keys that are kept, in their order. All heads' logits add up to the product of whole rows.
  void choose(const Tensor& q, const Tensor& k, int64_t begin, int64_t tokens, std::vector<int64_t>& chosen) const {
    if (tokens == 0) return;
    const auto kept = int64_t(std::ceil(config_.keys * double(tokens) - 1e-9));
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
                    .summary = "attention to the keys that sampled queries find important",
                    .source = "TB Eq 6.131-6.132",
                    .causal = false,
                    .samples = {"{num_attention_heads: 1, keys: 0.6, sampled_queries: 4}"}});
}

}  // namespace lithe
