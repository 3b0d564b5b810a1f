// A trained model that another learns from: it stays as it is.
#pragma once

#include "lithe/base/files.h"
#include "lithe/objective/objective.h"

namespace lithe {

/// Where a teacher stands, and as what it is loaded.
struct TeacherConfig {
  std::string directory, weights, precision = "f32";
  /// directory / model.safetensors, or that of its best or averaged weights. Fails (usage) where there is none.
  Path file() const;
  ModelConfig model() const;
  /// Fails (usage) unless its tokens are those of `tokenizer`.
  void check_vocabulary(const Tokenizer& tokenizer) const;
  /// Of the weights, for what is kept of their predictions.
  uint64_t fingerprint() const;
};

/// The model, without gradients: on the device of the one that learns, on meta without numbers. Weights of `lithe
/// quantize` stay integers.
std::unique_ptr<Model> load_teacher(const TeacherConfig& config, Device device);

/// What a teacher makes of the input of the one that learns from it; `want` says which taps.
struct Taught {
  Rows rows;
  Pass pass;
  Var tap(const Model& teacher, const Tap& tap) const;
};
Taught teach(const Model& teacher, const ModelInput& input, const std::vector<Tap>& taps);

}  // namespace lithe
