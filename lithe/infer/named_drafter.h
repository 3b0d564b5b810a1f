// Drafters by the name that options give them.
#pragma once

#include "lithe/infer/load.h"
#include "lithe/infer/speculative.h"

namespace lithe {

/// Makes drafters of one kind, any number of them.
class DraftSource {
 public:
  /// `name`: "lookup" or "prompt" (lookup_drafter), "exit:N" (exit_drafter), or the directory of a run of the same
  /// tokenizer, read with this precision (model_drafter). Fails (usage) as these do. `loaded` outlives it.
  DraftSource(const std::string& name, const LoadedModel& loaded, const std::string& precision);
  /// One for texts that are continued one after another; this outlives it.
  std::unique_ptr<Drafter> make(const GenerateConfig& config) const;

 private:
  std::string name_;
  const LoadedModel& loaded_;
  LoadedModel drafter_;
};

/// A drafter and what made it.
struct NamedDrafter {
  std::unique_ptr<DraftSource> source;
  std::unique_ptr<Drafter> drafter;  // null: none
};
/// By a name as DraftSource has it; empty: none.
NamedDrafter drafter_named(const std::string& name, const LoadedModel& loaded, const std::string& precision,
                           const GenerateConfig& config);

}  // namespace lithe
