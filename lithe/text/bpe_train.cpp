// Training a byte-level BPE.
#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/merge_learner.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/training_words.h"

namespace lithe {
struct BpeTrainer::State : TrainingWords {
  BpeTraining options;
};

BpeTrainer::BpeTrainer(BpeTraining options) : state_(std::make_unique<State>()) {
  const int64_t least = 256 + int64_t(options.specials.size());
  check_usage(options.vocab_size >= least, "tokenizer", "vocab_size must be at least ", least, " (256 bytes and ",
              counted(int64_t(options.specials.size()), "special token"), "), got ", options.vocab_size);
  check_usage(options.vocab_size < int64_t(1) << 24, "tokenizer", "vocab_size must be below ", 1 << 24, ", got ",
              options.vocab_size);
  check_usage(options.min_frequency >= 1, "tokenizer", "min_frequency must be at least 1, got ", options.min_frequency);
  state_->specials = AddedTokens(special_tokens(options.specials));
  state_->pretokenizer.add_split(Pattern(gpt2_pattern, "training"));
  state_->options = std::move(options);
}
BpeTrainer::~BpeTrainer() = default;
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer& BpeTrainer::operator=(BpeTrainer&&) noexcept = default;

void BpeTrainer::add(std::string_view text) { state_->add(text); }

// spec: tok.bpe | tokenizer | byte-level BPE by frequency; of equals the lexicographically greatest pair | TB 6.4.8
std::unique_ptr<Tokenizer> BpeTrainer::train() {
  const BpeTraining& options = state_->options;
  const int64_t wanted = options.vocab_size - 256 - int64_t(options.specials.size());
  std::vector<std::string> bytes_as_text;
  for (int b = 0; b < 256; ++b) bytes_as_text.push_back(std::string(1, char(b)));
  MergeLearner learner(std::move(bytes_as_text), 0);
  const WordTable<int64_t>& words = state_->words.total();
  std::vector<int32_t> symbols;
  for (size_t w = 0; w < words.size(); ++w) {
    const std::string_view word = words.word(w);
    symbols.clear();
    for (const char c : word) symbols.push_back(uint8_t(c));
    learner.add(symbols, words.value(w));
  }
  learner.learn(wanted, options.min_frequency);

  BpeDescription description;
  description.added = state_->specials.tokens();
  for (const std::string& special : options.specials) description.vocabulary.push_back(special);
  for (int i = 0; i < 256; ++i)
    description.vocabulary.push_back(spell_bytes(learner.tokens()[byte_in_spelling_order(i)]));
  for (size_t t = 256; t < learner.tokens().size(); ++t)
    description.vocabulary.push_back(spell_bytes(learner.tokens()[t]));
  for (const auto& [left, right] : learner.merges())
    description.merges.push_back(
        {spell_bytes(learner.tokens()[size_t(left)]), spell_bytes(learner.tokens()[size_t(right)])});
  Roles roles;
  if (!names_end_of_text(options.specials))
    roles.bos = roles.eos = {.stated = true,
                             .token = options.specials.empty() ? std::nullopt : std::optional(options.specials[0])};
  return parse_tokenizer(byte_level_bpe_json(description), "trained tokenizer", roles);
}

std::unique_ptr<Tokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& options) {
  BpeTrainer trainer(options);
  for (const std::string_view text : texts) trainer.add(text);
  return trainer.train();
}

}  // namespace lithe
