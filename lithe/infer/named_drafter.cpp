#include "lithe/infer/named_drafter.h"

#include "lithe/nn/exits.h"

namespace lithe {

NamedDrafter drafter_named(const std::string& name, const LoadedModel& loaded, const std::string& precision,
                           const GenerateConfig& config) {
  NamedDrafter out;
  if (name.empty()) return out;
  if (name == "lookup" || name == "prompt") {
    out.drafter = lookup_drafter();
  } else if (name.starts_with("exit:")) {
    const auto layers = int64_t(exit_rule_named("layer" + name.substr(4)).threshold);
    out.drafter = exit_drafter(*loaded.model, layers, *loaded.tokenizer, config);
  } else {
    out.model = load_model(name, "", precision);
    check_usage(out.model.tokenizer->fingerprint() == loaded.tokenizer->fingerprint(), "generate", "the drafter '",
                name, "' has another tokenizer than the model; give one with the same");
    out.drafter = model_drafter(*out.model.model, *loaded.tokenizer, config);
  }
  return out;
}

}  // namespace lithe
