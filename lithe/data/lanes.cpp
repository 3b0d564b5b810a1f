#include "lithe/data/lanes.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {

// spec: mem.xl | data | lanes of a text in order, for states that are carried from segment to segment | TB 6.4.2(1)
LaneOrder::LaneOrder(TokenStore store, int64_t sequence_length, int64_t lanes)
    : rows_(std::move(store), sequence_length), sequence_length_(sequence_length), lanes_(lanes) {
  check_usage(lanes >= 1, "lanes", "there must be at least 1 lane, got ", lanes);
  check_usage(lanes <= rows_.rows(), "lanes", "the text has ", rows_.rows(), " tokens for ", lanes,
              " lanes; lower train.batch_tokens or give more text");
  stretch_ = (rows_.rows() + lanes - 1) / lanes;
  for (int64_t d = 0; d < rows_.documents(); ++d)
    longest_ = std::max(longest_, std::min(stretch_, rows_.row_begin(d + 1) - rows_.row_begin(d)));
}

int64_t LaneOrder::batches_per_epoch() const { return (stretch_ + sequence_length_ - 1) / sequence_length_; }

Batch LaneOrder::batch(int64_t epoch, int64_t index) const {
  check(epoch >= 0 && index >= 0 && index < batches_per_epoch(), "lanes", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_per_epoch());
  Batch batch{.offsets = {0}, .lanes = {0}};
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    const int64_t begin = std::min(lane * stretch_, rows_.rows()), end = std::min(begin + stretch_, rows_.rows()),
                  last = std::min(begin + (index + 1) * sequence_length_, end);
    int64_t row = std::min(begin + index * sequence_length_, end);
    bool goes_on = index > 0;
    if (row == last) batch.offsets.push_back(batch.offsets.back());
    if (row < last && rows_.row_begin(rows_.document_of(row)) == row) goes_on = false;
    while (row < last) {
      const int64_t d = rows_.document_of(row), count = std::min(rows_.row_begin(d + 1), last) - row;
      rows_.append(batch, d, row - rows_.row_begin(d), count);
      row += count;
    }
    batch.lanes.push_back(batch.sequences());
    batch.continues.push_back(goes_on);
  }
  return batch;
}

}  // namespace lithe
