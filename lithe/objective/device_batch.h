// A batch as tensors: what a model reads of it, and what it is to predict.
#pragma once

#include "lithe/data/tree_columns.h"
#include "lithe/objective/objective.h"

namespace lithe {

/// A batch as tensors. On meta only its sizes count.
struct DeviceBatch {
  ModelInput input;
  Targets targets;
  int64_t labelled = 0;        // labels that count
  std::vector<int64_t> lanes;  // see Batch
  std::vector<uint8_t> continues;

  /// The input as rows that continue a state, which has as many sequences.
  ModelInput continuing(const Model& model, const DecodeState& state) const;
};
DeviceBatch to_device(const Batch& batch, Device device);
/// On the model's device, with the columns of a treebank that the model reads.
DeviceBatch to_device(const Batch& batch, const Model& model);

/// The columns that the parts of a model read: of its tokens, or of its source's where it reads one; else those of the
/// text of that encoder of an encoder_decoder.
ColumnChoice columns_of(const Model& model, const std::string& encoder = "");
/// The composites of tokens and tags that training batches have, and of each such token with unknown tags (spec
/// syn.input_joint: x/UNK); token 0 with unknown tags stands for all that is unknown. One after another. Of the
/// embedding of that owner (embedding_owner).
std::vector<int64_t> composites_of(const BatchSource& train, const ModelConfig& model, const std::string& owner);

/// The batch without the sources that the model has no encoder for: models that are compared need not read the same.
Batch read_by(const Model& model, Batch batch);

}  // namespace lithe
