#include "lithe/data/document_rows.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {
namespace {

int64_t around(const SequenceFrame& ends) { return int64_t(ends.begin.has_value()) + int64_t(ends.end.has_value()); }

// Tokens [first, first + count) of the string [ends.begin] t1 … tn [ends.end], the document's tokens from `begin` on.
void copy_string(const TokenStore& store, const SequenceFrame& ends, int64_t begin, int64_t n, int64_t first,
                 int64_t count, int32_t* out) {
  const int64_t width = store.token_width();
  const auto put = [&](int32_t special) {
    std::fill_n(out, width, 0);
    *out = special;
    out += width;
  };
  if (ends.begin) {
    if (first == 0 && count > 0) {
      put(*ends.begin);
      --count;
    } else {
      --first;
    }
  }
  const int64_t inside = std::min(count, n - first);
  store.copy(begin + first, inside, out);
  out += inside * width;
  if (inside < count) put(*ends.end);
}

}  // namespace

DocumentRows::DocumentRows(TokenStore store, int64_t sequence_length, std::optional<SequenceFrame> frame)
    : store_(std::move(store)), sequence_length_(sequence_length), frame_(frame), row_begin_{0} {
  check_usage(sequence_length >= 1, "batches", "sequence_length must be at least 1, got ", sequence_length);
  const int64_t ends = around(frame ? *frame : SequenceFrame{store_.begin_of_text(), store_.end_of_text()});
  check_usage(!frame || sequence_length > ends, "batches", "sequence_length must be above the ", ends,
              " specials around each sequence, got ", sequence_length);
  check(frame || store_.token_width() == 1, "batches", "the next token can only be predicted where tokens are ids");
  const int64_t inside = frame ? sequence_length - ends : 0;
  for (int64_t d = 0; d < store_.documents(); ++d) {
    const int64_t tokens = store_.document_end(d) - store_.document_begin(d);
    row_begin_.push_back(row_begin_.back() + (tokens == 0 ? 0
                                              : frame     ? tokens + ends * ((tokens + inside - 1) / inside)
                                                          : tokens + ends - 1));
  }
  check(rows() > 0, "batches",
        "the corpus has no token with a next token, so there is nothing to learn or to evaluate; give more text");
}

int64_t DocumentRows::holder(const std::vector<int64_t>& begins, int64_t i) {
  return std::upper_bound(begins.begin(), begins.end(), i) - begins.begin() - 1;
}

void DocumentRows::append(Batch& batch, int64_t d, int64_t first, int64_t count) const {
  const size_t at = batch.tokens.size();
  const int64_t begin = store_.document_begin(d), n = store_.document_end(d) - begin;
  batch.tokens.resize(at + size_t(count * store_.token_width()));
  batch.offsets.push_back(batch.offsets.back() + count);
  if (frame_) {
    const int64_t whole = sequence_length_ - around(*frame_), piece = first / sequence_length_ * whole;
    copy_string(store_, *frame_, begin + piece, std::min(n - piece, whole), first % sequence_length_, count,
                batch.tokens.data() + at);
    return;
  }
  const SequenceFrame ends{store_.begin_of_text(), store_.end_of_text()};
  batch.labels.resize(at + size_t(count));
  copy_string(store_, ends, begin, n, first, count, batch.tokens.data() + at);
  copy_string(store_, ends, begin, n, first + 1, count, batch.labels.data() + at);
}

}  // namespace lithe
