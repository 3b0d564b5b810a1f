// Choosing the next token from logits.
#pragma once

#include <optional>
#include <span>

#include "lithe/base/fields.h"
#include "lithe/base/random.h"
#include "lithe/tensor/dtype.h"

namespace lithe {

/// Recipe section `generate`.
struct GenerateConfig {
  std::string prompt;
  int64_t max_new_tokens = 128;
  bool do_sample = true;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, repetition_penalty = 1;
  std::vector<std::string> stop;
  int64_t seed = 1, batch_size = 16;
  bool use_cache = true;
  std::string cache_dtype;  // empty: the type of rows
  int64_t cache_tokens = 0, prefill_tokens = 512;

  void fields(Fields& f);
  /// What cache_dtype says; none: the type of the rows.
  std::optional<DType> cache_type() const;
  /// Refuses (usage) what no rule of a field can show, and numbers that are none.
  void validate() const;
};

/// The next token. Greedy (do_sample off or temperature 0): the highest logit, the lower id on ties. Otherwise
/// drawn from softmax(logits / temperature) restricted to the top_k most likely and then to the smallest set whose
/// probability reaches top_p. First, logits of `seen` tokens are divided (positive) or multiplied (negative) by the
/// repetition penalty. The draw is a pure function of (seed, sequence, position).
int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     int64_t sequence, int64_t position);

}  // namespace lithe
