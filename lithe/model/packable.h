// Which matrices of a model can be packed for inference, found by short passes over the model.
#pragma once

#include <map>

#include "lithe/model/config.h"

namespace lithe {

struct Packable {
  bool by_rows = false;  // read as [outputs, inputs]
  bool product = false;  // read by a product, not by look-ups alone
  /// A linear map alone reads it, so that a low-rank adapter can stand beside it.
  bool adapts() const { return product && !by_rows; }
};

/// The matrices that products (weight_product) and look-ups (embed) alone read, always the same way round, by the names
/// of their parameters. All others are read as numbers somewhere, or by none of the passes.
std::map<std::string, Packable> packable_matrices(const ModelConfig& config);

/// Those that products read, and whether by rows: what ModelOptions.packed takes.
std::map<std::string, bool> packed_products(const ModelConfig& config);

}  // namespace lithe
