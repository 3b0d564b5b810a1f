#include "lithe/objective/device_batch.h"

#include <algorithm>

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
    if (!batch.segments.empty()) out.segments = tensor_of({int64_t(batch.segments.size())}, batch.segments);
    out.labels = real ? tensor_of(labels, batch.values) : tensor_of(labels, batch.labels);
  }
  out.sequences = Sequences(batch.offsets, {}, device);
  if (out.source.defined()) out.source_sequences = Sequences(batch.source_offsets, {}, device);
  if (!batch.label_offsets.empty()) out.label_sequences = Sequences(batch.label_offsets, {}, device);
  out.predicted = batch.predicted;
  out.lanes = batch.lanes;
  out.continues = batch.continues;
  out.labelled =
      real ? labels.numel() : std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; });
  return out;
}

Rows rows_of(const Model& model, const DeviceBatch& batch, Pass pass, DecodeState* state) {
  if (batch.segments.defined()) pass.give("token_type_ids", batch.segments);
  if (state) {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < batch.sequences.count(); ++b) lengths.push_back(batch.sequences.length(b));
    return model.run(batch.ids, model.continue_sequences(*state, lengths), pass, state);
  }
  if (!batch.source.defined()) return model.run(batch.ids, batch.sequences, pass);
  Pass of_source;
  if (pass.wants_statistics()) of_source.want_statistics();
  const Rows source = model.encode(batch.source, batch.source_sequences, of_source);
  for (const auto& [name, loss] : of_source.losses()) pass.add_loss(name, loss);
  pass.take_statistics(of_source.statistics(), "encoder.");
  return model.run(batch.ids, batch.sequences, pass, nullptr, &source);
}

}  // namespace lithe
