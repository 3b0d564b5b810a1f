#include "lithe/objective/corruption.h"

#include "lithe/base/error.h"

namespace lithe {

Draws::Draws(uint64_t seed, int64_t epoch, int64_t index, const char* purpose)
    : key_{seed ^ (uint64_t(epoch) << 32), uint64_t(index), 0, purpose_of(purpose)} {}

void Draws::shuffle(std::vector<int64_t>& items) {
  for (uint64_t i = items.size(); i-- > 1;) std::swap(items[i], items[below(i + 1)]);
}

RandomTokens::RandomTokens(const Tokenizer& tokenizer) : code_(tokenizer.code()) {
  if (code_.payload != TokenCode::Payload::none) return;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (!tokenizer.is_special(id) && !tokenizer.token(id).empty()) ids_.push_back(id);
  check_usage(!ids_.empty(), "objective", "the tokenizer has no ordinary token");
}

void RandomTokens::draw(Draws& draws, int32_t* token, const Batch& batch) const {
  switch (code_.payload) {
    case TokenCode::Payload::none: *token = ids_[draws.below(ids_.size())]; return;
    case TokenCode::Payload::bits:
      for (int64_t j = 0; j < code_.size; j += 32) {
        const int64_t unused = std::max<int64_t>(0, j + 32 - code_.size);
        token[1 + j / 32] = int32_t(uint32_t(draws.below(uint64_t(1) << 32)) >> unused << unused);
      }
      return;
    case TokenCode::Payload::bucket: token[1] = int32_t(draws.below(uint64_t(code_.size))); return;
    case TokenCode::Payload::character:
    case TokenCode::Payload::features: {
      const auto width = uint64_t(batch.token_width);
      uint64_t row = 0;  // ends: the token to replace is an ordinary one of this batch
      do row = draws.below(uint64_t(batch.rows()));
      while (batch.tokens[width * row] != code_ordinary);
      for (uint64_t j = 1; j < width; ++j) token[j] = batch.tokens[width * row + j];
      return;
    }
  }
}

AlteredBatches::AlteredBatches(std::unique_ptr<BatchSource> plain, std::shared_ptr<const Tokenizer> tokenizer,
                               uint64_t seed)
    : plain_(std::move(plain)), seed_(seed), tokenizer_(std::move(tokenizer)) {}

Batch AlteredBatches::batch(int64_t epoch, int64_t index) const {
  Batch batch = plain_->batch(epoch, index);
  alter(batch, epoch, index);
  return batch;
}

}  // namespace lithe
