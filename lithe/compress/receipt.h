// What a compression gave: sizes, speed, memory and quality before and after, and where both came from.
#pragma once

#include "lithe/base/json.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

struct ReceiptRequest {
  std::string operation;
  Path parent;
  std::string parent_weights;
  Path child;     // receipt.json and receipt.html are written there
  Recipe recipe;  // whose data both are measured on
  int64_t batches = 8;
  Json settings;
};

/// Measures parent and child in turns: parameters, bytes on disk, peak memory, rows a second of forward passes, tokens
/// a second and the time of a token of greedy decoding where they continue texts, and the loss on held-out text (or,
/// where there is none, on the first batches of what is learned from) with its standard error, and that of the
/// difference. The parent's own receipt becomes part of the chain. Quality and speed are left out, with a warning,
/// where the data are no longer there.
Json write_receipt(const ReceiptRequest& request);

}  // namespace lithe
