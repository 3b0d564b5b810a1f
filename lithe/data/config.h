// The section `data` of a recipe, and what it loads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lithe/base/fields.h"
#include "lithe/data/corpus.h"
#include "lithe/data/image_features.h"
#include "lithe/data/sound_features.h"
#include "lithe/data/token_store.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/truncation.h"

namespace lithe {

struct DataConfig {
  std::vector<std::string> files;             // names or shell patterns, relative to the current directory
  std::vector<std::string> validation_files;  // exclusive with validation_fraction
  double validation_fraction = 0;
  std::string text_field = "text";
  std::string messages, chat_template;  // conversations: the key of their messages, and what writes them
  std::string documents = "file";
  bool allow_invalid_utf8 = false;
  int64_t sequence_length = 256;
  Truncation truncation;  // of examples, of texts that are encoded, and of sources where these are cut
  TokenizerConfig tokenizer;
  ImageConfig image;            // of modality image
  AudioConfig audio;            // of modality audio
  Node source_tokenizer;        // translation: of the source, when it has its own
  std::string cache_directory;  // empty: $XDG_CACHE_HOME/lithe, else ~/.cache/lithe

  void fields(Fields& f);
  /// None: source and target share `tokenizer`.
  std::optional<TokenizerConfig> own_source_tokenizer() const;
};

/// What reads the modalities that the section speaks of.
FeatureReaders feature_readers(const DataConfig& config);

CorpusOptions corpus_options(const DataConfig& config);

/// The directory that `cache_directory` names, made if missing.
Path resolve_cache_directory(const std::string& cache_directory);

/// Fails (usage) where a file is in both.
void refuse_shared_files(const Corpus& train, const Corpus& validation);

struct Dataset {
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenStore train;
  std::optional<TokenStore> validation;
  bool answers = false;  // conversations: see load_conversations()
  /// Differs when the text of either part differs.
  uint64_t fingerprint() const;
};

/// Reads, splits and tokenizes the corpus of `config`. With `existing` (resuming, fine-tuning) that tokenizer is used
/// and the section `tokenizer` is not. Otherwise a BPE tokenizer is trained on the training part alone and kept in the
/// cache, so that a second call neither trains nor tokenizes. Fails on a training file that is a validation file too.
Dataset load_dataset(const DataConfig& config, std::shared_ptr<const Tokenizer> existing = nullptr);

/// tokenize_share() of the texts of `config`, as load_dataset() will ask for them.
void tokenize_share(const DataConfig& config, const Tokenizer& tokenizer, int index, int of);

/// The tokenizer of `config`, from its file or trained on the training text as load_dataset does.
std::shared_ptr<const Tokenizer> tokenizer_of(const DataConfig& config);
/// The tokenizer of a section tokenizer, trained on `texts`, which `fingerprint` identifies, when it learns from texts;
/// what was trained is kept in the cache.
std::shared_ptr<const Tokenizer> tokenizer_of(const TokenizerConfig& config, const ForEachText& texts,
                                              uint64_t fingerprint, const Path& cache_directory);

}  // namespace lithe
