// A trained run made smaller to a budget: what goes, in how many rounds, and what is written.
#pragma once

#include <functional>

#include "lithe/base/json.h"
#include "lithe/compress/importance.h"
#include "lithe/compress/prune_model.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

struct PruneRequest {
  Path model, out;
  std::string weights;
  double to = 0.5;                    // of what the model has of `budget`
  std::string budget = "parameters";  // parameters, flops, memory or latency
  std::set<PruneUnit> units{PruneUnit::heads, PruneUnit::ffn};
  std::string by = "norm";  // norm, gradient, activation, random or gates
  NormOf norm = NormOf::l2;
  bool across_model = false;  // units of all layers compete; else every layer loses the same share
  int64_t batches = 8, pool = 16, multiple = 8;
  int64_t rounds = 1, train_steps = 0, gate_steps = 200;
  double learning_rate = 0;   // of the training between rounds; 0: a fifth of the recipe's
  bool distil = false;        // the training learns from the model before
  bool from_scratch = false;  // the receipt also has the smaller shape trained from random weights for as many steps
  bool baseline = true;       // of the receipt (ReceiptRequest)
  bool overwrite = false;
  uint64_t seed = 1;
  std::vector<std::string> set;  // keys of the run's recipe that are other now
  void validate() const;
};

/// What one round took out.
struct PruneRound {
  std::vector<PruneGroup> groups;
  Importance importance;
  PruneKept kept;
  std::vector<std::string> left;  // what stayed whole, and why
  std::vector<double> pool;       // losses of the random pool
  double before = 0, after = 0;   // of the budget
  Json counted;                   // of latency: the counted budget that gives the same choice
  int64_t parameters_before = 0, parameters_after = 0;
};

/// Of `budget`: parameters; FLOPs of a forward pass over one sequence of the longest length; or bytes of weights and of
/// the decode state of such a sequence.
double budget_of(const Model& model, const std::string& budget);
/// The same of a model that is only described.
double budget_of(const ModelConfig& config, const std::string& budget);

/// Which units stay, so that the budget is at most `target`: all groups lose equal shares, or units compete; then kinds
/// of units, the coarsest first, get back what still fits; so do single layers, or with across_model single groups.
/// Models that a part refuses are no choice. Fails (usage) naming the least that can be reached.
PruneKept choose_kept(const ModelConfig& config, const std::vector<PruneGroup>& groups, const Importance& importance,
                      const PruneRequest& request, double target);

/// What choose_kept() keeps of `counted` (memory of models that decode, else flops) at the share with which a step
/// takes `target` of the time that it takes in request.model, or less: a greedy step of decoding at batch 1, or a
/// forward pass over a batch. Timed on this machine, in turns, on what the recipe holds out. Fails (usage) where none
/// is so fast.
struct LatencyChoice {
  PruneKept kept;
  std::string counted;
  double share = 0, before = 0, after = 0;  // seconds of a token, or of a row
};
LatencyChoice choose_kept_by_latency(const Model& model, const std::vector<PruneGroup>& groups,
                                     const Importance& importance, const PruneRequest& request, const Recipe& recipe,
                                     double target);

/// Prunes the run, with training between the rounds. Intermediate models and runs are kept in OUT.rounds, where a
/// repeated call goes on. The model is written to `out`, with prune.json and a page. `companions` copies what else goes
/// along. False when asked to stop.
bool prune_run(const PruneRequest& request, const std::function<void(const Path& to)>& companions, Json& result);

/// Trains the weights of `model` for request.train_steps, as after a round of pruning: with request.distil taught by
/// request.model, which has another shape. The run in `out` goes on where it was stopped. False when asked to stop.
bool train_smaller(const PruneRequest& request, const Path& model, const Path& out);

/// prune.html: what was taken out of each layer.
std::string prune_page(const Json& result);

}  // namespace lithe
