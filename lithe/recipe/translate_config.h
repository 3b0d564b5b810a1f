// Recipe section `translate`.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/text/truncation.h"

namespace lithe {

struct TranslateConfig {
  int64_t num_beams = 4;
  double length_penalty = 0.6;  // the value of Wu et al. 2016 and Vaswani et al. 2017: sums alone favour short outputs
  bool early_stopping = false;
  int64_t num_return_sequences = 1;
  bool do_sample = false;  // in place of beams
  double temperature = 1, top_p = 1, min_p = 0;
  int64_t top_k = 0, seed = 1;
  int64_t max_new_tokens = 0;
  int64_t min_new_tokens = 1;  // a model that knows little else knows that to end at once is likely
  int64_t batch_size = 32;
  // Not of this section: read_recipe sets them where translation.cut_sources is set.
  int64_t source_length = 0;  // longer sources, in tokens with the end token, are cut; 0: they are not
  Truncation truncation;

  void fields(Fields& f);
  /// Refuses (usage) what no rule of a field can show, and numbers that are none.
  void validate() const;
};

}  // namespace lithe
