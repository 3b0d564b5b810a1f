// One training of one variant, and its quality.
//   DIR/runs/<variant>/seed-<n>/   a run directory as `lithe train` leaves it
//                      quality.json  what its weights score on the held-out text
#pragma once

#include "lithe/compare/variants.h"
#include "lithe/eval/perplexity.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/text_metric.h"
#include "lithe/report/run_status.h"

namespace lithe::compare {

struct Outcome {
  int64_t seed = 0;
  Path directory;
  RunStatus status = RunStatus::running;  // then finished or diverged
  std::string message;                    // of a diverged run
  int64_t steps = 0, tokens = 0;
  double seconds = 0;
  int64_t planned_peak = 0, measured_peak = 0;  // bytes, of training
  Perplexity quality;                           // finished only
  std::vector<TextPiece> pieces;
  // Of models that translate: the held-out sentences in their order, and what the metrics count in each.
  std::vector<std::string> translations;
  std::vector<TextCounts> bleu_counts, chrf_counts;
  double bleu = std::nan(""), chrf = std::nan("");  // 0 to 100
  double task_metric = std::nan("");                // of models of a task: the first of its metrics
  bool finished() const { return status == RunStatus::finished; }
};

Path run_directory(const Path& out, const std::string& variant, int64_t seed);

class Material;

/// The outcome of a run that is done; none where it is not, or was another's.
std::optional<Outcome> done_variant(const Variant& variant, int64_t seed, const Path& out, const Material& material,
                                    const std::string& precision);

/// Trains, continues, or finds done the run of `variant` with `seed`, and scores its last weights, loaded with this
/// precision, on the material. A run that diverges is an outcome. Returns none when a signal stopped it, after saving.
/// Fails (usage) when the directory holds a run of another recipe or text.
std::optional<Outcome> run_variant(const Variant& variant, int64_t seed, const Path& out, const Material& material,
                                   const std::string& precision);

}  // namespace lithe::compare
