#include "lithe/eval/zero_shot_results.h"

#include <map>

#include "lithe/eval/finite_result.h"

namespace lithe {

Json zero_shot_json(
    const Model& model, const Tokenizer& tokenizer, const std::vector<ZeroShotSuite>& suites,
    const ZeroShotOptions& options, const std::string& run,
    const std::function<void(const std::string&, const ZeroShotMetric&, const std::string&)>& on_metric) {
  Json json = {{"results", Json::object()},
               {"configs", Json::object()},
               {"versions", Json::object()},
               {"n-shot", Json::object()},
               {"n-samples", Json::object()},
               {"config", {{"model", "lithe"}, {"model_args", run}, {"batch_size", options.batch_tokens}}}};
  const auto report = [&](Json& scores, const std::string& name, const std::vector<ZeroShotMetric>& metrics,
                          const std::string& counted) {
    for (const ZeroShotMetric& m : metrics) {
      check_finite_result("eval", m.name, m.value);
      scores[m.name + "," + m.filter] = m.value;
      scores[m.name + "_stderr," + m.filter] = m.stderr_ ? Json(*m.stderr_) : Json("N/A");
      if (on_metric) on_metric(name, m, counted);
    }
  };
  std::map<std::string, ZeroShotResult> results;
  for (const ZeroShotSuite& suite : suites) {
    for (const ZeroShotTask& task : suite.tasks) {
      if (results.count(task.task)) continue;
      const ZeroShotResult& result = results[task.task] = evaluate_zero_shot(model, tokenizer, task, options);
      Json& scores = json["results"][task.task];
      scores["alias"] = task.alias.empty() ? task.task : task.alias;
      report(scores, task.task, result.metrics, cat(result.documents, " documents"));
      json["configs"][task.task] = parse_json(to_json(task.source), task.task);
      json["versions"][task.task] = task.version;
      json["n-shot"][task.task] = task.num_fewshot;
      json["n-samples"][task.task] = {{"original", result.all_documents}, {"effective", result.documents}};
    }
    for (const ZeroShotGroup& group : suite.groups) {
      Json& scores = json["groups"][group.name];
      scores["alias"] = group.alias.empty() ? group.name : group.alias;
      report(scores, group.name, group_means(group, results), cat(group.tasks.size(), " tasks"));
      json["results"][group.name] = scores;
    }
  }
  return json;
}

}  // namespace lithe
