// Every query sees the keys that matter most so far, and its own [TB 6.4.1]: key j has the score s_j = u . k_j, of each
// head, or u . h_j of its token's row, one for all heads, and the largest of the past are seen. log sigmoid(s_j) is
// added to the logits, so that u learns. A key that once fell out never comes back, so that a state keeps the best of
// each head alone. The informer form chooses queries in place of keys [Zhou et al. 2021]: those whose products with
// some keys stand out most, by the largest less the mean, see all keys, and the others give the mean of the values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/elementwise.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct TopkImportanceConfig {
  std::string form = "keys", score = "key";
  int64_t keys = 32, sampled_keys = 0, seed = 0;
  bool soft_bias = true;
  void fields(Fields& f) {
    f("form", form, "keys: each query sees the best keys; informer: only the best queries see all keys, for encoders",
      one_of({"keys", "informer"}));
    f("keys", keys,
      "k: keys: number of keys that a query sees beside its own; informer: queries per head that see all keys",
      at_least(1));
    f("score", score,
      "form keys: what a learned vector scores: key: the key of each head; row: the row that the mixer reads at the "
      "token, with one score for all heads (no cross form)",
      one_of({"key", "row"}));
    f("soft_bias", soft_bias,
      "form keys: add log sigmoid of a key's score to its logits; false: the scores are not trained");
    f("sampled_keys", sampled_keys,
      "informer: number of random keys by which a query is judged; 0: 5 ceil(ln(keys + 1))", at_least(0));
    f("seed", seed, "informer: seed of the draw of these keys", at_least(0));
  }
};

class TopKImportance final : public Field {
 public:
  TopKImportance(const Scope& scope, const TopkImportanceConfig& config, const Args& args)
      : config_(config),
        args_(args),
        score_(of_rows()
                   ? scope.parameter("score", {Axis::hidden(args.hidden_size)}, InitRole::query_key, {.wide = true})
                   : scope.parameter("score", {Axis::head_width(args.key_dim), args.query_heads}, InitRole::query_key,
                                     {.wide = true})) {
    check_usage(!of_rows() || !args.cross, "topk_importance",
                "score: row is of a text's own rows, and has no cross form; for model.cross_attention give score: key");
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !of_rows() && !in.k.defined()) return all;
    const Tensor of_keys = in.labels ? in.labels : of_rows() ? label_rows(in.pass, in.x) : label(in.k.value());
    if (of_keys.is_meta()) return all;
    const std::vector<int64_t> offsets = key_offsets(in);
    return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t queries = in.queries.length(b), ahead = in.queries.past(b) - keys.first;
      std::vector<double> scores = column(of_keys, offsets[size_t(b)], keys.count, head * columns());
      for (double& score : scores) score = -score;  // the best come first
      std::set<std::pair<double, int64_t>> best;
      int64_t next = 0;
      return visits_of(queries, keys.count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t end = args_.causal ? i + ahead + 1 : keys.count;
        const auto scored = [&](int64_t j) { return std::pair(scores[size_t(j)], j); };
        const auto see = [&](int64_t j) { out.push_back({j, j + 1}); };
        if (next == 0 && end > 0) {  // the best of those before the first query, at once
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
    if (!in.labels) return {.columns = log_sigmoid(of_rows() ? row_scores(in.x) : scores(in.k))};
    const int64_t heads = args_.num_attention_heads;
    const Tensor out = empty({in.labels.rows(), heads}, wide_of(in.q.dtype()), in.q.device());
    for (int64_t i = 0; !out.is_meta() && i < out.numel(); ++i) set_value(out, i, value_at(in.labels, 2 * i + 1));
    if (!of_rows() || !recording()) return {.columns = out};
    // What was kept is constant before the new rows, which learn.
    const Var fresh = log_sigmoid(row_scores(in.x));
    const std::vector<int64_t> offsets = key_offsets(in);
    std::vector<Var> parts;
    for (int64_t b = 0; b < in.queries.count(); ++b) {
      parts.push_back(Var(out.slice(offsets[size_t(b)], offsets[size_t(b) + 1] - in.queries.length(b))));
      parts.push_back(slice_rows(fresh, in.queries.offset(b), in.queries.offset(b + 1)));
    }
    return {.columns = concatenate_rows(parts)};
  }
  bool biases() const override { return config_.soft_bias; }
  BiasForm bias_form() const override { return {.columns = config_.soft_bias}; }
  bool reads_keys() const override { return !of_rows(); }
  bool labels_rows() const override { return of_rows(); }
  Tensor label_rows(const Pass&, const Var& x) const override {
    const NoGrad no_grad;
    return labels(row_scores(x));
  }
  KeyLabels key_labels(DType cache) const override { return {args_.num_attention_heads * columns(), wide_of(cache)}; }
  // The score of each head, and behind it what it adds to logits.
  Tensor label(const Tensor& keys) const override {
    const NoGrad no_grad;
    return labels(scores(keys));
  }
  int64_t most_kept() const override { return args_.causal ? config_.keys : 0; }
  std::vector<int64_t> stays(const Tensor& labels, int64_t head) const override {
    std::vector<double> scores = column(labels, 0, labels.rows(), head * columns());
    for (double& score : scores) score = -score;
    std::vector<int64_t> rows = at_ranks(scores, 0, std::min(labels.rows(), config_.keys));
    std::sort(rows.begin(), rows.end());
    return rows;
  }

 private:
  TopkImportanceConfig config_;
  Args args_;
  Parameter* score_;

  int64_t columns() const { return 1 + config_.soft_bias; }  // of a head's labels
  bool of_rows() const { return config_.score == "row"; }
  Tensor labels(const Var& scores) const {
    if (!config_.soft_bias) return scores.value();
    const Tensor added = log_sigmoid(scores).value(),
                 out = empty({scores.rows(), 2 * args_.num_attention_heads}, scores.dtype(), added.device());
    for (int64_t i = 0; !out.is_meta() && i < added.numel(); ++i) {
      set_value(out, 2 * i, value_at(scores.value(), i));
      set_value(out, 2 * i + 1, value_at(added, i));
    }
    return out;
  }
  // [S, heads]
  Var scores(const Var& k) const {
    const int64_t heads = args_.num_attention_heads;
    const DType wide = wide_of(k.dtype());
    return head_linear(repeat_heads(cast(k, wide), k.cols() / args_.key_dim, heads), cast(score_->var(), wide), heads,
                       false);
  }
  // The score of a row, for every head: [N, heads]
  Var row_scores(const Var& x) const {
    const DType wide = wide_of(x.dtype());
    return repeat_heads(linear(cast(x, wide), reshape(cast(score_->var(), wide), {x.cols(), 1})), 1,
                        args_.num_attention_heads);
  }
  static Var log_sigmoid(const Var& scores) {
    return each_number(
        "log_sigmoid", scores, [](double s) { return -softplus(-s); }, [](double s, double) { return sigmoid(-s); });
  }
};

class Informer final : public Field {
 public:
  Informer(const Scope& scope, const TopkImportanceConfig& config, const Args& args)
      : config_(config), args_(args), layer_(uint32_t(scope.layer() + 1)) {
    const char* remedy = "give form: keys, or field full";
    check_usage(!args.cross, "topk_importance",
                "form: informer chooses among all queries of a text, and has no cross form for those that come one by "
                "one; for model.cross_attention ",
                remedy);
    check_usage(config.score == TopkImportanceConfig().score, "topk_importance",
                "score says what the keys are chosen by, and form: informer chooses queries; leave score out");
    check_usage(!args.causal, "topk_importance",
                "form: informer chooses among all queries of a text, and has no causal form; ", remedy);
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});  // drawn by place
  }
  kernels::AttentionPattern pattern(const FieldInput&) const override { return {}; }
  // Queries that are not chosen have the weights of a prior, alike for all keys.
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    LogitBias out;
    out.use = LogitBias::Use::mix;
    const DType wide = wide_of(in.q.dtype());
    out.rates = zeros({1, heads}, wide, in.q.device());
    const Tensor share = empty({in.q.rows(), heads}, wide, in.q.device());
    for (int64_t b = 0; !share.is_meta() && b < in.queries.count(); ++b)
      for (int64_t head = 0; head < heads; ++head) {
        const std::vector<char> lazy = lazy_queries(in, b, head);
        for (int64_t i = 0; i < in.queries.length(b); ++i)
          set_value(share, (in.queries.offset(b) + i) * heads + head, lazy[size_t(i)]);
      }
    out.share = share;
    return out;
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.rates = true, .prior = true}; }
  bool reads_keys() const override { return true; }

 private:
  TopkImportanceConfig config_;
  Args args_;
  uint32_t layer_;

  // All but the k queries whose products with sampled keys stand out most.
  std::vector<char> lazy_queries(const FieldInput& in, int64_t b, int64_t head) const {
    const int64_t n = in.queries.length(b), count = in.keys[size_t(b)].count, d = args_.key_dim,
                  q0 = in.queries.offset(b), k0 = key_offsets(in)[size_t(b)],
                  of = head * args_.kv_heads / args_.num_attention_heads;
    std::vector<char> lazy(static_cast<size_t>(n), 0);
    if (config_.keys >= n) return lazy;
    const int64_t most =
                      config_.sampled_keys ? config_.sampled_keys : 5 * int64_t(std::ceil(std::log(double(count + 1)))),
                  asked = std::min(most, count);
    const Tensor q = in.q.value(), k = in.k.value();
    std::vector<double> liveliness;
    for (int64_t i = 0; i < n; ++i) {
      const RandomKey key{.seed = uint64_t(config_.seed),
                          .step = uint64_t(i),
                          .layer = layer_,
                          .purpose = purpose_of("field.informer") + uint32_t(head)};
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (const int64_t j : draw_without_replacement(key, asked, count)) {
        double product = 0;
        for (int64_t c = 0; c < d; ++c)
          product += value_at(q, (q0 + i) * q.cols() + head * d + c) * value_at(k, (k0 + j) * k.cols() + of * d + c);
        largest = std::max(largest, product), sum += product;
      }
      liveliness.push_back(-(largest - sum / double(asked)));  // the most lively come first
    }
    lazy.assign(size_t(n), 1);
    for (const int64_t i : at_ranks(liveliness, 0, config_.keys)) lazy[size_t(i)] = 0;
    return lazy;
  }
};

std::unique_ptr<Field> make_topk_importance(const Scope& scope, const TopkImportanceConfig& config,
                                            const Field::Args& args) {
  if (config.form == "informer") return std::make_unique<Informer>(scope, config, args);
  return std::make_unique<TopKImportance>(scope, config, args);
}

}  // namespace

void register_field_topk_importance(Registry& registry) {
  registry.add_forms<Field, TopkImportanceConfig, make_topk_importance>(
      "topk_importance", {.spec = "sparse.topk_importance",
                          .summary = "the past keys with the largest learned scores, and the query's own key",
                          .source = "TB 6.4.1",
                          .cross = true,
                          .samples = {"{keys: 6}", "{keys: 3, score: row}"},
                          .sees_ahead_samples = {"{form: informer, keys: 2, sampled_keys: 4}"}});
}

}  // namespace lithe
