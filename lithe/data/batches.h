// Batches: packed rows of documents, in an order that is a pure function of (store, sizes, seed, epoch, index).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lithe/data/token_store.h"

namespace lithe {

struct TreeSentence;

/// Packed rows of B sequences, one after another, without padding (docs/design.md).
struct Batch {
  std::vector<int32_t> tokens;   // [N] inputs, or [N * token_width]
  std::vector<int32_t> labels;   // what a head predicts, see Head::count; -1 = no label
  std::vector<int64_t> offsets;  // [B+1] sequence starts, offsets[0] = 0, offsets[B] = N
  int64_t token_width = 1;       // ints of a token
  /// What a row has beside its token, [N] or [N, c], by name (ModelInput::columns).
  std::map<std::string, std::vector<int32_t>> columns = {};
  /// Sequences of words of a treebank, from which columns are made as a model reads them (data/tree_columns.h).
  struct Words {
    std::vector<std::shared_ptr<const TreeSentence>> sentences;  // of each sequence; empty: they are of none
    std::vector<int32_t> word_of;                                // [N]: the word that a row is of, -1: a special token
    bool operator==(const Words&) const = default;
  };
  Words words = {};
  /// Tokens of another kind (ModelInput::modalities), by name.
  struct Guests {
    std::vector<int32_t> tokens;  // [M * token_width]
    int64_t token_width = 1;
    std::vector<int64_t> rows;  // [M]
    bool operator==(const Guests&) const = default;
  };
  std::map<std::string, Guests> modalities = {};
  /// What the sequences are predicted from, one sequence each, by name (ModelInput::sources): tokens, offsets, columns
  /// and modalities count.
  std::map<std::string, Batch> sources = {};
  std::vector<int64_t> predicted;      // when not empty: label i is of row predicted[i], no other row has one
  std::vector<float> values;           // in place of labels: the numbers of a regression
  std::vector<int64_t> label_offsets;  // [B+1] where labels have lengths of their own: sequence b has
                                       // [label_offsets[b], label_offsets[b+1]); else empty
  // Of lanes (LaneOrder), whose states are carried from batch to batch: lane l has the sequences [lanes[l], lanes[l+1])
  // and, where continues[l], the first of them goes on with the last one that the lane had in the batch before.
  std::vector<int64_t> lanes;      // [L+1]; empty: there are none
  std::vector<uint8_t> continues;  // [L]

  int64_t rows() const { return int64_t(tokens.size()) / token_width; }
  int64_t sequences() const { return int64_t(offsets.size()) - 1; }
  bool operator==(const Batch&) const = default;
};

/// Where batches come from: epochs of equally many, each a pure function of (epoch, index). Thread-safe.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual int64_t batches_per_epoch() const = 0;
  /// The most rows that a batch has, and the most of each source, by name.
  virtual int64_t largest_batch() const = 0;
  virtual std::map<std::string, int64_t> largest_sources() const { return {}; }
  /// 0 <= index < batches_per_epoch().
  virtual Batch batch(int64_t epoch, int64_t index) const = 0;
};

/// The specials at the two ends of every sequence that an encoder reads; one that is absent is left out.
struct SequenceFrame {
  std::optional<int32_t> begin, end;
};

/// Cuts a token store into batches.
///
/// A document t1 … tn is the token string s = [begin] t1 … tn [end] (each special only if the tokenizer has it), its
/// rows are s without the last token and their labels s without the first. The rows are cut into pieces of at most
/// sequence_length; the pieces are permuted by (seed, epoch); batch k is rows [k * batch_tokens, (k+1) * batch_tokens)
/// of their concatenation. A piece cut by that is two sequences: context is lost there, no label is. No sequence holds
/// rows of two documents.
///
/// Each row comes once an epoch, and the last batch may be short.
///
/// Shuffled (training): an epoch shorter than one batch is repeated to fill one.
///
/// In order (evaluation): every epoch is the same.
///
/// With a frame (encoders) the rows of a document are those of its pieces [begin] t … t [end], each of at most
/// sequence_length rows, and no row has a label: an objective makes them.
class BatchOrder : public BatchSource {
 public:
  BatchOrder(TokenStore store, int64_t sequence_length, int64_t batch_tokens, uint64_t seed, bool shuffle = true,
             std::optional<SequenceFrame> frame = {});
  ~BatchOrder() override;
  BatchOrder(BatchOrder&&) noexcept;
  BatchOrder& operator=(BatchOrder&&) noexcept;

  int64_t batches_per_epoch() const override;
  int64_t largest_batch() const override;
  int64_t rows_per_epoch() const;  // before cutting into batches
  /// The first call of an epoch computes its permutation.
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Computes batches ahead on a thread of its own. next() gives what the function would have given directly.
class Prefetcher {
 public:
  using BatchFn = std::function<Batch(int64_t epoch, int64_t index)>;

  /// Starts at (epoch, index) and continues through further epochs without end. `order` must outlive this object.
  Prefetcher(const BatchSource& order, int64_t epoch, int64_t index, int64_t depth = 4);
  Prefetcher(BatchFn make, int64_t batches_per_epoch, int64_t epoch, int64_t index, int64_t depth = 4);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch; rethrows what its computation threw, now and at each further call.
  Batch next();

 private:
  BatchFn make_;
  int64_t batches_per_epoch_, epoch_, index_;
  size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;

  void work();
};

/// Fraction of a padded block [B, max length] that would be padding: what packed rows save.
double padding_waste(const std::vector<int64_t>& lengths);

/// Lengths of the sequences of a batch.
std::vector<int64_t> sequence_lengths(const Batch& batch);

}  // namespace lithe
