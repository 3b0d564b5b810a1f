#include "lithe/objective/device_batch.h"

#include <algorithm>

namespace lithe {
namespace {

Tensor on(Device device, const Shape& shape, const std::vector<int32_t>& values) {
  return device == Device::meta ? empty(shape, DType::i32, device) : tensor_of(shape, values);
}

Tensor tokens_on(Device device, const std::vector<int32_t>& tokens, int64_t width) {
  const int64_t rows = int64_t(tokens.size()) / width;
  return on(device, width == 1 ? Shape{rows} : Shape{rows, width}, tokens);
}

ModelInput input_of(const Batch& batch, Device device) {
  ModelInput out{tokens_on(device, batch.tokens, batch.token_width), Sequences(batch.offsets, {}, device)};
  for (const auto& [name, column] : batch.columns) out.columns[name] = on(device, {int64_t(column.size())}, column);
  for (const auto& [name, guests] : batch.modalities)
    out.modalities[name] = {tokens_on(device, guests.tokens, guests.token_width), guests.rows};
  for (const auto& [name, source] : batch.sources) out.sources[name] = input_of(source, device);
  return out;
}

}  // namespace

DeviceBatch to_device(const Batch& batch, Device device) {
  const bool real = !batch.values.empty();
  const Shape labels{int64_t(real ? batch.values.size() : batch.labels.size())};
  DeviceBatch out{.input = input_of(batch, device),
                  .targets = {.predicted = batch.predicted},
                  .lanes = batch.lanes,
                  .continues = batch.continues};
  if (device == Device::meta)
    out.targets.labels = empty(labels, real ? DType::f32 : DType::i32, device);
  else
    out.targets.labels = real ? tensor_of(labels, batch.values) : tensor_of(labels, batch.labels);
  if (!batch.label_offsets.empty()) out.targets.label_sequences = Sequences(batch.label_offsets, {}, device);
  out.labelled =
      real ? labels.numel() : std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; });
  return out;
}

ModelInput DeviceBatch::continuing(const Model& model, const DecodeState& state) const {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < input.sequences.count(); ++b) lengths.push_back(input.sequences.length(b));
  ModelInput out = input;
  out.sequences = model.continue_sequences(state, lengths);
  return out;
}

}  // namespace lithe
