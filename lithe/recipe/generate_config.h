// Recipe section `generate`.
#pragma once

#include <optional>

#include "lithe/base/fields.h"
#include "lithe/tensor/dtype.h"

namespace lithe {

constexpr int64_t kMostNewTokens = int64_t(1) << 30;

struct GenerateConfig {
  std::string prompt;
  int64_t max_new_tokens = 128;
  bool do_sample = true;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t num_return_sequences = 1;
  std::vector<std::string> stop;
  int64_t seed = 1, batch_size = 16;
  bool use_cache = true, add_bos_token = true;
  std::string cache_dtype;  // empty: the type of rows
  int64_t cache_tokens = 0, prefill_tokens = 512;
  std::string exit;              // a rule of nn/exits.h; empty: every token runs all layers
  bool early_stop = false;       // ask the head whether the text stops
  double early_stop_margin = 0;  // it stops where Pr(stop) >= Pr(goes on) + this

  void fields(Fields& f);
  /// What cache_dtype says; none: the type of the rows.
  std::optional<DType> cache_type() const;
  /// Refuses (usage) what no rule of a field can show, and numbers that are none.
  void validate() const;
};

}  // namespace lithe
