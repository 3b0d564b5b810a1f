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

// A further text of a translator has trees where it is the source.
void check_trees(const ColumnChoice& choice, const Batch& batch, const std::string& encoder) {
  const bool further = !encoder.empty() && encoder != kSource;
  check_usage(choice.empty() || !further || !batch.words.sentences.empty(), "data", "the encoder ", encoder,
              " reads the columns ", join(choice.names), " of a treebank, which the text of translation.sources.",
              encoder, " has where it is the source and that stands in one; give {from: source} and source_trees");
}

// The columns that the encoder (empty: the model) reads beside the tokens of `batch`.
void add_columns(const Model& model, const Batch& batch, const std::string& encoder, ModelInput& input) {
  ColumnChoice choice = columns_of(model, encoder);
  std::erase_if(choice.names, [&](const std::string& name) { return input.columns.count(name); });
  if (model.device() == Device::meta) {
    for (const std::string& name : choice.names)
      input.columns[name] =
          empty(name == "head_probabilities" ? Shape{batch.rows(), 2 * kParserHeads} : Shape{batch.rows()}, DType::i32,
                Device::meta);
    return;
  }
  check_trees(choice, batch, encoder);
  for (const auto& [name, column] : tree_columns(choice, batch))
    input.columns[name] = column_on(model.device(), batch, column);
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
  if (!reads_source(model.config().architecture))
    add_columns(model, batch, "", out.input);
  else
    for (const std::string& name : model.config().source_names())
      if (const auto from = batch.sources.find(name); from != batch.sources.end())
        add_columns(model, from->second, name, out.input.sources.at(name));
  return out;
}

std::vector<int64_t> composites_of(const BatchSource& train, const ModelConfig& model, const std::string& owner) {
  const bool translates = reads_source(model.architecture);
  ColumnChoice tags;
  for (const TagColumn& of : tag_columns(model, owner)) {
    tags.names.push_back(of.column);
    tags.set_tags(of.column, of.values);
  }
  std::set<std::vector<int64_t>> seen{std::vector<int64_t>(tags.names.size() + 1, 0)};
  for (int64_t i = 0; i < train.batches_per_epoch(); ++i) {
    const Batch batch = train.batch(0, i);
    const Batch& from = translates ? batch.sources.at(owner.empty() ? kSource : owner) : batch;
    check_trees(tags, from, owner);
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

ColumnChoice columns_of(const Model& model, const std::string& encoder) {
  const ModelConfig& config = model.config();
  const bool translates = reads_source(config.architecture);
  const std::string source = translates && encoder.empty() ? kSource : encoder;
  ColumnChoice out{.names = model.reads_columns(source), .tags = {}};
  if (out.empty()) return out;
  // Encoders without sources read one text.
  for (const TagColumn& tags : translates ? tag_columns(config, embedding_owner(config, source)) : tag_columns(config))
    out.set_tags(tags.column, tags.values);
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
