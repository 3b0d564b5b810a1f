// Pairs of texts as batches for an encoder-decoder.
#pragma once

#include <span>

#include "lithe/data/batches.h"
#include "lithe/data/translation.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/truncation.h"

namespace lithe {

/// Which pairs are too long. A side's length is its tokens and its end token: the rows that it has.
struct TranslationLimits {
  int64_t max_length = 0;       // of either side; 0: no limit
  double max_length_ratio = 0;  // longer side / shorter side, at least 1; 0: no limit
  // Training: what exceeds the limits is left out, and so is a pair with a blank side. Else it is an error, and blank
  // sides stay.
  bool leave_out = false;
  std::optional<Truncation> cut_sources = {};  // longer than max_length: cut before all else
};

/// Training: how each side is cut anew every epoch. The default cuts it once and for all, as encode() does.
struct TranslationSampling {
  SegmentationSampling source, target;
};

/// Pairs as packed rows: the source sequence of a pair is its tokens and eos, the target sequence has the rows
/// bos t1 … tn and the labels t1 … tn eos (E03). A tokenizer without bos begins with its eos. Further sources
/// (TextPair::sources) are read as the source is, by its tokenizer, also where they have no text.
///
/// An epoch has B batches: one where all fits into batch_tokens, else ceil(rows / (batch_tokens - longest + 1)), where
/// rows counts all sides of all pairs and longest those of the longest pair, and fewer where that is above
/// rows / B. The pairs are permuted by (seed, epoch) and laid one after another; batch k is those whose first row lies
/// in [k rows/B, (k+1) rows/B). So every pair comes once an epoch, every batch has a pair, and no batch has more rows
/// than batch_tokens, or than twice the longest pair where that is more. In order (evaluation) nothing is permuted.
///
/// Rows are packed, so pairs of unlike length cost nothing and are not sorted into buckets.
///
/// With sampling, the tokens of a pair's side are a pure function of (seed, epoch, pair, side), but all that is said
/// above of rows, limits and boundaries counts the tokens that encode() gives: a batch of drawn tokens has more rows. A
/// side keeps those tokens where the drawn ones would exceed max_length (without one, the longest side of all pairs),
/// and where they would not fit into the batch, the pairs taken in its order: it holds 1.1 times as many rows as the
/// bounds without sampling, times how much longer drawing makes up to a thousand pairs of epoch 0.
class TranslationBatches : public BatchSource {
 public:
  /// Tokenizes all pairs. Fails when there are none or the limits leave none, on a pair beyond them where they do not
  /// leave out, on a tokenizer without eos or without a vocabulary, and on one that cannot be sampled so. Keeps the
  /// tokenizers.
  TranslationBatches(std::vector<TextPair> pairs, std::shared_ptr<const Tokenizer> source,
                     std::shared_ptr<const Tokenizer> target, const TranslationLimits& limits, int64_t batch_tokens,
                     uint64_t seed, bool shuffle, const TranslationSampling& sampling = {});
  /// Batches have these further sources alone, in place of all; the others still count for limits and sizes, so that
  /// models that read fewer sources learn from the same pairs in the same batches.
  void give_only(const std::vector<std::string>& further);

  int64_t batches_per_epoch() const override { return batches_; }
  /// The most target rows, as Batch::rows() counts them.
  int64_t largest_batch() const override { return target_.largest; }
  Batch batch(int64_t epoch, int64_t index) const override;

  /// No batch of any epoch has more source rows, or more target rows. In order they are exact. Shuffled they are bounds
  /// that no permutation exceeds: the rows of the longest pair on that side, and as many more of pairs with the largest
  /// share of that side as fit into rows/B. Drawn they are bounds as well.
  std::map<std::string, int64_t> largest_sources() const override;
  int64_t largest_target() const { return target_.largest; }

  /// The pairs that were kept, in their order.
  const std::vector<TextPair>& pairs() const { return pairs_; }
  /// How many pairs the limits left out.
  int64_t dropped() const { return dropped_; }
  /// Tokens of pair i without any special, as encode() cuts them.
  std::span<const int32_t> source_tokens(int64_t i) const { return source_.of(i); }
  std::span<const int32_t> target_tokens(int64_t i) const { return target_.of(i); }
  /// Rows of all pairs in each of the sources that batches give.
  std::map<std::string, int64_t> source_rows() const;
  bool shuffled() const { return shuffle_; }
  /// Checksum of all tokens, where they are cut, and the specials; of a side that is drawn, also of its tokenizer.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Side {        // the tokens of all pairs
    std::string name;  // source, target, or that of a further source
    bool further = false;
    bool given = true;  // by batches
    std::shared_ptr<const Tokenizer> tokenizer;
    SegmentationSampling sampling;
    int32_t begin = 0, end = 0;
    int64_t longest = 0;  // rows that a drawn sequence may have
    int64_t largest = 0;  // rows of the largest batch
    std::vector<int32_t> tokens;
    std::vector<int64_t> offsets{0};

    const std::string& text(const TextPair& pair) const {
      return further ? pair.sources.at(name) : name == "target" ? pair.target : pair.source;
    }
    void add(const std::vector<int32_t>& ids);
    std::span<const int32_t> of(int64_t i) const;
    int64_t rows(int64_t i) const { return offsets[size_t(i) + 1] - offsets[size_t(i)] + 1; }
  };
  struct Order {  // of an epoch
    int64_t epoch = -1;
    std::vector<int64_t> pairs;
    std::vector<int64_t> starts;  // the first row of each, and behind them the number of rows
  };
  struct LastOrder {
    std::mutex mutex;
    std::shared_ptr<const Order> order;
  };

  std::vector<TextPair> pairs_;
  std::vector<std::vector<int32_t>> word_of_;  // of pairs with a tree: the word of each source row
  Side source_, target_;
  std::vector<Side> further_;
  int64_t rows_ = 0, batches_ = 0, dropped_ = 0;
  uint64_t seed_, fingerprint_ = 0;
  bool shuffle_;
  std::unique_ptr<LastOrder> last_ = std::make_unique<LastOrder>();

  int64_t count() const { return int64_t(pairs_.size()); }
  int64_t pair_rows(int64_t i) const {
    int64_t rows = source_.rows(i) + target_.rows(i);
    for (const Side& side : further_) rows += side.rows(i);
    return rows;
  }
  std::vector<Side*> sides();
  void keep(std::vector<TextPair> pairs, const TranslationLimits& limits);
  void divide(int64_t batch_tokens);
  int64_t shuffled_bound(const Side& side) const;
  void make_room(Side& side, int64_t max_length) const;
  std::vector<int32_t> drawn(const Side& side, int64_t epoch, int64_t i) const;
  std::vector<std::vector<int32_t>> tokens_of(const Side& side, std::span<const int64_t> pairs, int64_t epoch) const;
  std::shared_ptr<const Order> order_of(int64_t epoch) const;
  std::pair<int64_t, int64_t> places(const Order& order, int64_t index) const;
};

}  // namespace lithe
