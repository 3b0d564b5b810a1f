#include "lithe/eval/held_out.h"

#include <numbers>

#include "lithe/base/stop.h"
#include "lithe/parallel/gather.h"

namespace lithe {

LossSums evaluate_batch(const Model& model, const Objective& objective, const DeviceBatch& batch) {
  const NoGrad no_grad;
  LossSums sums;
  Pass pass;
  const Rows rows = model.run(batch.input, pass);
  objective.loss({model, rows, pass, batch.input}, batch.targets, {.sums = &sums});
  return sums;
}

namespace {

thread_local Communicator* divided_among = nullptr;

}  // namespace

DividedEvaluation::DividedEvaluation(Communicator* among) : before_(divided_among) { divided_among = among; }
DividedEvaluation::~DividedEvaluation() { divided_among = before_; }
Communicator* DividedEvaluation::ranks() { return divided_among; }

std::optional<LossSums> evaluate(const Model& model, const Objective& objective, const BatchSource& batches,
                                 const Progress& progress) {
  const int64_t all = batches.batches_per_epoch(), ranks = divided_among ? divided_among->size() : 1;
  std::vector<LossSums> mine;
  for (int64_t i = divided_among ? divided_among->rank() : 0; i < all && !stop_signal(); i += ranks) {
    if (progress) progress(i + 1, all);
    mine.push_back(evaluate_batch(model, objective, to_device(batches.batch(0, i), model)));
  }
  const auto given = divided_among ? gather(*divided_among, mine) : std::vector<std::vector<LossSums>>(1, mine);
  LossSums total;  // in the order of batches, whoever had them
  for (int64_t i = 0; i < all; ++i) {
    const std::vector<LossSums>& of_rank = given[size_t(i % ranks)];
    if (i / ranks >= int64_t(of_rank.size())) return std::nullopt;  // a signal came
    total += of_rank[size_t(i / ranks)];
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
