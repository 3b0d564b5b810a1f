// The reference sequence of a backbone: it runs through the same layers as the text and gives the sub-layers that ask
// for it what they read there.
#include "lithe/model/backbone.h"

namespace lithe {
namespace {

constexpr const char* kReference = "reference";  // names its random numbers, and its cost

}  // namespace

// One sequence serves all layers that ask for one.
void Backbone::set_up_reference() {
  bool cross = false, reads_source_before = false;
  for (size_t i = 0; i < layers_.size(); ++i)
    for (const auto& place : layers_[i].places) {
      cross = cross || place->kind == SubLayerConfig::Kind::cross;
      const std::optional<Reference> wanted = place->part->reference();
      if (!wanted) continue;
      check_usage(!reference_ || *reference_ == *wanted, "model", layers_[i].name,
                  ": all layers that read a reference sequence must name the same one");
      reference_ = wanted;
      reads_source_before = cross;
      reference_readers_.push_back(int64_t(i));
    }
  if (!reference_) return;
  check_usage(
      !reads_source_before, "model", layers_[size_t(reference_readers_.back())].name,
      ": the reference sequence that this layer reads has no source for the cross-attention of the layers below; "
      "give the decoder another mixer");
  check_columns_of_reference();
  const MemoryScope memory(MemoryClass::weights);
  reference_start_ = reference_start(config_.max_position_embeddings);
}

// What it runs through reads nothing of the text beside it.
void Backbone::check_columns_of_reference() const {
  const auto check_part = [](const Part* part, const std::string& name) {
    const std::vector<std::string> columns = part ? part->reads_columns() : std::vector<std::string>();
    check_usage(columns.empty(), "model", name, " reads the column '", columns.empty() ? "" : columns[0],
                "' of a text, which the reference sequence that a mixer of a layer above it reads does not have; ",
                "give that layer another mixer, or leave this out");
  };
  if (reference_->text) check_part(embedding_, "embedding " + config_.embedding.type);
  check_part(stack_.get(), "stack " + config_.stack.type);
  for (int64_t i = 0; i <= reference_readers_.back(); ++i) {
    const Layer& layer = layers_[size_t(i)];
    check_part(layer.compressor.get(), layer.name + ".compressor");
    check_part(layer.expander.get(), layer.name + ".expander");
    for (const auto& place : layer.places) {
      if (i == reference_readers_.back() && place->part->reference()) break;
      check_part(place->part.get(), place->name);
    }
  }
}

Tensor Backbone::reference_start(int64_t rows) const {
  if (!reference_->text) {
    const Tensor noise = empty({rows, config_.hidden_size}, compute_, device_);
    initialise(noise, {.std = reference_->std}, InitRole::embedding, kReference, uint64_t(reference_->seed), -1, 0);
    return noise;
  }
  check_usage(config_.token_width <= 1, "model", "a reference sequence of tokens needs ids, but a token is ",
              config_.token_width, " ints here; choose another tokenizer than a vocabulary-free one, or noise");
  const auto given = int64_t(reference_->ids.size());
  check_usage(!given || rows <= given, "model", "reference_ids has ", given, " tokens, ", rows,
              " are needed; give at least max_position_embeddings (data.sequence_length where that is 0) of them");
  for (const int64_t id : reference_->ids)
    check_usage(id >= 0 && id < config_.vocab_size, "model", "reference_ids has token ", id,
                ", the vocabulary's are 0 to ", config_.vocab_size - 1);
  const RandomKey key{.seed = uint64_t(reference_->seed), .purpose = purpose_of(kReference)};
  const Tensor ids = empty({rows}, DType::i32, device_);
  for (int64_t i = 0; i < rows && !ids.is_meta(); ++i)
    ids.data<int32_t>()[i] = int32_t(given ? reference_->ids[size_t(i)]
                                           : int64_t(random_below(key, uint64_t(i), uint64_t(config_.vocab_size))));
  return ids;
}

// What each layer's sub-layer reads of the reference sequence's first `count` rows; undefined for layers that do not
// ask.
std::vector<Var> Backbone::reference_rows(int64_t count) const {
  const kernels::PartScope part(kReference, true);
  const Tensor start = count <= reference_start_.dim(0) ? reference_start_.slice(0, count) : reference_start(count);
  const Sequences sequences = Sequences::single(count, device_);
  Pass pass;
  for (const int64_t layer : reference_readers_) pass.want({Tap::Kind::input, layer});
  pass.end_with({Tap::Kind::input, reference_readers_.back()});
  const Var x = reference_->text ? embed({start, sequences}, pass) : Var(start);
  if (reads_embedding_) pass.set_embedded(x);
  stack_->forward(*this, {x, sequences}, pass);
  std::vector<Var> out(layers_.size());
  for (const int64_t layer : reference_readers_) out[size_t(layer)] = pass.get({Tap::Kind::input, layer});
  return out;
}

}  // namespace lithe
