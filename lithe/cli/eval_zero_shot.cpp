#include <cmath>
#include <cstdio>
#include <iostream>

#include "lithe/cli/eval_run.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/zero_shot_results.h"

namespace lithe {

int eval_zero_shot(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty(), "eval",
              "--tasks names its own data; leave texts, --context-length, --stride and --task out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  std::vector<ZeroShotSuite> suites;
  for (const std::string& file : o.tasks) suites.push_back(read_zero_shot_suite(file, {.num_fewshot = o.num_fewshot}));
  const Json json = zero_shot_json(
      *loaded.model, *loaded.tokenizer, suites, options, o.model,
      [&](const std::string& name, const ZeroShotMetric& m, const std::string& counted) {
        if (!o.json)
          std::printf("%-16s %-16s %.4f%s (%s)\n", name.c_str(),
                      (m.filter == "none" ? m.name : m.name + "," + m.filter).c_str(), m.value,
                      m.stderr_ ? cat(" +- ", std::round(*m.stderr_ * 1e4) / 1e4).c_str() : "", counted.c_str());
      });
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
