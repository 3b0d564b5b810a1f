// A text in lanes: batches whose states are carried from one to the next.
#pragma once

#include "lithe/data/document_rows.h"

namespace lithe {

/// The rows of all documents, in the order of the store, are cut into `lanes` stretches of equal length (the last may
/// be shorter). Batch k has rows [k * sequence_length, (k + 1) * sequence_length) of every stretch, so that sequence
/// for sequence it goes on where batch k - 1 ended. Where a document ends inside, a sequence ends and a new one begins:
/// no sequence holds rows of two documents. A stretch that has ended has an empty sequence.
///
/// Each row comes once an epoch, every epoch is the same, and every lane begins anew with it.
class LaneOrder final : public BatchSource {
 public:
  LaneOrder(TokenStore store, int64_t sequence_length, int64_t lanes);
  int64_t batches_per_epoch() const override;
  int64_t largest_batch() const override { return lanes_ * sequence_length_; }
  int64_t lanes() const { return lanes_; }
  /// Rows of the longest document, as far as a lane holds them: what a state must have room for.
  int64_t longest() const { return longest_; }
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  DocumentRows rows_;
  int64_t sequence_length_, lanes_, stretch_ = 0, longest_ = 0;
};

}  // namespace lithe
