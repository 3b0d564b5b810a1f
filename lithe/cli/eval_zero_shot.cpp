#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include "lithe/cli/eval_run.h"
#include "lithe/cli/finite_result.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

int eval_zero_shot(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty(), "eval",
              "--tasks names its own data; leave texts, --context-length, --stride and --task out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  std::vector<ZeroShotSuite> suites;
  for (const std::string& file : o.tasks) suites.push_back(read_zero_shot_suite(file, {.num_fewshot = o.num_fewshot}));
  Json json = {{"results", Json::object()},
               {"configs", Json::object()},
               {"versions", Json::object()},
               {"n-shot", Json::object()},
               {"n-samples", Json::object()},
               {"config", {{"model", "lithe"}, {"model_args", o.model}, {"batch_size", options.batch_tokens}}}};
  const auto report = [&](Json& scores, const std::string& name, const std::vector<ZeroShotMetric>& metrics,
                          const std::string& counted) {
    for (const ZeroShotMetric& m : metrics) {
      check_finite_result("eval", m.name.c_str(), m.value);
      scores[m.name + "," + m.filter] = m.value;
      scores[m.name + "_stderr," + m.filter] = m.stderr_ ? Json(*m.stderr_) : Json("N/A");
      if (!o.json)
        std::printf("%-16s %-16s %.4f%s (%s)\n", name.c_str(),
                    (m.filter == "none" ? m.name : m.name + "," + m.filter).c_str(), m.value,
                    m.stderr_ ? cat(" +- ", std::round(*m.stderr_ * 1e4) / 1e4).c_str() : "", counted.c_str());
    }
  };
  std::map<std::string, ZeroShotResult> results;
  for (const ZeroShotSuite& suite : suites) {
    for (const ZeroShotTask& task : suite.tasks) {
      if (results.count(task.task)) continue;
      const ZeroShotResult& result = results[task.task] =
          evaluate_zero_shot(*loaded.model, *loaded.tokenizer, task, options);
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
  if (o.json) std::cout << dump(json, 2) << "\n";
  return 0;
}

int eval_choices(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty() && o.tasks.empty(), "eval",
              "--choices names its own data; leave texts, --context-length, --stride, --task and --tasks out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  for (const auto& document : score_choices(*loaded.model, *loaded.tokenizer, choices_task(o.choices), options)) {
    Json line = Json::array();
    double most = -INFINITY, sum = 0;
    for (const ChoiceScore& c : document) most = std::max(most, c.log_likelihood);
    for (const ChoiceScore& c : document) sum += std::exp(c.log_likelihood - most);
    for (const ChoiceScore& c : document) {
      check_finite_result("eval", "the log-likelihood", c.log_likelihood);
      const auto by = [&](int64_t n) { return c.log_likelihood / double(std::max<int64_t>(1, n)); };
      line.push_back({{"choice", c.choice},
                      {"log_likelihood", c.log_likelihood},
                      {"per_token", by(c.tokens)},
                      {"per_character", by(c.characters)},
                      {"per_byte", by(c.bytes)},
                      {"probability", std::exp(c.log_likelihood - most) / sum},
                      {"tokens", c.tokens},
                      {"greedy", c.greedy}});
    }
    std::cout << dump(line, -1, Invalid::replaced) << "\n";
  }
  return 0;
}

}  // namespace lithe
