#include "lithe/data/batches.h"

#include <algorithm>
#include <list>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/data/document_rows.h"
#include "lithe/data/permutation.h"

namespace lithe {
namespace {

constexpr size_t kKeptEpochs = 2;  // a prefetcher may stand in the next epoch while the trainer is in this one

}  // namespace

struct BatchOrder::State {
  // The pieces of one epoch in their order; piece order[i] is rows [starts[i], starts[i + 1]) of the stream.
  struct Epoch {
    std::vector<int64_t> order, starts;
  };

  DocumentRows documents;
  int64_t sequence_length, batch_tokens;
  uint64_t seed;
  bool shuffle;
  std::vector<int64_t> piece_begin = {0};  // [documents + 1] pieces of all documents before

  std::mutex mutex;  // guards `epochs`
  std::list<std::pair<int64_t, std::shared_ptr<const Epoch>>> epochs;

  int64_t rows() const { return documents.rows(); }
  int64_t pieces() const { return piece_begin.back(); }
  static int64_t holder(const std::vector<int64_t>& begins, int64_t i) { return DocumentRows::holder(begins, i); }

  int64_t piece_rows(int64_t piece) const {
    const int64_t d = holder(piece_begin, piece);
    const int64_t first = (piece - piece_begin[size_t(d)]) * sequence_length;
    return std::min(sequence_length, documents.row_begin(d + 1) - documents.row_begin(d) - first);
  }

  std::shared_ptr<const Epoch> epoch(int64_t number) {
    const std::lock_guard lock(mutex);
    for (const auto& [n, made] : epochs)
      if (n == number) return made;
    auto made = std::make_shared<Epoch>();
    made->order = permutation({seed, uint64_t(number), 0, purpose_of("data.order")}, pieces());
    made->starts.reserve(made->order.size() + 1);
    made->starts.push_back(0);
    for (const int64_t piece : made->order) made->starts.push_back(made->starts.back() + piece_rows(piece));
    epochs.emplace_back(number, made);
    if (epochs.size() > kKeptEpochs) epochs.pop_front();
    return made;
  }

  int64_t width() const { return documents.store().token_width(); }

  Batch in_order(int64_t index) const {
    Batch batch{.offsets = {0}, .token_width = width()};
    int64_t row = index * batch_tokens;
    const int64_t end = std::min(row + batch_tokens, rows());
    for (int64_t d = documents.document_of(row); row < end;) {
      while (documents.row_begin(d + 1) <= row) ++d;
      const int64_t inside = row - documents.row_begin(d);
      const int64_t piece_end = std::min((inside / sequence_length + 1) * sequence_length,
                                         documents.row_begin(d + 1) - documents.row_begin(d));
      const int64_t count = std::min(piece_end - inside, end - row);
      documents.append(batch, d, inside, count);
      row += count;
    }
    return batch;
  }

  Batch shuffled(const Epoch& epoch, int64_t index) const {
    Batch batch{.offsets = {0}, .token_width = width()};
    batch.tokens.reserve(size_t(batch_tokens * width()));
    int64_t row = index * batch_tokens;
    size_t i = size_t(holder(epoch.starts, row));
    for (int64_t left = rows() < batch_tokens ? batch_tokens : std::min(batch_tokens, rows() - row); left > 0;) {
      const int64_t piece = epoch.order[i], d = holder(piece_begin, piece);
      const int64_t skipped = row - epoch.starts[i];
      const int64_t count = std::min(epoch.starts[i + 1] - row, left);
      documents.append(batch, d, (piece - piece_begin[size_t(d)]) * sequence_length + skipped, count);
      left -= count;
      row += count;
      // The end of the order is met within a batch only when an epoch does not fill one.
      if (row == epoch.starts[i + 1] && ++i == epoch.order.size()) i = 0, row = 0;
    }
    return batch;
  }
};

BatchOrder::BatchOrder(TokenStore store, int64_t sequence_length, int64_t batch_tokens, uint64_t seed, bool shuffle,
                       std::optional<SequenceFrame> frame)
    : state_(new State{.documents = DocumentRows(std::move(store), sequence_length, frame),
                       .sequence_length = sequence_length,
                       .batch_tokens = batch_tokens,
                       .seed = seed,
                       .shuffle = shuffle}) {
  check_usage(batch_tokens >= 1, "batches", "batch_tokens must be at least 1, got ", batch_tokens);
  State& s = *state_;
  for (int64_t d = 0; d < s.documents.documents(); ++d) {
    const int64_t rows = s.documents.row_begin(d + 1) - s.documents.row_begin(d);
    s.piece_begin.push_back(s.piece_begin.back() + rows / sequence_length + (rows % sequence_length != 0));
  }
}

BatchOrder::~BatchOrder() = default;
BatchOrder::BatchOrder(BatchOrder&&) noexcept = default;
BatchOrder& BatchOrder::operator=(BatchOrder&&) noexcept = default;

int64_t BatchOrder::rows_per_epoch() const { return state_->rows(); }
int64_t BatchOrder::largest_batch() const {
  return state_->shuffle ? state_->batch_tokens : std::min(state_->batch_tokens, state_->rows());
}

int64_t BatchOrder::batches_per_epoch() const {
  return (state_->rows() + state_->batch_tokens - 1) / state_->batch_tokens;
}

Batch BatchOrder::batch(int64_t epoch, int64_t index) const {
  check(epoch >= 0 && index >= 0 && index < batches_per_epoch(), "batches", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_per_epoch());
  return state_->shuffle ? state_->shuffled(*state_->epoch(epoch), index) : state_->in_order(index);
}

std::vector<int64_t> sequence_lengths(const Batch& batch) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch.sequences(); ++b)
    lengths.push_back(batch.offsets[size_t(b + 1)] - batch.offsets[size_t(b)]);
  return lengths;
}

// spec: data.batch_pad | data | token-budget batches, packed; the share that padding would waste | TB 6.1.7
double padding_waste(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return 0;
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  const double block = double(longest) * double(lengths.size());
  return block > 0 ? 1 - double(std::accumulate(lengths.begin(), lengths.end(), int64_t(0))) / block : 0;
}

}  // namespace lithe
