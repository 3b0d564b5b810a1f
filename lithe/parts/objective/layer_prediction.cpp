// Deep supervision: a norm and a linear map of the objective's own predict the labels from the rows of a layer below
// the last [Lee et al. 2015; TB 6.4.6]. With `detach` the model does not learn from it: a linear probe that is trained
// along with the model [Alain & Bengio 2017].
#include "lithe/base/error.h"
#include "lithe/objective/objective.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pool.h"

namespace lithe {
namespace {

struct LayerPredictionConfig {
  int64_t layer = 1;
  double weight = 0.3;
  bool detach = false;
  void fields(Fields& f) {
    f("layer", layer, "layer, from 1, whose rows predict the labels", at_least(1));
    f("weight", weight, "weight of this loss; train.objective has the weight 1", at_least(0));
    f("detach", detach, "no gradient goes to the model: the layer is only probed");
  }
};

class LayerPrediction final : public Objective {
 public:
  LayerPrediction(const Scope& scope, const LayerPredictionConfig& config, const Args& args)
      : config_(config), tap_{Tap::Kind::rows, config.layer - 1} {
    if (args.model) build(scope, *args.model);
  }
  bool beside() const override { return true; }

  void prepare(const LessonFacts&, ModelConfig& model) const override {
    check_usage(config_.layer < model.num_hidden_layers, "layer_prediction", "layer ", config_.layer, " of ",
                model.num_hidden_layers,
                " is not below the last, whose rows the model's own head predicts from; give a ", "layer from 1 to ",
                model.num_hidden_layers - 1);
  }

  void want(const Model&, Pass& pass) const override { pass.want(tap_); }

  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override {
    const Var tapped = ran.tap(tap_);
    const Sequences& sequences = ran.input.sequences;
    check_usage(tapped.rows() == sequences.rows(), "layer_prediction", "layer ", config_.layer, " has ", tapped.rows(),
                " rows for ", sequences.rows(),
                " tokens: a compressor below it shortens sequences; give a layer below "
                "the compressor");
    Var x = norm_->forward(config_.detach ? Var(tapped.value()) : tapped);
    if (!by_row_)
      x = pool(x, sequences, "mean");
    else if (!targets.predicted.empty())
      x = pick_rows(x, targets.predicted);
    return linear_cross_entropy(x, map_.weight->var(), false, targets.labels, terms.smoothing,
                                terms.scale * config_.weight, terms.sums, {}, var_or_none(map_.bias));
  }

 private:
  LayerPredictionConfig config_;
  Tap tap_;
  std::unique_ptr<Norm> norm_;
  Linear map_;
  bool by_row_ = true;  // labels are of rows; else of sequences

  void build(const Scope& scope, const Model& model) {
    const Head::LabelCount count = model.label_count(Sequences({0, 5, 8}, {}, Device::meta));
    by_row_ = count.labels == 8;
    check_usage(count.classes > 0 && !count.own_lengths && (by_row_ || count.labels == 2), "layer_prediction",
                "predicts one of several classes for each token or sequence, and head ", model.config().head.type,
                " has other labels; leave it out");
    const int64_t width = model.config().hidden_size;
    norm_ = Registry::instance().make<Norm>(model.config().norm, scope / "norm", {.hidden_size = width});
    map_ = Linear(scope / "map", width, count.classes, true);
  }
};

}  // namespace

void register_objective_layer_prediction(Registry& registry) {
  registry.add<Objective, LayerPrediction, LayerPredictionConfig>(
      "layer_prediction",
      {.summary =
           "deep supervision or a probe, beside another objective: predict its labels from a layer below the last",
       .source = "Lee et al. 2015; TB 6.4.6"});
}

}  // namespace lithe
