// Learned places in a plane, and the row of a modality: what embeddings of pictures share.
#pragma once

#include "lithe/nn/placed_embedding.h"
#include "lithe/nn/registry.h"

namespace lithe {

struct PatchGrid {
  int64_t rows = 1, columns = 1;
  int64_t cells() const { return rows * columns; }
  bool operator==(const PatchGrid&) const = default;
};

/// What of a table of `from` places makes each of `to`: [to.cells(), from.cells()], the bicubic interpolation (a =
/// -0.75, clamped at the sides) by which Vision Transformers go to other sizes.
Tensor bicubic_shares(const PatchGrid& from, const PatchGrid& to, DType dtype, Device device);

/// Rows of whole pictures get the places of their patches and the row of their modality. Parameters: position.weight
/// [table.cells(), hidden], modality [1, hidden].
class PatchPositions {
 public:
  struct Options {
    std::string position = "none";
    PatchGrid grid, table;  // patches of a picture, and of those that the places were learnt for
    bool modality_row = false;
  };
  PatchPositions(const Scope& scope, const Options& options, int64_t hidden_size);
  /// rows [pictures * grid.cells(), hidden]. Fails where they are no whole pictures.
  Var add_to(const Var& rows) const;
  bool places() const { return table_ != nullptr; }

 private:
  Options options_;
  Parameter* table_ = nullptr;
  Parameter* modality_ = nullptr;
};

}  // namespace lithe
