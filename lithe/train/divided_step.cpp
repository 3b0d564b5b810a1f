#include "lithe/train/divided_step.h"

#include <cstring>

#include "lithe/base/json.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

// Those of all stages, and of all ranks of a sequence.
StepLosses joined(StepLosses losses, const Layout& layout) {
  const Group& sequence = layout.sequence();
  if (!sequence.alone() && sequence.with) {
    losses.objective.loss = sum_over(losses.objective.loss, sequence);
    losses.objective.nll = sum_over(losses.objective.nll, sequence);
    losses.objective.labels = int64_t(sum_over(double(losses.objective.labels), sequence));
  }
  const Group& stages = layout.pipeline();
  if (stages.alone() || !stages.with) return losses;
  Json mine = {{"losses", {losses.objective.loss, losses.objective.nll, double(losses.objective.labels)}},
               {"auxiliary", losses.auxiliary}};
  const std::vector<std::string> all = gather_texts(dump(mine), stages);
  losses.auxiliary.clear();
  for (const std::string& text : all) {
    const Json theirs = parse_json(text, "losses of a stage");
    for (const auto& [name, value] : theirs.at("auxiliary").items()) losses.auxiliary[name] += value.get<double>();
    const Json& sums = theirs.at("losses");
    losses.objective = {sums.at(0), sums.at(1), int64_t(sums.at(2).get<double>())};  // at the end those of the last
  }
  return losses;
}

Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows) {
  if (!x.defined()) return x;
  const Shape shape = x.shape().rank() == 1 ? Shape{int64_t(rows.size())} : Shape{int64_t(rows.size()), x.dim(1)};
  const Tensor out = empty(shape, x.dtype(), x.device());
  const auto size = size_t(x.bytes() / std::max<int64_t>(1, x.dim(0)));
  for (size_t i = 0; i < rows.size() && !out.is_meta(); ++i)
    std::memcpy(static_cast<std::byte*>(out.raw()) + i * size,
                static_cast<const std::byte*>(x.raw()) + size_t(rows[i]) * size, size);
  return out;
}

}  // namespace

DeviceBatch tokens_of_rank(const DeviceBatch& batch, int rank, int ranks) {
  const Sequences& all = batch.input.sequences;
  check_usage(batch.targets.predicted.empty() && batch.targets.labels.numel() == all.rows() &&
                  batch.input.modalities.empty() && batch.input.sources.empty(),
              "train.parallel", "sequence ", ranks, " divides texts whose every token has a label (objective clm); ",
              "choose that, or sequence: 1");
  std::vector<int64_t> rows, offsets{0}, past;
  for (int64_t b = 0; b < all.count(); ++b) {
    const int64_t begin = all.length(b) * rank / ranks, end = all.length(b) * (rank + 1) / ranks;
    for (int64_t t = begin; t < end; ++t) rows.push_back(all.offset(b) + t);
    offsets.push_back(int64_t(rows.size()));
    past.push_back(begin);
  }
  check_usage(!rows.empty(), "train.parallel", "a micro-batch of ", all.rows(), " tokens leaves rank ", rank, " of ",
              ranks, " of a sequence without one; make sequences longer, or sequence smaller");
  DeviceBatch out = batch;
  out.input.tokens = rows_of(batch.input.tokens, rows);
  for (auto& [name, column] : out.input.columns) column = rows_of(column, rows);
  out.input.sequences = Sequences(offsets, past, batch.input.tokens.device());
  out.targets.labels = rows_of(batch.targets.labels, rows);
  return out;
}

StepLosses divided_gradients(const Model& model, const TrainedObjective& objective,
                             const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                             double loss_scale) {
  const Division& division = *model.division();
  const Group &stages = division.layout().pipeline(), &sequence = division.layout().sequence();
  std::vector<DeviceBatch> mine;
  if (!sequence.alone())
    for (const DeviceBatch& batch : micro_batches) mine.push_back(tokens_of_rank(batch, sequence.rank, sequence.size));
  const std::vector<DeviceBatch>& batches = sequence.alone() ? micro_batches : mine;
  MicroBatchPlace place{.step = step,
                        .of = int64_t(batches.size()),
                        .labelled = labels_of(micro_batches),
                        .loss_scale = loss_scale};
  StepLosses losses;
  const auto in_stages = [&](const auto& self, MicroBatchPlace at) -> void {
    if (at.index == at.of) return;
    MicroBatchRun run(model, objective, batches[size_t(at.index)], at, config);
    MicroBatchPlace next = at;
    ++next.index;
    self(self, next);
    losses += run.backward();
  };
  if (!stages.alone())
    in_stages(in_stages, place);
  else
    for (; place.index < place.of; ++place.index)
      losses += run_micro_batch(model, objective, batches[size_t(place.index)], place, config);
  division.finish_gradients(model.parameters());
  return joined(std::move(losses), division.layout());
}

}  // namespace lithe
