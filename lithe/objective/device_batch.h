// A batch as tensors, and the rows that a model makes of it.
#pragma once

#include "lithe/objective/objective.h"

namespace lithe {

/// A batch as tensors. On meta only its sizes count.
struct DeviceBatch {
  Tensor ids;       // i32 [N] or [N, token_width]
  Tensor segments;  // i32 [N], see Batch; none: all 0
  Tensor labels;    // i32, or f32 of a regression: Head::count
  Sequences sequences;
  Sequences label_sequences;       // see Batch::label_offsets
  std::vector<int64_t> predicted;  // see Batch
  int64_t labelled = 0;
  Tensor source;  // i32 [M] of an encoder-decoder; else none
  Sequences source_sequences;
  std::vector<int64_t> lanes;  // see Batch
  std::vector<uint8_t> continues;

  Targets targets() const { return {labels, sequences, label_sequences, predicted}; }
  /// Rows that the model reads.
  int64_t rows() const { return sequences.rows() + source_sequences.rows(); }
};
DeviceBatch to_device(const Batch& batch, Device device);

/// The model's rows of a batch, with its source where it has one. `pass` receives auxiliary losses, and gives the
/// segments as token_type_ids. With a state, which has as many sequences, they continue these.
Rows rows_of(const Model& model, const DeviceBatch& batch, Pass pass = Pass(), DecodeState* state = nullptr);

}  // namespace lithe
