// The language-modelling head: logits over the vocabulary, from the embedding's own table when tied
// (W_o = E^T) or from a matrix of its own [TB 6.1.1, Eq 6.10].
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

class Lm final : public Head {
 public:
  Lm(const Scope& scope, const NoOptions&, const Args& args)
      : tied_(args.tied != nullptr),
        weight_(tied_ ? args.tied : scope.parameter("weight", {args.hidden_size, args.vocab_size}, InitRole::matrix)) {}
  LabelCount count(const Sequences& sequences) const override {
    return {sequences.rows(), weight_->master.dim(tied_ ? 0 : 1)};
  }
  Var logits(const Var& x, const Sequences&) const override { return linear(x, weight_->var(), {}, tied_); }
  Var loss(const Var& x, const LossArgs& args) const override {
    return linear_cross_entropy(x, weight_->var(), tied_, args.labels, args.smoothing, args.scale, args.sums,
                                args.row_nll);
  }

 private:
  bool tied_;
  Parameter* weight_;
};

}  // namespace

void register_head_lm(Registry& registry) {
  registry.add<Head, Lm, NoOptions>(
      "lm", {.summary = "logits over the vocabulary, tied to the embedding or not", .source = "TB 6.1.1, Eq 6.10"});
}

}  // namespace lithe
