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
  std::vector<std::string> text = {};  // files to measure on in place of the recipe's data
  int64_t first_batch = 0;             // of what is measured on
  /// Beside it the parent with its weights rounded to 8 bits, for steps that do not round.
  bool baseline = true;
  /// Beside it, too: a trained run of the child's shape that began with random weights. Empty: none.
  Path from_scratch = {};
  std::string parent_precision = "f32", child_precision = "f32";
};

/// Measures parent and child in turns: parameters, bytes on disk, peak memory, rows a second of forward passes, tokens
/// a second and the time of a token of greedy decoding where they continue texts, and the loss on held-out text (or,
/// where there is none, on the first batches of what is learned from) with its standard error, and that of the
/// difference. The parent's own receipt becomes part of the chain. Quality and speed are left out, with a warning,
/// where the data are no longer there or the models do not read the same tokens.
Json write_receipt(const ReceiptRequest& request);

/// receipt.json of a directory. Fails (usage) where it has none.
Json read_receipt(const Path& directory);

/// All steps that led to a model, the first one first and its own last.
std::vector<Json> steps_of(const Json& receipt);

/// The page of one receipt, with all steps before it.
std::string receipt_page(const Json& receipt);

/// Several receipts beside each other: each model with its steps, as a table and as charts of loss against size and
/// speed. `names` stand for them.
std::string receipts_page(const std::vector<std::string>& names, const std::vector<Json>& receipts);

}  // namespace lithe
