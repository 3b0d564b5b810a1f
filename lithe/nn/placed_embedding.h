// Embeddings of features that stand in a plane or in time.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// Rows of features that come as a whole: the patches of a picture.
class PlacedEmbedding : public Embedding {
 public:
  /// Rows of one whole: an input has a multiple of them; 0: any number.
  virtual int64_t rows() const = 0;
  /// It gives each row its place. In an encoder model.position then neither adds to them nor counts them: the text
  /// beside them has the places that it has alone.
  virtual bool places() const = 0;
  const PlacedEmbedding* placed() const final { return this; }
};

}  // namespace lithe
