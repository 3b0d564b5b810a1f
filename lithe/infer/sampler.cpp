#include "lithe/infer/sampler.h"

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {
namespace {

template <class Use>
auto with_choice(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config, Use use) {
  check(!logits.empty(), "generate", "no logits");
  GenerateConfig choosing = config;
  choosing.early_stop = false;
  std::vector<float> scores(logits.begin(), logits.end());
  LogitRow row{.choice = TokenChoice(scores), .tokens = seen};
  const LogitSteps steps = logit_steps(choosing, int64_t(scores.size()));
  LogitRow* const rows[] = {&row};
  const LogitSteps* const chains[] = {&steps};
  run_steps(rows, chains);
  if (row.error) std::rethrow_exception(row.error);
  return use(row.choice);
}

}  // namespace

double uniform_draw(int64_t seed, uint64_t key, int64_t position, const char* purpose) {
  return random_uniform({.seed = uint64_t(seed), .step = uint64_t(position), .purpose = purpose_of(purpose)}, key);
}

int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     uint64_t key, int64_t position) {
  return with_choice(logits, seen, config,
                     [&](TokenChoice& choice) { return choice.choose(uniform_draw(config.seed, key, position)); });
}

TokenDistribution token_distribution(std::span<const float> logits, std::span<const int32_t> seen,
                                     const GenerateConfig& config) {
  return with_choice(logits, seen, config, [](TokenChoice& choice) { return choice.distribution(); });
}

}  // namespace lithe
