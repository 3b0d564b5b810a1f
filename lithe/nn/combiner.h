// What several encoders make of their inputs, as one (spec syn.combine).
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// Rows of several encoders to the rows that a head, or a decoder's cross-attention, reads.
class Combiner : public Part {
 public:
  static constexpr const char* slot = "combiner";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
    int64_t encoders = 2;  // that are combined
    double dropout = 0;
  };
  /// Channels of the rows that it gives.
  virtual int64_t width() const = 0;
  /// It gives a row for each token of the text. `shortened`: a compressor left fewer rows of the text than tokens.
  virtual bool row_a_token(bool shortened) const = 0;
  /// `rows`: of the further encoders in the order of their names, and last of the text's own; sequence b of each belong
  /// together.
  virtual Rows forward(const std::vector<Rows>& rows, const Pass& pass) const = 0;
  /// Rows of all encoders must be as many, as they are or once they are aligned.
  virtual bool aligns() const { return false; }
};

}  // namespace lithe
