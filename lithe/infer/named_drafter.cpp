#include "lithe/infer/named_drafter.h"

#include "lithe/nn/exits.h"

namespace lithe {
namespace {

bool is_lookup(const std::string& name) { return name == "lookup" || name == "prompt"; }

}  // namespace

DraftSource::DraftSource(const std::string& name, const LoadedModel& loaded, const std::string& precision)
    : name_(name), loaded_(loaded) {
  if (is_lookup(name) || name.starts_with("exit:")) return;
  drafter_ = load_model(name, "", precision);
  check_usage(drafter_.tokenizer->fingerprint() == loaded.tokenizer->fingerprint(), "generate", "the drafter '", name,
              "' has another tokenizer than the model; give one with the same");
}

std::unique_ptr<Drafter> DraftSource::make(const GenerateConfig& config) const {
  if (is_lookup(name_)) return lookup_drafter();
  if (drafter_.model) return model_drafter(*drafter_.model, *loaded_.tokenizer, config);
  const auto layers = int64_t(exit_rule_named("layer" + name_.substr(4)).threshold);
  return exit_drafter(*loaded_.model, layers, *loaded_.tokenizer, config);
}

NamedDrafter drafter_named(const std::string& name, const LoadedModel& loaded, const std::string& precision,
                           const GenerateConfig& config) {
  NamedDrafter out;
  if (name.empty()) return out;
  out.source = std::make_unique<DraftSource>(name, loaded, precision);
  out.drafter = out.source->make(config);
  return out;
}

}  // namespace lithe
