// What happens to logits before a token is chosen: a chain of small steps, each request's its own.
#pragma once

#include <exception>
#include <memory>

#include "lithe/infer/token_choice.h"
#include "lithe/recipe/generate_config.h"

namespace lithe {

/// Why a request is done.
enum class Finish {
  end,          // by a token that ends it
  length,       // max_new_tokens
  positions,    // the model has no more, and max_new_tokens would have allowed some
  stop,         // who receives the tokens wants no more (a stop string)
  early_stop,   // the model's head said so
  cancelled,    // by DecodeLoop::cancel()
  interrupted,  // by DecodeLoop::interrupt()
  failed,       // by an error of its own
};
const char* to_string(Finish finish);

/// One choice that is due.
struct LogitRow {
  TokenChoice choice;               // over the model's vocabulary
  std::span<const int32_t> tokens;  // that it follows, the prompt's included
  int64_t prompt_tokens = 0;
  int64_t tokens_left = 0;  // that may be chosen, this one included; 0: nobody says
  // Where a step needs them: the last layer's row f32 [D], and the head's probability that the text stops here.
  std::span<const float> hidden = {};
  double stop_probability = 0;
  /// Set by a step: no token follows.
  std::optional<Finish> end = {};
  /// Of a step that failed; those behind it did not run.
  std::exception_ptr error = {};
};

/// A pure function of what a row shows: it runs on drafted tokens too, which may be forgotten again, and for several
/// requests at once, which know nothing of each other.
class LogitStep {
 public:
  virtual ~LogitStep() = default;
  struct Needs {
    bool hidden = false, stop_probability = false;
    Needs operator|(const Needs& o) const { return {hidden || o.hidden, stop_probability || o.stop_probability}; }
  };
  virtual Needs needs() const { return {}; }
  virtual void apply(std::span<LogitRow* const> rows) const = 0;
};
using LogitSteps = std::vector<std::shared_ptr<const LogitStep>>;

/// A step that looks at one row at a time. Constraints are such steps: they forbid() what may not follow the tokens.
class RowStep : public LogitStep {
 public:
  void apply(std::span<LogitRow* const> rows) const final {
    for (LogitRow* row : rows) apply(*row);
  }
  virtual void apply(LogitRow& row) const = 0;
};

/// These tokens are never chosen.
std::shared_ptr<const LogitStep> never(std::vector<int32_t> tokens);
/// These tokens are not chosen before `least` others stand behind the prompt.
std::shared_ptr<const LogitStep> never_before(int64_t least, std::vector<int32_t> tokens);
/// What `config` says: early_stop; tokens from `vocab_size` on are never chosen; repetition_penalty; and, when it
/// samples, temperature, top_k, top_p, min_p.
LogitSteps logit_steps(const GenerateConfig& config, int64_t vocab_size);
LogitStep::Needs needs_of(const LogitSteps& steps);

/// Runs chains[i] on *rows[i]. A step that several chains have at the same place runs once, on all of their rows.
void run_steps(std::span<LogitRow* const> rows, std::span<const LogitSteps* const> chains);

/// GenerateConfig::early_stop: Pr(stop) >= Pr(goes on) + margin.
bool stops_early(double probability, double margin);

}  // namespace lithe
