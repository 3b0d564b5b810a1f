// Conversations to learn answers from: JSONL of messages, as the model's chat template writes them.
#pragma once

#include "lithe/base/json.h"
#include "lithe/data/config.h"
#include "lithe/eval/chat_template.h"

namespace lithe {

/// A conversation as tokens, and which of them are learnt: those that the template writes from where the assistant
/// answers to where its turn ends.
struct Conversation {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learnt;  // of each token, 1 or 0
};

/// `messages` as the template writes them. Texts are tokenised piece by piece, cut where answers begin and end, as they
/// are when a model answers. Fails (usage) on messages that are none, without an answer, or whose template writes the
/// beginning of a conversation otherwise once it goes on; `where` stands in errors.
Conversation conversation_of(const Json& messages, const ChatTemplate& chat, const Tokenizer& tokenizer,
                             const std::string& where);

/// The conversations of the section data (keys files, validation_files, validation_fraction, messages, chat_template).
/// Ids of what is learnt are raised by the vocabulary's size, which AnswersOnly takes off. With `existing` that
/// tokenizer is used. The held-out fraction is the last one of the conversations.
Dataset load_conversations(const DataConfig& config, std::shared_ptr<const Tokenizer> existing);

/// Batches of such stores: the ids as they are, and labels only where the next one is learnt.
class AnswersOnly final : public BatchSource {
 public:
  AnswersOnly(std::unique_ptr<BatchSource> of, int64_t vocab_size) : of_(std::move(of)), vocab_size_(vocab_size) {}
  int64_t batches_per_epoch() const override { return of_->batches_per_epoch(); }
  int64_t largest_batch() const override { return of_->largest_batch(); }
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  std::unique_ptr<BatchSource> of_;
  int64_t vocab_size_;
};

}  // namespace lithe
