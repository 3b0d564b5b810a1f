#include "lithe/train/divided_step.h"

#include <cstring>

#include "lithe/parallel/gather.h"

namespace lithe {
namespace {

StepLosses sum_over(const StepLosses& losses, const Group& ranks) {
  if (ranks.alone() || !ranks.with) return losses;
  StepLosses sum;
  for (const std::string& bytes : gather_bytes(*ranks.with, packed(losses))) {
    std::string_view rest = bytes;
    sum += unpacked(rest);
  }
  return sum;
}

// Those of all stages, of which the last alone knows the objective's, of all ranks of a sequence, and of all copies of
// the model.
StepLosses joined(StepLosses losses, const Division& division) {
  if (!division.last_stage()) losses.objective = {};
  for (const Group* ranks : {&division.layout().pipeline(), &division.layout().sequence(), &division.layout().data()})
    losses = sum_over(losses, *ranks);
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

StepLosses divided_gradients(const Model& model, const TrainedObjective& objective, const StepBatches& batches,
                             const TrainConfig& config, int64_t step, double loss_scale) {
  const Division& division = *model.division();
  const Group &stages = division.layout().pipeline(), &sequence = division.layout().sequence();
  std::vector<DeviceBatch> mine;
  if (!sequence.alone())
    for (const DeviceBatch& batch : batches.own) mine.push_back(tokens_of_rank(batch, sequence.rank, sequence.size));
  const std::span<const DeviceBatch> own = sequence.alone() ? batches.own : mine;
  const int64_t end = batches.first + int64_t(own.size());
  MicroBatchPlace place{.step = step,
                        .index = batches.first,
                        .of = batches.count,
                        .labelled = batches.labelled,
                        .loss_scale = loss_scale};
  const auto batch_of = [&](const MicroBatchPlace& at) -> const DeviceBatch& {
    return own[size_t(at.index - batches.first)];
  };
  StepLosses losses;
  const auto in_stages = [&](const auto& self, MicroBatchPlace at) -> void {
    if (at.index == end) return;
    MicroBatchRun run(model, objective, batch_of(at), at, config);
    MicroBatchPlace next = at;
    ++next.index;
    self(self, next);
    losses += run.backward();
  };
  if (!stages.alone())
    in_stages(in_stages, place);
  else
    for (; place.index < end; ++place.index)
      losses += run_micro_batch(model, objective, batch_of(place), place, config);
  division.finish_gradients(model.parameters());
  division.finish_gradients(objective.parameters());
  return model.device() == Device::meta ? losses : joined(std::move(losses), division);
}

}  // namespace lithe
