#include "lithe/model/exits.h"

namespace lithe {

std::optional<ExitRun> exit_run_of(const Model& model, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const ExitRule rule = exit_rule_named(text);
  check_usage(!model.exits().empty(), "exit", "rule ", text, ": this model's stack, ", model.config().stack.type,
              ", has no exits; train one with model.stack: {type: early_exit} (train.freeze: [embedding.*, layers.*, "
              "final_norm.*] and from_pretrained add them to a trained model)");
  return ExitRun(rule);
}

}  // namespace lithe
