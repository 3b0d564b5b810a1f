// What objectives of altered text share: batches that are altered one by one, draws that are a function of (seed,
// epoch, index), and tokens that stand in for others.
#pragma once

#include "lithe/base/random.h"
#include "lithe/objective/objective.h"

namespace lithe {

/// Numbers of one batch, drawn one after another.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, int64_t index, const char* purpose);
  /// In [0, 1).
  double uniform() { return random_uniform(key_, next_++); }
  /// In [0, bound).
  uint64_t below(uint64_t bound) { return random_below(key_, next_++, bound); }
  void shuffle(std::vector<int64_t>& items);

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

/// Ordinary tokens of a tokenizer, all equally likely.
class RandomTokens {
 public:
  /// Fails (usage) when there is none.
  explicit RandomTokens(const Tokenizer& tokenizer);
  /// Writes one token. Characters have no range to draw from: another token of `batch` stands in.
  void draw(Draws& draws, int32_t* token, const Batch& batch) const;

 private:
  TokenCode code_;
  std::vector<int32_t> ids_;
};

/// Framed batches without labels, altered one by one.
class AlteredBatches : public BatchSource {
 public:
  AlteredBatches(std::unique_ptr<BatchSource> plain, std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed);

  int64_t batches_per_epoch() const final { return plain_->batches_per_epoch(); }
  int64_t largest_batch() const final { return plain_->largest_batch(); }
  Batch batch(int64_t epoch, int64_t index) const final;

 protected:
  /// Changes tokens of batch (epoch, index) and gives it its labels.
  virtual void alter(Batch& batch, int64_t epoch, int64_t index) const = 0;

  bool special(const Batch& batch, int64_t row) const {
    return tokenizer_->is_special(batch.tokens[size_t(row * batch.token_width)]);
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t seed() const { return seed_; }

 private:
  std::unique_ptr<BatchSource> plain_;
  uint64_t seed_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace lithe
