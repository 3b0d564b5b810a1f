// Making a trained model fit a budget: which chains of compression there are, what each gives, and the best that fits.
#pragma once

#include <functional>
#include <optional>

#include "lithe/base/json.h"
#include "lithe/fit/use.h"
#include "lithe/fit/ways.h"
#include "lithe/recipe/recipe.h"

namespace lithe::fit {

/// 0: no limit.
struct Budget {
  int64_t memory = 0;  // bytes that the system sees of a process that uses the model
  int64_t size = 0;    // bytes of the file of weights
  double latency = 0;  // seconds of a token or a text (UseShape)
  Budget times(double factor) const {
    return {int64_t(double(memory) * factor), int64_t(double(size) * factor), latency * factor};
  }
  bool any() const { return memory || size || latency > 0; }
};

struct Request {
  Path run, out;
  std::string weights;
  Budget budget;
  std::vector<std::string> text;  // to measure on; empty: what the run holds out
  std::vector<double> shares;     // of the parameters that pruning leaves; empty: those that the cost model proposes
  /// Overrides of section model, each of which exchanges a part (compress/exchange.h); empty: those that the cost model
  /// proposes.
  std::vector<std::string> exchanges;
  int64_t trial_steps = 30;   // of training after pruning, taught by the model, before a chain is judged
  int64_t train_steps = 200;  // and of the chain that is carried out
  int64_t batches = 8, scan_tokens = 512, calibration_tokens = 8192;
  int64_t length = 0;      // UseShape; 0: the recipe's sequence_length, 128 at most
  int64_t choose = 0;      // the number of a chain of the front; 0: the best that fits
  bool plan_only = false;  // carry nothing out
  bool overwrite = false;
};

struct Figures {
  double latency = 0;
  int64_t memory = 0, size = 0;
  bool within(const Budget& budget) const {
    return (!budget.latency || latency <= budget.latency) && (!budget.memory || memory <= budget.memory) &&
           (!budget.size || size <= budget.size);
  }
  /// The largest ratio of a figure to its limit; 0 without limits.
  double excess(const Budget& budget) const;
};

/// A chain of steps: a part exchanged, or pruned to `share`, and trained; then rounded; and a way to use it.
struct Chain {
  std::string exchange;            // an override of section model; empty: none
  double share = 1;                // of the parameters; 1: not pruned
  std::string format = "f32";      // f32, bf16, int8, int4 or mixed
  std::string method = "nearest";  // of integers
  int64_t target = 0;              // mixed: bytes of the file
  Way way;
  std::string name() const;
  std::string key() const;  // of its files
  /// Whether its model is that of the run, in other numbers at most.
  bool whole() const { return share >= 1 && exchange.empty(); }
  /// The same weights, used as ever.
  Chain plain() const;
  /// As which numbers it runs.
  std::string precision() const { return format == "bf16" ? "bf16" : "f32"; }
  /// How the program is told to use the model in `directory` so.
  std::vector<std::string> options(const Path& directory) const;
};

/// Where the drafter of Way::draft "pruned" lies beside its model.
inline constexpr const char* kDrafter = "drafter";

struct Point {
  Chain chain;
  Path directory;
  int64_t parameters = 0;
  Figures predicted, figures;  // figures: measured
  double loss = 0, loss_change = 0;
  double change = 0,
         error = 0;  // for the worse, of what quality is measured by, piece by piece, and its standard error
  double ratio = 1;  // predicted: of the time to that of Chain::plain()
  std::vector<std::pair<std::string, double>> scores;
  int number = 0;  // on the front, from 1; 0: not on it
  bool fits = false;
  std::string failed;  // why it does not keep the budget in a real run
};

/// A process that uses the model of a directory once: it adds `new_tokens` to the text, or (0) reads it, or translates
/// its lines one at a time.
struct RealUse {
  Path directory;
  std::vector<std::string> options;
  std::string text;
  int64_t new_tokens = 0;
  bool translates = false;
};
/// What it took.
struct RealRun {
  double seconds = 0;  // of a token or line; 0: the process does not tell
  int64_t memory = 0;
};
/// Runs the process. None where it cannot, after it said why.
using RunReally = std::function<std::optional<RealRun>(const RealUse& use)>;

/// OUT.fit, where what was tried for `out` is kept.
Path work_of(const Path& out);

enum class Outcome { carried_out, planned, nothing_fits, stopped };

struct Result {
  Outcome outcome = Outcome::planned;
  Json json;  // fit.json
};

/// Tries chains, kept in OUT.fit, where a repeated call goes on; writes OUT.fit/fit.json and fit.html; carries out the
/// chain that was chosen, or the best that fits, checks it in a real run, and writes the model to `out` with its
/// receipt, fit.json and fit.html. `companions` copies what else belongs to a run. Fails (usage) on models that cannot
/// be fitted.
Result fit(const Request& request, const RunReally& run_really, const std::function<void(const Path& to)>& companions);

/// Options of the program as fit.json has them, a space before each.
std::string words_of(const Json& options);

/// fit.html.
std::string fit_page(const Json& json);

}  // namespace lithe::fit
