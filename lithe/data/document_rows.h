// The rows of a text: token i of each document's string, with token i + 1 as its label.
#pragma once

#include "lithe/data/batches.h"

namespace lithe {

/// Documents of a store as rows, one after another: what BatchOrder and LaneOrder cut.
class DocumentRows {
 public:
  /// `frame` as in BatchOrder: pieces of at most sequence_length rows, framed and without labels.
  DocumentRows(TokenStore store, int64_t sequence_length, std::optional<SequenceFrame> frame = {});
  const TokenStore& store() const { return store_; }
  int64_t rows() const { return row_begin_.back(); }
  int64_t documents() const { return store_.documents(); }
  /// Rows of all documents before document d; of all, for the number of documents.
  int64_t row_begin(int64_t d) const { return row_begin_[size_t(d)]; }
  /// The document that holds row `row`.
  int64_t document_of(int64_t row) const { return holder(row_begin_, row); }
  /// Appends rows [first, first + count) of document d as one sequence.
  void append(Batch& batch, int64_t d, int64_t first, int64_t count) const;

  /// The entry that holds `i`, by a table of where each begins.
  static int64_t holder(const std::vector<int64_t>& begins, int64_t i);

 private:
  TokenStore store_;
  int64_t sequence_length_;
  std::optional<SequenceFrame> frame_;
  std::vector<int64_t> row_begin_;  // [documents + 1]
};

}  // namespace lithe
