#include "lithe/eval/held_out.h"

#include <numbers>

#include "lithe/base/stop.h"

namespace lithe {

LossSums evaluate_batch(const Model& model, const Objective& objective, const DeviceBatch& batch) {
  const NoGrad no_grad;
  LossSums sums;
  Pass pass;
  const Rows rows = model.run(batch.input, pass);
  objective.loss({model, rows, pass, batch.input}, batch.targets, {.sums = &sums});
  return sums;
}

std::optional<LossSums> evaluate(const Model& model, const Objective& objective, const BatchSource& batches,
                                 const Progress& progress) {
  LossSums total;
  const int64_t all = batches.batches_per_epoch();
  for (int64_t i = 0; i < all; ++i) {
    if (stop_signal()) return std::nullopt;
    if (progress) progress(i + 1, all);
    total += evaluate_batch(model, objective, to_device(batches.batch(0, i), model));
  }
  return total;
}

HeldOutBatches::HeldOutBatches(std::unique_ptr<BatchSource> batches, std::shared_ptr<const Objective> objective,
                               int64_t text_bytes)
    : batches_(std::move(batches)), objective_(std::move(objective)), text_bytes_(text_bytes) {}

std::optional<HeldOutScores> HeldOutBatches::score(const Model& model, const Progress& progress) const {
  const auto total = evaluate(model, *objective_, *batches_, progress);
  if (!total) return std::nullopt;
  HeldOutScores out{.loss = total->mean_nll(), .perplexity = objective_->predicts_vocabulary()};
  out.best = -out.loss;
  if (text_bytes_ > 0) out.bits_per_byte = total->nll / std::numbers::ln2 / double(text_bytes_);
  return out;
}

}  // namespace lithe
