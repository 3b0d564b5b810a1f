#include "lithe/train/objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {
namespace {

// Numbers of one batch, drawn one after another.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, int64_t index, const char* purpose)
      : key_{seed ^ (uint64_t(epoch) << 32), uint64_t(index), 0, purpose_of(purpose)} {}
  double uniform() { return random_uniform(key_, next_++); }
  uint64_t below(uint64_t bound) { return random_below(key_, next_++, bound); }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

void shuffle(std::vector<int64_t>& items, Draws& draws) {
  for (uint64_t i = items.size(); i-- > 1;) std::swap(items[i], items[draws.below(i + 1)]);
}

// The tokens that may stand in for others.
class RandomTokens {
 public:
  explicit RandomTokens(const Tokenizer& tokenizer) : code_(tokenizer.code()) {
    if (code_.payload != TokenCode::Payload::none) return;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
      if (!tokenizer.is_special(id) && !tokenizer.token(id).empty()) ids_.push_back(id);
    check_usage(!ids_.empty(), "objective", "the tokenizer has no ordinary token");
  }
  // Writes one token. `row` finds another token of the batch: characters have no range to draw from.
  void draw(Draws& draws, int32_t* token, const Batch& batch) const {
    switch (code_.payload) {
      case TokenCode::Payload::none: *token = ids_[draws.below(ids_.size())]; return;
      case TokenCode::Payload::bits:
        for (int64_t j = 0; j < code_.size; j += 32) {
          const int64_t unused = std::max<int64_t>(0, j + 32 - code_.size);
          token[1 + j / 32] = int32_t(uint32_t(draws.below(uint64_t(1) << 32)) >> unused << unused);
        }
        return;
      case TokenCode::Payload::bucket: token[1] = int32_t(draws.below(uint64_t(code_.size))); return;
      case TokenCode::Payload::character: {
        uint64_t row = 0;  // ends: the token to replace is an ordinary one of this batch
        do row = draws.below(uint64_t(batch.rows()));
        while (batch.tokens[2 * row] != code_ordinary);
        token[1] = batch.tokens[2 * row + 1];
        return;
      }
    }
  }

 private:
  TokenCode code_;
  std::vector<int32_t> ids_;
};

class ObjectiveBatches : public BatchSource {
 public:
  ObjectiveBatches(std::unique_ptr<BatchSource> rows, const TrainConfig& config,
                   std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed)
      : rows_(std::move(rows)),
        config_(config),
        tokenizer_(std::move(tokenizer)),
        seed_(seed),
        random_tokens_(*tokenizer_) {}

  int64_t batches_per_epoch() const override { return rows_->batches_per_epoch(); }
  int64_t largest_batch() const override { return rows_->largest_batch(); }
  Batch batch(int64_t epoch, int64_t index) const override {
    Batch batch = rows_->batch(epoch, index);
    if (config_.objective == "mlm")
      mask(batch, epoch, index);
    else
      corrupt(batch, epoch, index);
    return batch;
  }

 private:
  std::unique_ptr<BatchSource> rows_;
  TrainConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  uint64_t seed_;
  RandomTokens random_tokens_;

  bool special(const Batch& batch, int64_t row) const {
    return tokenizer_->is_special(batch.tokens[size_t(row * batch.token_width)]);
  }

  // spec: arch.encoder_only | objective | masked tokens (mlm): 80 % masked, 10 % random, 10 % kept; whole words |
  // TB 6.1.1
  void mask(Batch& batch, int64_t epoch, int64_t index) const {
    Draws draws(seed_, epoch, index, "mlm");
    const int64_t wanted = mlm_predictions(config_, batch.rows());
    std::vector<int64_t> begins, order;  // units: tokens, or the tokens of a word
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < batch.sequences(); ++b)
      for (int64_t row = batch.offsets[size_t(b)]; row < batch.offsets[size_t(b + 1)]; ++row) {
        if (special(batch, row)) continue;
        const bool goes_on = config_.whole_word_mask && !begins.empty() && begins.back() + lengths.back() == row &&
                             row > batch.offsets[size_t(b)] && tokenizer_->continues_word(batch.tokens[size_t(row)]);
        if (goes_on) {
          ++lengths.back();
        } else {
          begins.push_back(row);
          lengths.push_back(1);
        }
      }
    order.resize(begins.size());
    std::iota(order.begin(), order.end(), int64_t(0));
    shuffle(order, draws);
    for (const int64_t unit : order) {
      if (int64_t(batch.predicted.size()) + lengths[size_t(unit)] > wanted) continue;
      for (int64_t i = 0; i < lengths[size_t(unit)]; ++i) batch.predicted.push_back(begins[size_t(unit)] + i);
      if (int64_t(batch.predicted.size()) == wanted) break;
    }
    std::sort(batch.predicted.begin(), batch.predicted.end());
    const Batch before = batch;
    for (const int64_t row : batch.predicted) {
      int32_t& token = batch.tokens[size_t(row)];
      batch.labels.push_back(token);
      const double u = draws.uniform();
      if (u < 0.8)
        token = *tokenizer_->specials().mask;
      else if (u < 0.9)
        random_tokens_.draw(draws, &token, before);
    }
    // Rows without a label fill up what words did not, so that every batch of a size costs the same.
    while (int64_t(batch.predicted.size()) < wanted) {
      batch.predicted.push_back(0);
      batch.labels.push_back(-1);
    }
  }

  // spec: train.shuffle_random | objective | each token is intact, shuffled within its sequence, or random | TH 2.3.6
  void corrupt(Batch& batch, int64_t epoch, int64_t index) const {
    Draws draws(seed_, epoch, index, "shuffle_random");
    const Batch before = batch;
    const auto width = size_t(batch.token_width);
    batch.labels.assign(size_t(batch.rows()), -1);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const int64_t begin = batch.offsets[size_t(b)], length = batch.offsets[size_t(b + 1)] - begin;
      std::vector<int64_t> permutation(static_cast<size_t>(length));
      std::iota(permutation.begin(), permutation.end(), begin);
      shuffle(permutation, draws);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t row = begin + i;
        if (special(before, row)) continue;
        int32_t& label = batch.labels[size_t(row)];
        label = 0;
        int32_t* token = batch.tokens.data() + size_t(row) * width;
        if (draws.uniform() < config_.shuffle_probability) {
          const int64_t other = permutation[size_t(i)];
          if (special(before, other)) continue;
          std::copy_n(before.tokens.data() + size_t(other) * width, width, token);
          label = 1;
        } else if (draws.uniform() < config_.random_probability) {
          random_tokens_.draw(draws, token, before);
          label = 2;
        }
      }
    }
  }
};

}  // namespace

int64_t mlm_predictions(const TrainConfig& config, int64_t rows) {
  return std::max<int64_t>(1, std::llround(config.mlm_probability * double(rows)));
}

std::unique_ptr<BatchSource> with_objective(std::unique_ptr<BatchSource> rows, const TrainConfig& config,
                                            std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed) {
  return std::make_unique<ObjectiveBatches>(std::move(rows), config, std::move(tokenizer), seed);
}

void prepare_for_objective(const TrainConfig& config, const Tokenizer& tokenizer, ModelConfig& model) {
  const std::string& objective = config.objective;
  const std::string& head = model.head.type;
  check_usage(!config.whole_word_mask || objective == "mlm", "train", "whole_word_mask is for objective mlm, not ",
              objective, "; leave it out");
  const auto needs_head = [&](bool fits, const char* heads) {
    check_usage(fits, "train", "objective ", objective, " needs model.head ", heads, ", not ", head);
  };
  if (objective == "clm") {
    check_usage(model.architecture == "decoder", "train",
                "objective clm predicts the next token and needs architecture decoder, not ", model.architecture,
                "; encoders learn by objective mlm or shuffle_random");
    check_usage(tokenizer.width() == 1, "train",
                "objective clm predicts ids, but these tokens have none; choose another data.tokenizer");
    needs_head(head == "lm" || head == "mlm", "lm");
    return;
  }
  if (objective == "task") return;  // the task's own checks follow
  if (objective == "seq2seq") {
    check_usage(model.architecture == "encoder_decoder", "train",
                "objective seq2seq needs model.architecture encoder_decoder, not ", model.architecture);
    needs_head(head == "lm" || head == "mlm", "lm");
    return;
  }
  check_usage(model.architecture == "encoder", "train", "objective ", objective,
              " needs model.architecture encoder, not ", model.architecture);
  if (objective == "mlm") {
    check_usage(tokenizer.width() == 1, "train",
                "objective mlm predicts ids, but these tokens have none; choose another data.tokenizer, or objective "
                "shuffle_random");
    check_usage(tokenizer.specials().mask.has_value(), "train",
                "objective mlm needs a tokenizer with a mask token, as type wordpiece has; for type bpe add "
                "specials: [<|endoftext|>, <mask>]");
    needs_head(head == "lm" || head == "mlm", "mlm or lm");
    return;
  }
  needs_head(head == "tag", "{type: tag}");
  check_usage(model.num_labels == 0 || model.num_labels == 3, "train",
              "objective shuffle_random tells three classes apart, model.num_labels is ", model.num_labels,
              "; leave it out");
  model.num_labels = 3;
}

}  // namespace lithe
