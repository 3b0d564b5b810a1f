// Tokenizers: text to tokens and back. Stored as a Hugging Face tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/base/random.h"
#include "lithe/base/token_code.h"
#include "lithe/text/segmentation.h"
#include "lithe/text/word_hash.h"

namespace lithe {

class Fields;

/// Ids of the tokens with a role; absent when the tokenizer has none. Without a vocabulary they are values of code[0].
struct Specials {
  std::optional<int32_t> bos, eos, pad, unk;
  std::optional<int32_t> cls, sep, mask;
};

/// Immutable; every method may be called from many threads at once.
///
/// A token is an id, or, without a vocabulary (width() above 1), a code of width() ints: see token_code.h. Where the
/// methods below speak of an id, it is then code[0]; codes cannot be decoded, as a hash has no way back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ints of one token.
  virtual int64_t width() const { return 1; }
  /// What these ints are.
  virtual TokenCode code() const { return {}; }

  /// Ids of `text` (width() ints a token), which may hold any bytes. A special token's string in the text is plain
  /// text. Nothing is added around it (no bos, no [CLS]). Big texts are split over threads; the result does not depend
  /// on how.
  std::vector<int32_t> encode(std::string_view text) const { return encode_text(text, false); }
  /// The same, but a special token's string becomes that token.
  std::vector<int32_t> encode_with_specials(std::string_view text) const { return encode_text(text, true); }

  /// Ids of `text` cut at random, for training; encode() when how.off(). A pure function of the tokenizer, `text`,
  /// `how` and `key`, whose stream it uses from element 0 on: give every text its own key (its number in the corpus or
  /// the step, with a purpose of your own). Works in the calling thread; meant for sentences. Fails, as wrong usage,
  /// when this tokenizer cannot be sampled so: dropout needs a BPE, all else a unigram tokenizer.
  virtual std::vector<int32_t> sample(std::string_view text, const SegmentationSampling& how,
                                      const RandomKey& key) const;

  /// Text of `ids`. Byte-level tokenizers return the bytes that were encoded, exactly. A special token decodes to its
  /// string; an id without a token (a gap in the vocabulary) to nothing. Fails on an id outside [0, vocab_size).
  virtual std::string decode(std::span<const int32_t> ids) const;
  /// What one id adds to the text; `first` says that nothing stands before it.
  virtual std::string piece(int32_t id, bool first) const = 0;

  /// One more than the largest id.
  virtual int64_t vocab_size() const = 0;
  /// The vocabulary's own spelling of a token ("Ġthe", "##ing"); empty for a gap. Fails as decode does.
  virtual std::string token(int32_t id) const = 0;
  /// Id of the token spelt so.
  virtual std::optional<int32_t> id(std::string_view token) const = 0;
  /// True for control tokens such as <|endoftext|>, which encode() never returns.
  virtual bool is_special(int32_t id) const = 0;
  /// True for a token that goes on with the word before it: "##ing", in byte-level BPE one without white space at its
  /// start. False for special and added tokens. The first token of a text starts a word whatever this says. Fails as
  /// decode does.
  virtual bool continues_word(int32_t id) const = 0;
  virtual const Specials& specials() const = 0;

  /// A Hugging Face tokenizer.json; a loaded one is returned byte for byte.
  virtual std::string to_json() const = 0;
  /// Checksum of to_json() and the roles in specials().
  uint64_t fingerprint() const;

 protected:
  virtual std::vector<int32_t> encode_text(std::string_view text, bool with_specials) const = 0;
};

/// The pre-tokenizer of GPT-2: merges never cross the pieces this pattern cuts.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view end_of_text = "<|endoftext|>";

/// Ids 0 to 255 are the bytes, 256 is <|endoftext|>, which is both bos and eos.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

struct BpeTraining {
  int64_t vocab_size = 8192;                                       // specials and the 256 bytes included
  int64_t min_frequency = 2;                                       // pairs seen less often are not merged
  std::vector<std::string> specials = {std::string(end_of_text)};  // ids 0, 1, ...
};

/// Learns a byte-level BPE from texts. Ids: specials, the 256 bytes in the order of their spelling, merges as learned.
/// Roles are found by the usual names; where none of the specials is known to end a text, the first is bos and eos.
/// The result depends on the texts alone, not on their order, their cutting into calls or the number of threads
/// (but a text never shares a word with the next one).
class BpeTrainer {
 public:
  explicit BpeTrainer(BpeTraining options = {});
  ~BpeTrainer();
  BpeTrainer(BpeTrainer&&) noexcept;
  BpeTrainer& operator=(BpeTrainer&&) noexcept;

  /// Counts the words of one text. Strings of special tokens cut the text and are not counted.
  void add(std::string_view text);
  /// Learns the merges. Stops early when no pair is frequent enough. Polls stop_signal() and fails when one came.
  std::unique_ptr<Tokenizer> train();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::unique_ptr<Tokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& options = {});

struct WordPieceTraining {
  int64_t vocab_size = 8192;  // specials and single characters included
  int64_t min_frequency = 2;  // pairs seen less often are not merged
  std::vector<std::string> specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};  // ids 0, 1, ...; [UNK] is needed
};

/// Learns a WordPiece with BERT's normalizer (lower case, no accents) and pre-tokenizer. Merges are taken by frequency,
/// as Hugging Face's trainer does, not by likelihood; of equals the lexicographically greatest pair. Ids: specials, the
/// 1000 most frequent characters, the same where they continue a word ("##a"), merges as learned. The result depends
/// on the texts alone, as with BpeTrainer.
class WordPieceTrainer {
 public:
  explicit WordPieceTrainer(WordPieceTraining options = {});
  ~WordPieceTrainer();
  WordPieceTrainer(WordPieceTrainer&&) noexcept;
  WordPieceTrainer& operator=(WordPieceTrainer&&) noexcept;

  /// Counts the words of one text. Strings of special tokens cut the text and are not counted.
  void add(std::string_view text);
  /// Learns the pieces; otherwise as BpeTrainer::train().
  std::unique_ptr<Tokenizer> train();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct UnigramTraining {
  int64_t vocab_size = 8192;          // <pad>, <unk>, <s>, </s>, specials and single characters included
  std::vector<std::string> specials;  // further special tokens, ids 4, 5, ...
};

/// Learns a unigram tokenizer with SentencePiece, as its own program does without options: rules nmt_nfkc, words cut at
/// white space, characters that make up 99.95 % of the texts. Ids: <pad>, <unk>, <s>, </s>, specials, pieces by falling
/// probability. The result depends on the texts alone, as with BpeTrainer.
class UnigramTrainer {
 public:
  explicit UnigramTrainer(UnigramTraining options = {});
  ~UnigramTrainer();
  UnigramTrainer(UnigramTrainer&&) noexcept;
  UnigramTrainer& operator=(UnigramTrainer&&) noexcept;

  /// Counts the words of one text. Strings of special tokens cut the text and are not counted.
  void add(std::string_view text);
  /// Learns the pieces. Fails, as wrong usage, when vocab_size is too small or too large for the texts.
  std::unique_ptr<Tokenizer> train();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Loads a tokenizer.json, a SentencePiece model (*.model), a vocab.txt (WordPiece of BERT, lower case), or a directory
/// with tokenizer.json, or vocab.json and merges.txt (GPT-2), or vocab.txt, or tokenizer.model, or spiece.model. A
/// tokenizer_config.json beside them names the roles of Specials; without it they are found by their usual names. Fails
/// on anything malformed or unsupported, naming it.
std::unique_ptr<Tokenizer> load_tokenizer(const Path& file_or_directory);
/// The same from the text of a tokenizer.json; `origin` stands in errors.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin);

/// Writes tokenizer.json and tokenizer_config.json (the roles) into a directory, as Hugging Face reads them.
void save_tokenizer(const Tokenizer& tokenizer, const Path& directory);

/// Those of a model.
struct Tokenizers {
  std::shared_ptr<const Tokenizer> tokenizer, source;  // source: of an encoder-decoder, may be the same; else null
};
/// Loads those of a run directory: the source's own stands in its folder source/, if it has one.
Tokenizers load_tokenizers(const Path& directory);
void save_tokenizers(const Tokenizers& tokenizers, const Path& directory);

/// Recipe section data.tokenizer.
struct TokenizerConfig {
  std::string type = "bytes";
  int64_t vocab_size = 8192;
  int64_t min_frequency = 2;
  std::vector<std::string> specials;
  std::string file;
  int64_t num_features = 0;
  WordHashSettings words;
  void fields(Fields& f);
  /// What its tokens hold; of type file, as an id.
  TokenCode token_code() const;
};

/// Calls its argument once per text of the corpus.
using ForEachText = std::function<void(const std::function<void(std::string_view)>&)>;

/// The tokenizer of a recipe. `texts` is only used when learns_from_texts(). Fails on a key that the type does not use.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config, const ForEachText& texts);
/// True when the tokenizer depends on the corpus: a BPE, a WordPiece, the n-grams of lsh.
bool learns_from_texts(const TokenizerConfig& config);

/// Decodes ids as they come, for generation: returns complete UTF-8 characters only. Bytes that are no UTF-8 become
/// U+FFFD, as in valid_utf8() of utf8.h.
class StreamDecoder {
 public:
  /// `first`: nothing stands before the first id. After a prompt that must be false, or the space between is lost.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool first = true) : tokenizer_(&tokenizer), first_(first) {}
  std::string push(int32_t id);
  /// What is left at the end of the text; the decoder is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool first_;
};

}  // namespace lithe
