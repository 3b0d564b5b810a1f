// Results of tasks in the layout of EleutherAI's evaluation harness.
#pragma once

#include <functional>

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// Evaluates each task of the suites once, and the means of their groups: results, groups, configs, versions, n-shot,
/// n-samples and config, as the harness writes them. `run` stands as model_args. `on_metric`, optional: each metric of
/// a task or group `name` as it is known, with what it is the mean over. Fails as evaluate_zero_shot() does, and where
/// a metric is no finite number.
Json zero_shot_json(const Model& model, const Tokenizer& tokenizer, const std::vector<ZeroShotSuite>& suites,
                    const ZeroShotOptions& options, const std::string& run,
                    const std::function<void(const std::string& name, const ZeroShotMetric& metric,
                                             const std::string& counted)>& on_metric = {});

}  // namespace lithe
