#include <cmath>
#include <cstdio>
#include <iostream>

#include "lithe/cli/eval_run.h"
#include "lithe/cli/finite_result.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

int eval_zero_shot(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty(), "eval",
              "--tasks names its own data; leave texts, --context-length, --stride and --task out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  std::vector<ZeroShotTask> tasks;
  for (const std::string& file : o.tasks) tasks.push_back(read_zero_shot_task(file));
  Json json = {{"results", Json::object()},
               {"configs", Json::object()},
               {"versions", Json::object()},
               {"n-shot", Json::object()},
               {"n-samples", Json::object()},
               {"config", {{"model", "lithe"}, {"model_args", o.model}, {"batch_size", options.batch_tokens}}}};
  for (const ZeroShotTask& task : tasks) {
    const ZeroShotResult result = evaluate_zero_shot(*loaded.model, *loaded.tokenizer, task, options);
    Json& scores = json["results"][task.task];
    scores["alias"] = task.task;
    for (const ZeroShotMetric& m : result.metrics) {
      check_finite_result("eval", m.name.c_str(), m.value);
      scores[m.name + "," + m.filter] = m.value;
      scores[m.name + "_stderr," + m.filter] = m.stderr_ ? Json(*m.stderr_) : Json("N/A");
      if (!o.json)
        std::printf("%-16s %-16s %.4f%s (%lld documents)\n", task.task.c_str(),
                    (m.filter == "none" ? m.name : m.name + "," + m.filter).c_str(), m.value,
                    m.stderr_ ? cat(" +- ", std::round(*m.stderr_ * 1e4) / 1e4).c_str() : "",
                    static_cast<long long>(result.documents));
    }
    json["configs"][task.task] = parse_json(to_json(task.source), task.task);
    json["versions"][task.task] = task.version;
    json["n-shot"][task.task] = 0;
    json["n-samples"][task.task] = {{"original", result.all_documents}, {"effective", result.documents}};
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
