#include "lithe/objective/device_batch.h"

#include <algorithm>
#include <set>

#include "lithe/model/tags.h"

namespace lithe {
namespace {

Tensor on(Device device, const Shape& shape, const std::vector<int32_t>& values) {
  return device == Device::meta ? empty(shape, DType::i32, device) : tensor_of(shape, values);
}

Tensor tokens_on(Device device, const std::vector<int32_t>& tokens, int64_t width) {
  const int64_t rows = int64_t(tokens.size()) / width;
  return on(device, width == 1 ? Shape{rows} : Shape{rows, width}, tokens);
}

Tensor column_on(Device device, const Batch& batch, const std::vector<int32_t>& column) {
  const int64_t rows = batch.rows(), width = rows ? int64_t(column.size()) / rows : 1;
  return on(device, width == 1 ? Shape{rows} : Shape{rows, width}, column);
}

ModelInput input_of(const Batch& batch, Device device) {
  ModelInput out{tokens_on(device, batch.tokens, batch.token_width), Sequences(batch.offsets, {}, device)};
  for (const auto& [name, column] : batch.columns) out.columns[name] = column_on(device, batch, column);
  for (const auto& [name, guests] : batch.modalities)
    out.modalities[name] = {tokens_on(device, guests.tokens, guests.token_width), guests.rows};
  for (const auto& [name, source] : batch.sources) out.sources[name] = input_of(source, device);
  return out;
}

}  // namespace

Batch read_by(const Model& model, Batch batch) {
  const std::vector<std::string> names = model.config().source_names();
  std::erase_if(batch.sources,
                [&](const auto& source) { return std::ranges::find(names, source.first) == names.end(); });
  return batch;
}

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

DeviceBatch to_device(const Batch& batch, const Model& model) {
  DeviceBatch out = to_device(batch, model.device());
  ColumnChoice choice = columns_of(model);
  if (choice.empty()) return out;
  const bool of_source = reads_source(model.config().architecture);
  if (of_source && !batch.sources.count(kSource)) return out;
  const Batch& from = of_source ? batch.sources.at(kSource) : batch;
  ModelInput& to = of_source ? out.input.sources.at(kSource) : out.input;
  std::erase_if(choice.names, [&](const std::string& name) { return to.columns.count(name); });
  if (model.device() == Device::meta) {
    for (const std::string& name : choice.names)
      to.columns[name] = empty(name == "head_probabilities" ? Shape{from.rows(), 2 * kParserHeads} : Shape{from.rows()},
                               DType::i32, Device::meta);
    return out;
  }
  for (const auto& [name, column] : tree_columns(choice, from))
    to.columns[name] = column_on(model.device(), from, column);
  return out;
}

ColumnChoice tags_of_config(const ModelConfig& config) {
  ColumnChoice out;
  for (const TagColumn& tags : tag_columns(config)) {
    out.names.push_back(tags.column);
    out.set_tags(tags.column, tags.values);
  }
  return out;
}

std::vector<int64_t> composites_of(const BatchSource& train, const ModelConfig& model) {
  const ColumnChoice tags = tags_of_config(model);
  std::set<std::vector<int64_t>> seen{std::vector<int64_t>(tags.names.size() + 1, 0)};
  for (int64_t i = 0; i < train.batches_per_epoch(); ++i) {
    const Batch batch = train.batch(0, i);
    const Batch& from = reads_source(model.architecture) ? batch.sources.at(kSource) : batch;
    const auto columns = tree_columns(tags, from);
    for (int64_t n = 0; n < from.rows(); ++n) {
      std::vector<int64_t> one{from.tokens[size_t(n)]};
      one.resize(tags.names.size() + 1, 0);
      seen.insert(one);
      for (size_t c = 0; c < tags.names.size(); ++c) one[c + 1] = columns.at(tags.names[c])[size_t(n)];
      seen.insert(one);
    }
  }
  std::vector<int64_t> out;
  for (const auto& one : seen) out.insert(out.end(), one.begin(), one.end());
  return out;
}

ColumnChoice columns_of(const Model& model) {
  const std::vector<std::string> names = model.reads_columns(reads_source(model.config().architecture) ? kSource : "");
  if (names.empty()) return {};
  ColumnChoice out = tags_of_config(model.config());
  out.names = names;
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
