// A batch as tensors: what a model reads of it, and what it is to predict.
#pragma once

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

}  // namespace lithe
