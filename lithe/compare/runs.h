// One training of one variant, and its quality.
//   DIR/runs/<variant>/seed-<n>/   a run directory as `lithe train` leaves it
//                      quality.json  what its weights score on the held-out text
#pragma once

#include "lithe/compare/variants.h"

namespace lithe::compare {

struct Outcome {
  int64_t seed = 0;
  Path directory;
  std::string status;   // finished, diverged
  std::string message;  // of a diverged run
  int64_t steps = 0, tokens = 0;
  double seconds = 0;
  int64_t planned_peak = 0, measured_peak = 0;  // bytes, of training
  Perplexity quality;                           // finished only
  std::vector<TextPiece> pieces;
  bool finished() const { return status == "finished"; }
};

Path run_directory(const Path& out, const std::string& variant, int64_t seed);

/// Trains, continues, or finds done the run of `variant` with `seed`, and scores its last weights on `held_out`
/// (fingerprint `data` of both parts, see Dataset::fingerprint). A run that diverges is an outcome. Returns none when a
/// signal stopped it, after saving. Fails (usage) when the directory holds a run of another recipe or text.
std::optional<Outcome> run_variant(const Variant& variant, int64_t seed, const Path& out, const ReadSetting& read,
                                   const Dataset& data, const std::string& precision);

}  // namespace lithe::compare
