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
        score_(scope.parameter("score", {Axis::head_width(args.key_dim), args.query_heads}, InitRole::query_key,
                               {.wide = true})) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !in.k.defined()) return all;
    const Tensor of_keys = in.labels ? in.labels : scores(in.k).value();
    if (of_keys.is_meta()) return all;
    const std::vector<int64_t> offsets = key_offsets(in);
    return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t queries = in.queries.length(b), ahead = in.queries.past(b) - keys.first;
      std::vector<double> scores = column(of_keys, offsets[size_t(b)], keys.count, head);
      for (double& score : scores) score = -score;  // the best come first
      std::set<std::pair<double, int64_t>> best;
      int64_t next = 0;
      return visits_of(queries, keys.count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t end = args_.causal ? i + ahead + 1 : keys.count;
        const auto scored = [&](int64_t j) { return std::pair(scores[size_t(j)], j); };
        const auto see = [&](int64_t j) { out.push_back({j, j + 1}); };
        if (next == 0) {  // the best of those before the first query, at once
          for (const int64_t j : at_ranks({scores.data(), size_t(end)}, 0, std::min(end, config_.keys)))
            queries > 1 ? void(best.insert(scored(j))) : see(j);
          next = end;
        }
        for (; next < end; ++next) {
          best.insert(scored(next));
          if (int64_t(best.size()) > config_.keys) best.erase(std::prev(best.end()));
        }
        for (const auto& [score, j] : best) see(j);
        see(i + ahead);
      });
    });
  }
  LogitBias bias(const FieldInput& in, int64_t) const override {
    if (!config_.soft_bias) return {};
    if (!in.labels) return {.columns = log_sigmoid(scores(in.k))};
    const int64_t rows = in.labels.rows();
    return {.columns = cast(head_major(in.labels, 2).slice(rows, 2 * rows), wide_of(in.q.dtype()))};
  }
  bool biases() const override { return config_.soft_bias; }
  BiasForm bias_form() const override { return {.columns = config_.soft_bias}; }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType cache) const override {
    return {args_.num_attention_heads * (1 + config_.soft_bias), wide_of(cache)};
  }
  // The scores of all heads, and what they add to logits.
  Tensor label(const Tensor& keys) const override {
    const NoGrad no_grad;
    const Var scores = this->scores(keys);
    if (!config_.soft_bias) return scores.value();
    const Tensor out = empty({keys.rows(), 2 * args_.num_attention_heads}, scores.dtype(), keys.device());
    to_token_major(concatenate_rows({scores, log_sigmoid(scores)}).value(), out, 2);
    return out;
  }

 private:
  TopkImportanceConfig config_;
  Args args_;
  Parameter* score_;

  // [S, heads]
  Var scores(const Var& k) const {
    const int64_t heads = args_.num_attention_heads;
    const DType wide = wide_of(k.dtype());
    return head_linear(repeat_heads(cast(k, wide), args_.kv_heads, heads), cast(score_->var(), wide), heads, false);
  }
  static Var log_sigmoid(const Var& scores) {
    return each_number(
        "log_sigmoid", scores, [](double s) { return -softplus(-s); }, [](double s, double) { return sigmoid(-s); });
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
