// A label or a number for every sequence: pooled rows, then [dropout, dense d -> d, tanh], dropout, and a linear map
// [TB 6.5.2]. ModernBERT's dense layer has gelu, no bias, and a norm behind it. DeiT's distillation token has classes
// of its own [Touvron et al. 2021]. With `ngrams` a linear model of the tokens' n-grams is added to what the rows say,
// as the wide part of Cheng et al. 2016: logistic regression beside the encoder, learnt with it.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/ngram.h"
#include "lithe/ops/norm.h"
#include "lithe/ops/pool.h"

namespace lithe {
namespace {

struct ClassifyConfig {
  std::string pooling = "auto", problem_type = "single_label_classification", hidden_act = "tanh";
  bool dense = true, dense_bias = true, dense_norm = false, distillation = false;
  double dropout = 0, eps = 1e-5;
  int64_t ngrams = 0, ngram_buckets = 100000;
  double ngram_scale = 30, ngram_dropout = 0;
  void fields(Fields& f) {
    std::vector<std::string> poolings{"auto"};
    poolings.insert(poolings.end(), kPoolings.begin(), kPoolings.end());
    f("pooling", pooling,
      "how the rows of a sequence become one vector: the first row (cls), the last row, the mean, or the maximum of "
      "each channel; auto: last in a causal model, else cls",
      one_of(poolings));
    f("problem_type", problem_type,
      "single_label_classification (cross-entropy), or regression: one number (squared error)",
      one_of({"single_label_classification", "regression"}));
    f("dense", dense, "a dense layer with hidden_act before the classes, as in BERT and RoBERTa");
    f("hidden_act", hidden_act, "activation of the dense layer: tanh, relu (DistilBERT) or gelu",
      one_of({"tanh", "relu", "gelu"}));
    f("dense_bias", dense_bias, "bias of the dense layer");
    f("dense_norm", dense_norm, "a layer norm (with variance, without bias) after the activation of the dense layer");
    f("distillation", distillation,
      "the second token of a sequence is a distillation token (DeiT) with its own classifier; predictions are the mean "
      "of both (needs pooling cls, dense false)");
    f("eps", eps, "dense_norm: epsilon, added in the denominator", at_least(0));
    f("dropout", dropout, "dropout probability in the head", between(0, 0.99));
    f("ngrams", ngrams,
      "add a linear model of the text's n-grams (1 to this many tokens; by segment, and those that two segments share) "
      "to the predictions; 0: none",
      between(0, 8));
    f("ngram_buckets", ngram_buckets, "hash buckets for n-grams; each has one weight per class", between(1, 1 << 26));
    f("ngram_scale", ngram_scale,
      "the sum of a text's n-gram weights is divided by its tokens and multiplied by this; larger values learn faster",
      between(1e-3, 1e6));
    f("ngram_dropout", ngram_dropout, "dropout probability of n-gram weights", between(0, 0.99));
  }
};

class Classify final : public Head {
 public:
  Classify(const Scope& scope, const ClassifyConfig& config, const Args& args)
      : config_(config),
        pooling_(config.pooling != "auto" ? config.pooling
                 : args.causal            ? "last"
                                          : "cls"),
        classes_(config.problem_type == "regression" ? 1 : args.num_labels),
        in_dropout_(scope / "dense", config.dropout),
        out_dropout_(scope / "out", config.dropout),
        ngram_dropout_(scope / "ngram", config.ngram_dropout) {
    check_usage(classes_ >= 1, "classify", "model.num_labels must be at least 1, got ", classes_);
    const Axis rows = Axis::hidden(args.hidden_size);
    if (config.dense) dense_ = Linear(scope / "dense", rows, rows, config.dense_bias);
    if (config.dense && config.dense_norm) {
      norm_ = (scope / "norm").parameter("weight", {rows}, InitRole::ones);
      scope.couples({Dimension::hidden});
    }
    out_ = Linear(scope / "out", rows, Axis::classes(classes_), true);
    check_usage(
        !config.ngrams || !args.causal, "classify",
        "ngrams are of whole texts, which a causal model does not read at once; set model.architecture: encoder, "
        "or ngrams: 0");
    if (config.ngrams)
      ngrams_ = (scope / "ngram").parameter("weight", {config.ngram_buckets, Axis::classes(classes_)}, InitRole::zeros);
    if (!config.distillation) return;
    check_usage(pooling_ == "cls" && !config.dense, "classify",
                "distillation reads the first two rows as they are; set ", "pooling: cls and dense: false");
    second_ = Linear(scope / "distillation", rows, Axis::classes(classes_), true);
  }

  bool by_row() const override { return false; }
  bool reads_tokens() const override { return ngrams_; }
  bool reads_second_row() const override { return config_.distillation; }
  LabelCount count(const Sequences& sequences) const override { return {sequences.count(), real() ? 0 : classes_}; }
  Var logits(const Rows& rows) const override {
    Var row = pool(rows.x, rows.sequences, pooling_);
    if (config_.dense)
      row = activate(config_.hidden_act == "relu"   ? kernels::Activation::relu
                     : config_.hidden_act == "gelu" ? kernels::Activation::gelu
                                                    : kernels::Activation::tanh,
                     dense_(in_dropout_(row)));
    if (norm_) row = normalise(kernels::NormKind::layer_variance, row, norm_->var(), {}, config_.eps);
    Var predicted = out_(out_dropout_(row));
    if (config_.distillation) predicted = add(predicted, second_(second_rows(rows)), 0.5, 0.5);
    return ngrams_ ? add(predicted, of_ngrams(rows)) : predicted;
  }
  Var loss(const Rows& rows, const LossArgs& a) const override {
    check(!real() || !a.row_nll.defined(), "classify", "a regression has no likelihood to report");
    const Var predicted = logits(rows);
    return real() ? squared_error(predicted, a.labels, a.scale, a.sums)
                  : cross_entropy(predicted, a.labels, a.smoothing, a.scale, a.sums, a.row_nll);
  }

 private:
  ClassifyConfig config_;
  std::string pooling_;
  int64_t classes_;
  Dropout in_dropout_, out_dropout_, ngram_dropout_;
  Linear dense_, out_, second_;
  Parameter *norm_ = nullptr, *ngrams_ = nullptr;

  // [B, classes]
  Var of_ngrams(const Rows& rows) const {
    check(rows.read != nullptr, "classify", "ngrams need the tokens that the rows were made of (Rows::read)");
    const ModelInput& read = *rows.read;
    const auto segments = read.columns.find("token_type_ids");
    const bool pairs = segments != read.columns.end();
    const NgramTokens tokens{hashed_tokens(read.tokens), read.sequences.positions(),
                             pairs ? segments->second : Tensor()};
    Var weights;
    const auto take = [&](const Tensor& ids) {
      weights = weights.defined() ? add_rows(weights, ngrams_->var(), ids, MissingIds::no_row)
                                  : embed(ngrams_->var(), ids, rows.x.dtype(), 1, -1, MissingIds::no_row);
    };
    for (int64_t order = 1; order <= config_.ngrams; ++order) {
      take(distinct_ngrams(tokens, order, config_.ngram_buckets));
      if (pairs) take(distinct_ngrams(tokens, order, config_.ngram_buckets, true));
    }
    return scale(pool(ngram_dropout_(weights), read.sequences, "mean"), config_.ngram_scale);
  }
  static Var second_rows(const Rows& rows) {
    std::vector<int64_t> wanted;
    for (int64_t b = 0; b < rows.sequences.count(); ++b) {
      check(rows.sequences.length(b) >= 2, "classify", "sequence ", b, " has ", rows.sequences.length(b),
            " rows; the second is its distillation token");
      wanted.push_back(rows.sequences.offset(b) + 1);
    }
    return pick_rows(rows.x, wanted);
  }
  bool real() const { return config_.problem_type == "regression"; }
};

}  // namespace

void register_head_classify(Registry& registry) {
  registry.add<Head, Classify, ClassifyConfig>(
      "classify",
      {.spec = "app.classify",
       .summary = "a class or a number for every sequence",
       .source = "TB 6.5.2",
       .samples = {"{hidden_act: relu}", "{hidden_act: gelu, dense_bias: false, dense_norm: true}"},
       .sees_ahead_samples = {"{pooling: mean, dense: false, ngrams: 2, ngram_buckets: 13, ngram_scale: 2}"}});
}

}  // namespace lithe
