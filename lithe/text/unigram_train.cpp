// Training a unigram tokenizer with SentencePiece.
#ifdef LITHE_HAVE_SENTENCEPIECE
#include <sentencepiece_trainer.h>
#endif

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/training_words.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr size_t longest_word = 1 << 16;  // bytes

std::vector<std::string> with_roles(const std::vector<std::string>& specials) {
  std::vector<std::string> all = {"<pad>", "<unk>", "<s>", "</s>"};
  all.insert(all.end(), specials.begin(), specials.end());
  return all;
}

using CountedWords = std::vector<std::pair<std::string_view, int64_t>>;

#ifdef LITHE_HAVE_SENTENCEPIECE
// SentencePiece adds up expected counts by thread, so that their number is part of the result.
constexpr const char* trainer_threads = "8";

/// Words with their counts, as the library reads them.
class Words final : public sentencepiece::SentenceIterator {
 public:
  explicit Words(CountedWords words) : words_(std::move(words)) { show(); }
  bool done() const override { return at_ == words_.size(); }
  void Next() override {
    ++at_;
    show();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  CountedWords words_;
  size_t at_ = 0;
  std::string line_;

  void show() {
    if (!done()) line_ = cat(words_[at_].first, '\t', words_[at_].second);
  }
};

std::string comma_separated(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

// The .model that SentencePiece makes of the words of `bytes` bytes of text.
std::string learnt(CountedWords words, const UnigramTraining& options, uint64_t bytes) {
  Words sentences(std::move(words));
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train({{"model_type", "unigram"},
                                                  {"vocab_size", std::to_string(options.vocab_size)},
                                                  {"input_format", "tsv"},
                                                  {"max_sentence_length", std::to_string(2 * longest_word)},
                                                  {"pad_id", "0"},
                                                  {"unk_id", "1"},
                                                  {"bos_id", "2"},
                                                  {"eos_id", "3"},
                                                  {"control_symbols", comma_separated(options.specials)},
                                                  {"num_threads", trainer_threads},
                                                  {"minloglevel", "2"}},
                                                 &sentences, &model);
  if (!status.ok()) {
    const std::string_view message = status.error_message();
    const size_t number = message.rfind("<= ");
    if (message.find("too high") != message.npos && number != message.npos)
      fail_usage("tokenizer", "vocab_size ", options.vocab_size, " is too large for the texts (", bytes,
                 " bytes): SentencePiece finds no more pieces than ",
                 message.substr(number + 3, message.find_last_of("0123456789") + 1 - number - 3),
                 "; set vocab_size to at most that, or give more text");
    if (message.find("smaller than required_chars") != message.npos)
      fail_usage("tokenizer", "vocab_size ", options.vocab_size,
                 " is too small to hold the characters of the texts: SentencePiece says: ",
                 message.substr(message.rfind("] ") + 2));
    fail("tokenizer", "training a unigram tokenizer: SentencePiece says: ", message);
  }
  return model;
}

constexpr bool kLearns = true;
#else
constexpr bool kLearns = false;  // the constructor says so
std::string learnt(CountedWords, const UnigramTraining&, uint64_t) { return {}; }
#endif

}  // namespace

struct UnigramTrainer::State : TrainingWords {
  UnigramTraining options;
};

UnigramTrainer::UnigramTrainer(UnigramTraining options) : state_(std::make_unique<State>()) {
  check_usage(kLearns, "tokenizer",
              "this lithe was built without SentencePiece (Debian's libsentencepiece-dev), which learns unigram "
              "vocabularies; build it with, or give a tokenizer of type bpe or file");
  const int64_t least = 5 + int64_t(options.specials.size());
  check_usage(options.vocab_size >= least && options.vocab_size < int64_t(1) << 24, "tokenizer",
              "vocab_size must be at least ", least, " (", least - 1, " special tokens and a character) and below ",
              1 << 24, ", got ", options.vocab_size);
  for (const std::string& special : options.specials)
    check_usage(special.find_first_of(",\"\n\r") == special.npos && is_valid_utf8(special), "tokenizer", "special '",
                special,
                "' must be UTF-8 without a comma, a quotation mark or a line end, which SentencePiece cannot take");
  state_->specials = AddedTokens(special_tokens(with_roles(options.specials)));
  state_->pretokenizer.add_split(Pattern(R"(\s)", "training"), Split::Behavior::removed);
  state_->options = std::move(options);
}
UnigramTrainer::~UnigramTrainer() = default;
UnigramTrainer::UnigramTrainer(UnigramTrainer&&) noexcept = default;
UnigramTrainer& UnigramTrainer::operator=(UnigramTrainer&&) noexcept = default;

void UnigramTrainer::add(std::string_view text) { state_->add(text); }

std::unique_ptr<Tokenizer> UnigramTrainer::train() {
  const UnigramTraining& options = state_->options;
  const WordTable<int64_t>& counts = state_->words.total();
  CountedWords words;
  for (size_t w = 0; w < counts.size(); ++w)
    if (counts.word(w).size() <= longest_word && is_valid_utf8(counts.word(w)))
      words.emplace_back(counts.word(w), counts.value(w));
  check_usage(!words.empty(), "tokenizer", "the texts (", state_->bytes, " bytes) hold no words to learn pieces from");
  std::sort(words.begin(), words.end());  // their order is that of the threads

  return parse_sentencepiece(learnt(std::move(words), options, state_->bytes), "trained tokenizer", {});
}

}  // namespace lithe
