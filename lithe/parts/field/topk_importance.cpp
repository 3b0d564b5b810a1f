// Every query sees the keys that matter most so far, and its own [TB 6.4.1]: key j has the score s_j = u . k_j, and the
// largest of the past are seen. log sigmoid(s_j) is added to the logits, so that u learns. A key that once fell out
// never comes back.
#include <algorithm>
#include <set>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/elementwise.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct TopkImportanceConfig {
  int64_t keys = 32;
  bool soft_bias = true;
  void fields(Fields& f) {
    f("keys", keys, "keys that a query sees beside its own (k)", at_least(1));
    f("soft_bias", soft_bias, "log sigmoid of a key's score is added to its logits; without, the scores do not learn");
  }
};

class TopKImportance final : public Field {
 public:
  TopKImportance(const Scope& scope, const TopkImportanceConfig& config, const Args& args)
      : config_(config),
        args_(args),
        score_(scope.parameter("score", {args.head_dim, args.num_attention_heads}, InitRole::query_key)) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.k.defined()) return all;
    const Tensor scores = this->scores(in).value();
    if (scores.is_meta()) return all;
    const std::vector<int64_t> offsets = key_offsets(in);
    const int64_t heads = args_.num_attention_heads;
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t ahead = in.queries.past(b) - keys.first;
      std::set<std::pair<double, int64_t>> best;  // by falling score
      int64_t next = 0;
      return visits_of(in.queries.length(b), keys.count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t end = args_.causal ? i + ahead + 1 : keys.count;
        const auto scored = [&](int64_t j) {
          return std::pair(-value_at(scores, (offsets[size_t(b)] + j) * heads + head), j);
        };
        if (best.empty() && end > config_.keys) {  // the best of those before the first query, at once
          std::vector<std::pair<double, int64_t>> all;
          for (; next < end; ++next) all.push_back(scored(next));
          std::nth_element(all.begin(), all.begin() + config_.keys, all.end());
          best.insert(all.begin(), all.begin() + config_.keys);
        }
        for (; next < end; ++next) {
          best.insert(scored(next));
          if (int64_t(best.size()) > config_.keys) best.erase(std::prev(best.end()));
        }
        for (const auto& [score, j] : best) out.push_back({j, j + 1});
        out.push_back({i + ahead, i + ahead + 1});
      });
    });
  }
  LogitBias bias(const FieldInput& in, int64_t) const override {
    if (!config_.soft_bias) return {};
    return {.columns = each_number(
                "log_sigmoid", scores(in), [](double s) { return -softplus(-s); },
                [](double s, double) { return sigmoid(-s); })};
  }
  bool biases() const override { return config_.soft_bias; }
  bool reads_keys() const override { return true; }

 private:
  TopkImportanceConfig config_;
  Args args_;
  Parameter* score_;

  // [S, heads]
  Var scores(const FieldInput& in) const {
    const int64_t heads = args_.num_attention_heads;
    const DType wide = wide_of(in.k.dtype());
    return head_linear(repeat_heads(cast(in.k, wide), args_.kv_heads, heads), cast(score_->master, wide), heads, false);
  }
};

}  // namespace

void register_field_topk_importance(Registry& registry) {
  registry.add<Field, TopKImportance, TopkImportanceConfig>(
      "topk_importance", {.spec = "sparse.topk_importance",
                          .summary = "the keys of largest learned scores so far, and the own one",
                          .source = "TB 6.4.1",
                          .samples = {"{keys: 6}"}});
}

}  // namespace lithe
