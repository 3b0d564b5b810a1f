// What is measured of tasks: metric_list, filter_list, generation_kwargs, and scores of choices.
#pragma once

#include "lithe/eval/zero_shot.h"

namespace lithe {

/// Takes the keys generation_kwargs, filter_list and metric_list out of `node`.
Node take_measures(Node& node);
/// Reads them for a task whose output_type is known. Fails (usage) on what is not supported: draws, filters and metrics
/// of other names.
void read_measures(const Node& measures, ZeroShotTask& task);

/// What a model says of the choices of one document.
struct ChosenDocument {
  std::vector<double> log_likelihoods, alone;  // behind the text; behind nothing, for acc_mutual_info
  std::vector<bool> greedy;
  std::vector<std::string> choices;
  std::vector<int64_t> right;
};
/// Fails where a metric is not defined: f1 of more than two classes, brier_score of different numbers of choices.
ZeroShotMetric choice_metric(const std::string& name, const std::vector<ChosenDocument>& documents,
                             const std::string& task);

}  // namespace lithe
