// Rows that leave layers out: always the same ones, fewer the later a token stands, or where a gate of the layer says
// so. A row that passes a layer keeps its keys and values there, made of the row as it is, so that later tokens can
// attend to it [TB 6.4.6, Fig 6.16f; Del Corro et al. 2023, Raposo et al. 2024].
#include "lithe/nn/registry.h"
#include "lithe/ops/experts.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pointwise.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/some_rows.h"

namespace lithe {
namespace {

struct LayerSkipConfig {
  std::string by = "list";
  std::vector<int64_t> layers;
  int64_t least = 1, positions = 128;
  double budget = 0.5, budget_loss_coef = 1, start = 0.9;
  void fields(Fields& f) {
    f("by", by,
      "list: skip `layers`; alternate: skip every second layer between the first and the last; position: a token runs "
      "the first layer and the last few, all layers at position 0, falling to `least` at position `positions`; gate: "
      "each layer has a classifier of the rows",
      one_of({"list", "alternate", "position", "gate"}));
    f("layers", layers, "by list: layers, from 1, that all rows skip");
    f("least", least, "by position: smallest number of layers that a token runs", at_least(1));
    f("positions", positions, "by position: position from which on tokens run only `least` layers", at_least(1));
    f("budget", budget, "by gate: target for the mean share of layers that rows run", between(0, 1));
    f("budget_loss_coef", budget_loss_coef,
      "by gate: weight of an auxiliary loss, (mean probability of running - budget)^2; 0: gates learn only from the "
      "model's loss",
      at_least(0));
    f("start", start, "by gate: initial probability of running a layer", between(0.01, 0.99));
  }
};

class LayerSkip final : public Stack {
 public:
  LayerSkip(const Scope& scope, const LayerSkipConfig& config, const Args& args)
      : config_(config), depth_(args.num_hidden_layers) {
    listed_.assign(size_t(depth_), 0);
    for (int64_t l : config.layers) {
      check_usage(config.by == "list", "layer_skip", "layers belong to by: list, and by is ", config.by,
                  "; leave one of them out");
      check_usage(l >= 1 && l <= depth_, "layer_skip", "there is no layer ", l, " among ", depth_,
                  "; name layers from 1 to ", depth_);
      listed_[size_t(l - 1)] = 1;
    }
    for (int64_t l = 1; config.by == "alternate" && l + 1 < depth_; l += 2) listed_[size_t(l)] = 1;
    check_usage(config.by != "position" || config.least <= depth_, "layer_skip", "least is ", config.least,
                ", and there are ", depth_, " layers; choose at most that many");
    for (int64_t l = 0; config.by == "gate" && l < depth_; ++l) {
      gates_.emplace_back(scope / "gates" / std::to_string(l), Axis::hidden(args.hidden_size), 1, true,
                          InitRole::zeros);
      start_with(gates_.back().bias, logit_of(config.start));
    }
  }

  bool selective() const override { return true; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    Rows rows = x;
    Var run_mean;  // by gate: the sum over the layers of the mean probability
    const int64_t n = x.sequences.rows();
    for (int64_t l = 0; l < depth_; ++l) {
      if (config_.by != "gate") {
        rows = run_some(layers, l, rows, goes_of(l, x.sequences), pass);
        continue;
      }
      const Var run = pointwise(kernels::Pointwise::sigmoid, gates_[size_t(l)](rows.x), true);  // [N, 1]
      const Tensor hard = empty(run.shape(), run.dtype(), run.device());
      std::vector<char> goes(size_t(n), 1);
      for (int64_t r = 0; r < n && !hard.is_meta(); ++r) {
        goes[size_t(r)] = value_at(run.value(), r) >= 0.5;
        set_value(hard, r, double(goes[size_t(r)]));
      }
      if (!training()) {
        rows = run_some(layers, l, rows, goes, pass);
        continue;
      }
      // All rows run, so that gates learn what a layer would have done.
      const Var mean = scale(sum(run), 1 / double(n * depth_));
      run_mean = run_mean.defined() ? add(run_mean, mean) : mean;
      const Var change = add(layers.run(l, rows, pass).x, rows.x, 1, -1);
      rows.x = add(rows.x, gated(change, in_training_step() ? straight_through(run, hard) : Var(hard)));
    }
    if (run_mean.defined() && config_.budget_loss_coef > 0) {
      const Tensor budget = empty({1}, run_mean.dtype(), run_mean.device());
      if (!budget.is_meta()) set_value(budget, 0, config_.budget);
      const Var above = add(run_mean, Var(budget), 1, -1);
      pass.add_loss("layer_budget", scale(mul(above, above), config_.budget_loss_coef));
    }
    return rows;
  }

 private:
  LayerSkipConfig config_;
  int64_t depth_;
  std::vector<char> listed_;
  std::vector<Linear> gates_;

  std::vector<char> goes_of(int64_t layer, const Sequences& s) const {
    std::vector<char> goes(size_t(s.rows()), !listed_[size_t(layer)]);
    if (config_.by != "position" || layer == 0) return goes;
    for (int64_t b = 0; b < s.count(); ++b)
      for (int64_t i = 0; i < s.length(b); ++i) {
        const int64_t at = std::min(s.past(b) + i, config_.positions);
        const int64_t most = depth_ - (depth_ - config_.least) * at / config_.positions;
        goes[size_t(s.offset(b) + i)] = depth_ - layer < most;  // the first layer is one of `most`
      }
    return goes;
  }

  // Row r times gates[r].
  static Var gated(const Var& x, const Var& gates) {
    std::vector<int64_t> each(size_t(x.rows()));
    for (size_t r = 0; r < each.size(); ++r) each[r] = int64_t(r);
    return combine_rows(x, gates, {each}, each);
  }
};

}  // namespace

void register_stack_layer_skip(Registry& registry) {
  registry.add<Stack, LayerSkip, LayerSkipConfig>(
      "layer_skip",
      {.spec = "cond.layer_skip",
       .summary = "rows skip layers: fixed layers, more for later tokens, or by learned gates (mixture of depths)",
       .source = "TB 6.4.6, Fig 6.16f",
       .samples = {"{by: position, least: 1, positions: 4}"}});
}

}  // namespace lithe
