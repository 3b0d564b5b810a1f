// What generate() and stream() take beside their prompts.
#pragma once

#include "lithe/infer/generate.h"
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
