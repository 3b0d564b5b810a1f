// What generate() and stream() take beside their prompts.
#pragma once

#include "lithe/infer/adapter.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/grammar_step.h"
#include "lithe/infer/named_drafter.h"
#include "lithe/infer/neighbours.h"
#include "model.h"

namespace lithe::python {

/// Settings of one call, and what they name.
struct Choosing {
  GenerateConfig config;
  NamedDrafter drafting;
  std::optional<NeighbourModel> neighbours;
  int64_t draft_tokens = 4;
  LogitSteps steps;
  std::shared_ptr<GrammarMasks> grammar;  // what texts must have the form of
  std::optional<Adapter> adapter;
  /// The steps, with that of the grammar. `first`: the prompt has no text.
  LogitSteps steps_of(const Tokenizer& tokenizer, bool first) const;
};

/// The options of `lithe generate`, and keys of section generate, in place of the run's own. Fails (usage) as the
/// command does.
std::unique_ptr<Choosing> choosing_of(const PyModel& model, py::kwargs settings);

/// What one prompt is: a text, or tokens.
struct PromptOf {
  std::vector<int32_t> tokens;
  bool first = true;  // nothing stands before its continuation
};
PromptOf prompt_of(const PyModel& model, const py::handle& prompt, const GenerateConfig& config);

}  // namespace lithe::python
