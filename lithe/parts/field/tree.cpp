// Who meets, and how much, by the distance of words in a tree [TB 6.2.2].
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/tree_mask.h"

namespace lithe {
namespace {

struct TreeConfig : TreeMaskConfig {
  double supervise = 0;
  int64_t supervised_head = 0;
  void fields(Fields& f) {
    TreeMaskConfig::fields(f);
    f("supervise", supervise,
      "dependency: weight of an auxiliary loss: the mean over words (without roots) of -log of the weight with which "
      "supervised_head attends from a word's first token to the first token of its head, summed over the layers with "
      "this field; without position terms and attn_logit_softcapping; 0: off",
      at_least(0));
    f("supervised_head", supervised_head,
      "supervise: the query head, from 0, that learns to find heads (causal models: only heads before the word)",
      at_least(0));
  }
};

class Tree final : public Field {
 public:
  Tree(const Scope& scope, const TreeConfig& config, const Args& args)
      : config_(config), args_(args), mask_(config, args) {
    check_usage(config.supervise == 0 || config.tree == "dependency", "tree",
                "supervise needs the heads of words, which tree ", config.tree, " has not; set tree: dependency");
    check_usage(config.supervised_head < args.num_attention_heads, "tree", "there is no supervised_head ",
                config.supervised_head, "; the ", args.num_attention_heads, " query heads count from 0");
    if (!config.heads.empty() || config.supervise > 0)
      scope.couples({Dimension::key_heads, Dimension::queries});  // heads by place
    if (config.supervise > 0) scope.couples({Dimension::head_width});
  }
  std::vector<std::string> reads_columns() const override { return mask_.reads_columns(); }
  KeyLabels key_labels(DType) const override { return {labels_rows() ? mask_.label_count() : 0, DType::i32}; }
  bool labels_rows() const override { return args_.causal; }
  Tensor label_rows(const Pass& pass, const Var& x) const override { return mask_.label_rows(pass, x.rows()); }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (config_.supervise > 0 && training()) {
      const bool continues = in.labels.defined();
      check_usage(!continues || !recording(), "tree",
                  "supervise reads whole texts and has no gradient through its state; set supervise: 0, or "
                  "train.carry_state: false");
      if (!continues) in.pass.add_loss("tree", supervision(in));
    }
    return mask_.pattern(in);
  }
  LogitBias bias(const FieldInput& in, int64_t) const override { return mask_.bias(in); }
  bool biases() const override { return !mask_.hard(); }
  // Logits that are multiplied are whole: terms of queries or of keys, which positions add to q.k, have no place
  // beside.
  BiasForm bias_form() const override {
    const bool whole = config_.apply == "multiply_logits";
    return {.rows = whole, .columns = whole, .prior = config_.apply == "multiply_weights", .pairs = !mask_.hard()};
  }
  // Weights that are multiplied do not sum to 1, and logits that are multiplied keep what all keys of a row have alike;
  // who is supervised has queries and keys of its own.
  bool reads_heads() const override {
    return config_.apply == "multiply_weights" || config_.apply == "multiply_logits" || config_.supervise > 0;
  }

 private:
  TreeConfig config_;
  Args args_;
  TreeMask mask_;

  // The mean of lse_i - l_ih - log(multiplier of the weight) over the first rows i of words with a head h, as their
  // first rows.
  Var supervision(const FieldInput& in) const {
    const Tensor q = in.q.value(), k = in.k.value(), loss = zeros({1}, wide_of(q.dtype()), q.device());
    const int64_t heads = args_.num_attention_heads, head = config_.supervised_head, d = q.cols() / heads,
                  group = head / (heads / args_.kv_heads);
    struct Pair {
      int64_t i, j;
      double dl;  // of the loss
    };
    auto pairs = std::make_shared<std::vector<Pair>>();
    if (!q.is_meta()) {
      int64_t count = 0;
      double sum = 0;
      const std::vector<WordTree> trees = mask_.trees(in);
      for (int64_t b = 0; b < in.queries.count(); ++b) {
        const WordTree& tree = trees[size_t(b)];
        const int64_t begin = in.queries.offset(b), n = in.queries.length(b), m = tree.words();
        const std::vector<double> mask = !mask_.has(head) ? std::vector<double>()
                                         : args_.causal   ? causal_word_mask(config_, tree, 0)
                                                          : word_mask(config_, tree);
        std::vector<int64_t> first(size_t(m), -1);
        for (int64_t i = n; i-- > 0;)
          if (tree.word_of[size_t(i)] >= 0) first[size_t(tree.word_of[size_t(i)])] = i;
        for (int64_t w = 0; w < m; ++w) {
          const int32_t of = tree.heads.heads[size_t(w)];
          const int64_t i = first[size_t(w)], gold = of > 0 && of <= m ? first[size_t(of - 1)] : -1;
          if (i < 0 || gold < 0) continue;
          std::vector<double> logit(static_cast<size_t>(n)), factor(size_t(n), 1);
          double most = -INFINITY, total = 0, times = 1;  // of the gold weight
          for (int64_t j = 0; j < n; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < d; ++c)
              dot += value_at(q, (begin + i) * q.cols() + head * d + c) *
                     value_at(k, (begin + j) * k.cols() + group * d + c);
            TreeMask::Effect e;
            if (args_.causal && j > i)
              e.shift = -INFINITY;
            else if (!mask.empty())
              if (const auto of_pair = mask_.of_pair(tree, mask, i, j)) e = mask_.effect(*of_pair);
            factor[size_t(j)] = e.factor;
            if (j == gold) times = e.weight;
            logit[size_t(j)] = in.scale * dot * e.factor + e.shift;
            most = std::max(most, logit[size_t(j)]);
          }
          if (!std::isfinite(logit[size_t(gold)]) || times == 0) continue;  // hidden by the mask
          for (const double l : logit) total += std::exp(l - most);
          sum += most + std::log(total) - logit[size_t(gold)] - std::log(times);
          ++count;
          for (int64_t j = 0; j < n; ++j)
            pairs->push_back(
                {begin + i, begin + j,
                 (std::exp(logit[size_t(j)] - most) / total - double(j == gold)) * factor[size_t(j)] * in.scale});
        }
      }
      const double each = count ? config_.supervise / double(count) : 0;
      set_value(loss, 0, sum * each);
      for (Pair& pair : *pairs) pair.dl *= each;
    }
    return record("supervise", {in.q, in.k}, loss,
                  [=, q_ref = in.q.ref(), k_ref = in.k.ref()](const Tensor& dy, Grads& g) {
                    std::vector<double> a(size_t(q.numel()), 0), c(size_t(k.numel()), 0);
                    const double by = q.is_meta() ? 0 : value_at(dy, 0);
                    for (const Pair& pair : *pairs)
                      for (int64_t e = 0; e < d; ++e) {
                        const int64_t at_q = pair.i * q.cols() + head * d + e, at_k = pair.j * k.cols() + group * d + e;
                        a[size_t(at_q)] += by * pair.dl * value_at(k, at_k);
                        c[size_t(at_k)] += by * pair.dl * value_at(q, at_q);
                      }
                    const auto put = [&](const Grads::Into& to, const std::vector<double>& from) {
                      for (size_t i = 0; to && !q.is_meta() && i < from.size(); ++i)
                        set_value(to.to, int64_t(i), (to.accumulate ? value_at(to.to, int64_t(i)) : 0) + from[i]);
                    };
                    put(g.into(q_ref), a);  // one after the other: heads may give the same rows as both
                    put(g.into(k_ref), c);
                  });
  }
};

}  // namespace

void register_field_tree(Registry& registry) {
  registry.add<Field, Tree, TreeConfig>(
      "tree",
      {.spec = "syn.mask01",
       .summary = "attention of words by their distance in a syntax tree, as a mask or as weights",
       .source = "TB 6.2.2",
       .samples = {"{weight: exp, apply: add, tau: 2}", "{weight: within, apply: multiply_logits, max_distance: 2}",
                   "{weight: linear, max_distance: 6, apply: multiply_weights}",
                   "{tree: constituency, weight: reciprocal, apply: log_add}", "{tree: constituency, max_distance: 7}",
                   "{heads: [0], supervise: 0.3}"},
       .sees_ahead_samples = {"{weight: inv_row, apply: log_add, heads: [0]}",
                              "{weight: zscore, squash: sigmoid, apply: multiply_weights}",
                              "{tree: parser, weight: probability, apply: log_add}"}});
}

}  // namespace lithe
