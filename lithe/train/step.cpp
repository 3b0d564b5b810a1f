#include "lithe/train/step.h"

#include <algorithm>

#include "lithe/base/stop.h"

namespace lithe {

DeviceBatch to_device(const Batch& batch, Device device) {
  DeviceBatch out;
  const Shape shape = batch.token_width == 1 ? Shape{batch.rows()} : Shape{batch.rows(), batch.token_width};
  const bool real = !batch.values.empty();
  const Shape labels{int64_t(real ? batch.values.size() : batch.labels.size())};
  if (device == Device::meta) {
    out.ids = empty(shape, DType::i32, device);
    out.labels = empty(labels, real ? DType::f32 : DType::i32, device);
    if (!batch.source_offsets.empty()) out.source = empty({int64_t(batch.source_tokens.size())}, DType::i32, device);
  } else {
    if (!batch.source_offsets.empty())
      out.source = tensor_of({int64_t(batch.source_tokens.size())}, batch.source_tokens);
    out.ids = tensor_of(shape, batch.tokens);
    out.labels = real ? tensor_of(labels, batch.values) : tensor_of(labels, batch.labels);
  }
  out.sequences = Sequences(batch.offsets, {}, device);
  if (out.source.defined()) out.source_sequences = Sequences(batch.source_offsets, {}, device);
  out.predicted = batch.predicted;
  out.labelled =
      real ? labels.numel() : std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; });
  return out;
}

Var rows_of(const Model& model, const DeviceBatch& batch) {
  std::optional<Memory> memory;
  if (batch.source.defined()) memory = model.encode(batch.source, batch.source_sequences);
  return model.forward(batch.ids, batch.sequences, nullptr, memory ? &*memory : nullptr);
}

// spec: train.nll | objective | teacher-forced cross-entropy of the next token (clm), with label smoothing | TB
// Eq 6.12, 6.1.7
LossSums accumulate_gradients(const Model& model, const std::vector<DeviceBatch>& micro_batches,
                              const TrainConfig& config, int64_t step) {
  int64_t labelled = 0;
  for (const DeviceBatch& batch : micro_batches) labelled += batch.labelled;
  const double scale = 1 / double(std::max<int64_t>(labelled, 1));
  LossSums total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const DeviceBatch& batch = micro_batches[i];
    step_context() = {uint64_t(config.seed), uint64_t(step) * micro_batches.size() + i};
    Tape tape;
    LossSums sums;
    const Var loss = model.loss_of(rows_of(model, batch), batch.predicted,
                                   {.sequences = batch.sequences,
                                    .labels = batch.labels,
                                    .smoothing = config.label_smoothing,
                                    .scale = scale,
                                    .sums = &sums});
    tape.backward(loss);
    total += sums;
  }
  for (const Parameter& p : model.parameters().all()) {  // a head tied to the table gives this row a gradient, too
    if (p.zero_row < 0) continue;
    if (const Tensor gradient = p.master.grad(); gradient.defined() && !gradient.is_meta())
      fill_zero(gradient.slice(p.zero_row, p.zero_row + 1));
  }
  return total;
}

LossSums evaluate_batch(const Model& model, const DeviceBatch& batch) {
  const NoGrad no_grad;
  LossSums sums;
  model.loss_of(rows_of(model, batch), batch.predicted,
                {.sequences = batch.sequences, .labels = batch.labels, .sums = &sums});
  return sums;
}

std::optional<LossSums> evaluate(const Model& model, const BatchSource& held_out,
                                 const std::function<void(int64_t)>& before) {
  LossSums total;
  for (int64_t i = 0; i < held_out.batches_per_epoch(); ++i) {
    if (stop_signal()) return std::nullopt;
    if (before) before(i);
    total += evaluate_batch(model, to_device(held_out.batch(0, i), model.device()));
  }
  return total;
}

}  // namespace lithe
