#include "lithe/data/config.h"

#include <cstdlib>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/text/hex.h"

namespace lithe {
namespace {

// A trained tokenizer in the cache: 16 digits of checksum, a line end, tokenizer.json.
std::unique_ptr<Tokenizer> read_cached_tokenizer(const Path& path) {
  std::string bytes = read_file(path);
  check(bytes.size() > 17 && bytes[16] == '\n' &&
            bytes.substr(0, 16) == hex(checksum(bytes.data() + 17, bytes.size() - 17)),
        "tokenizer", "'", path.string(), "' is truncated or damaged");
  return parse_tokenizer(bytes.substr(17), path.string());
}

std::shared_ptr<const Tokenizer> tokenizer_of(const TokenizerConfig& config, const Corpus& corpus,
                                              const Path& cache_directory) {
  const bool learns = learns_from_texts(config);
  return tokenizer_of(
      config, [&](const std::function<void(std::string_view)>& f) { corpus.for_each_document(f); },
      learns ? corpus.fingerprint() : 0, cache_directory);
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_of(const TokenizerConfig& config, const ForEachText& texts,
                                              uint64_t fingerprint, const Path& cache_directory) {
  if (!learns_from_texts(config)) return make_tokenizer(config, texts);
  TokenizerConfig copy = config;
  // The number changes when training would give another tokenizer for the same section and text.
  const std::string facts = "1\n" + to_yaml(write_fields([&](Fields& f) { copy.fields(f); }));
  const Path path = cache_directory / (hex(checksum(facts.data(), facts.size(), fingerprint)) + "." + config.type);
  if (std::filesystem::exists(path)) {
    try {
      return read_cached_tokenizer(path);
    } catch (const Error& error) {
      log_warning(error.what(), "; training it again now");
    }
  }
  auto tokenizer = make_tokenizer(config, texts);
  if ((config.type == "bpe" || config.type == "wordpiece") && tokenizer->vocab_size() < config.vocab_size)
    log_warning("tokenizer: the texts give ", tokenizer->vocab_size(), " entries, fewer than vocab_size ",
                config.vocab_size, ": no other pair occurs ",
                config.min_frequency == 1 ? "at all" : cat(config.min_frequency, " times"));
  const std::string json = tokenizer->to_json();
  write_file(path, hex(checksum(json.data(), json.size())) + "\n" + json);
  return tokenizer;
}

void DataConfig::fields(Fields& f) {
  f("files", files,
    "texts to train on: file names or shell patterns, relative to the current directory; .jsonl is JSON lines, any "
    "other name is plain text; also .gz or .zst; CRLF ends a line like LF");
  f("validation_files", validation_files, "texts to evaluate on: file names or shell patterns, as in files");
  f("validation_fraction", validation_fraction,
    "instead of validation_files: hold out this share of the text's bytes, from its end. The held-out part begins with "
    "a document, or, in a document that is long beside it, with a line",
    between(0, 0.99));
  f("documents", documents, "what is one document in a text file (in JSONL each record is one)",
    one_of({"file", "paragraph", "line"}));
  f("text_field", text_field, "key of the text in JSONL records");
  f("messages", messages,
    "train on conversations instead of texts: the key, in JSONL records, of a list of {role, content}; the loss counts "
    "only what the assistant says");
  f("chat_template", chat_template,
    "with messages: file of a chat template (Jinja); empty: the template of from_pretrained");
  f("allow_invalid_utf8", allow_invalid_utf8,
    "keep bytes that are not valid UTF-8 instead of refusing the file (in JSONL they become U+FFFD)");
  f("sequence_length", sequence_length,
    "longest sequence in tokens; longer documents are cut into several sequences, and so is a document that does not "
    "fit into the rest of a batch",
    at_least(1));
  f.section("truncation", truncation,
            "which tokens are kept of a text of more than sequence_length tokens: in tasks and `lithe encode`; in "
            "translation for sources, with translation.cut_sources");
  f.section("tokenizer", tokenizer, "how text is cut into tokens");
  f.section("image", image, "pictures, cut into patches for model.modalities.image");
  f.section("audio", audio, "sounds, as rows of log-mel frames for model.modalities.audio");
  f.free("source_tokenizer", source_tokenizer,
         "translation: tokenizer of the source, if it has its own vocabulary; keys as in tokenizer");
  f("cache_directory", cache_directory,
    "directory of the cache of tokenized corpora; empty: $XDG_CACHE_HOME/lithe, else ~/.cache/lithe");
}

std::optional<TokenizerConfig> DataConfig::own_source_tokenizer() const {
  if (source_tokenizer.is_null() || (source_tokenizer.is_map() && source_tokenizer.entries().empty()))
    return std::nullopt;
  TokenizerConfig out;
  read_fields(source_tokenizer, "data.source_tokenizer", [&](Fields& f) { out.fields(f); });
  return out;
}

FeatureReaders feature_readers(const DataConfig& config) {
  FeatureReaders out;
  if (config.image.given()) out["image"] = image_reader(config.image, resolve_cache_directory(config.cache_directory));
  if (config.audio.given()) out["audio"] = audio_reader(config.audio);
  return out;
}

CorpusOptions corpus_options(const DataConfig& config) {
  return {
      .text_field = config.text_field, .documents = config.documents, .allow_invalid_utf8 = config.allow_invalid_utf8};
}

Path resolve_cache_directory(const std::string& cache_directory) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  Path directory = cache_directory;
  if (directory.empty()) {
    // The XDG specification ignores a relative path.
    if (const std::string cache = variable("XDG_CACHE_HOME"); Path(cache).is_absolute())
      directory = Path(cache) / "lithe";
    else if (const std::string home = variable("HOME"); !home.empty())
      directory = Path(home) / ".cache" / "lithe";
    else
      fail_usage("data",
                 "neither XDG_CACHE_HOME nor HOME is set, so there is no place for tokenized corpora; set "
                 "data.cache_directory");
  }
  try {
    make_directory(directory);
  } catch (const Error& error) {
    fail_usage("data", error.what(), "; tokenized corpora are kept there: set data.cache_directory to another place");
  }
  return directory;
}

uint64_t Dataset::fingerprint() const {
  const uint64_t parts[] = {train.fingerprint(), validation ? validation->fingerprint() : 0};
  return checksum(parts, sizeof parts);
}

std::shared_ptr<const Tokenizer> tokenizer_of(const DataConfig& config) {
  if (!learns_from_texts(config.tokenizer)) return make_tokenizer(config.tokenizer, {});
  check_usage(!config.files.empty(), "data", "a tokenizer of type ", config.tokenizer.type,
              " is learnt from text; name it in data.files, or give from_pretrained or a tokenizer of type file");
  const Corpus all(config.files, corpus_options(config));
  return tokenizer_of(config.tokenizer,
                      config.validation_fraction > 0 ? all.training_part(config.validation_fraction) : all,
                      resolve_cache_directory(config.cache_directory));
}

void refuse_shared_files(const Corpus& train, const Corpus& validation) {
  std::set<Path> trained;
  for (const auto& path : train.files()) trained.insert(std::filesystem::weakly_canonical(path));
  for (const auto& path : validation.files())
    check_usage(!trained.count(std::filesystem::weakly_canonical(path)), "data", "'", path.string(),
                "' is in data.files and in data.validation_files, so the validation loss would be of text seen in "
                "training; take it out of one");
}

namespace {

struct Corpora {
  Corpus train;
  std::optional<Corpus> validation;
};

Corpora corpora_of(const DataConfig& config) {
  check_usage(config.messages.empty(), "data", "the run learnt from conversations (data.messages), which are no text; ",
              "name text files");
  check_usage(!config.files.empty(), "data", "no texts are given; name at least one file or pattern in data.files");
  check_usage(config.validation_files.empty() || config.validation_fraction == 0, "data",
              "validation_files and validation_fraction are both given; keep one");
  const Corpus all(config.files, corpus_options(config));
  Corpora out{config.validation_fraction > 0 ? all.training_part(config.validation_fraction) : all, {}};
  if (config.validation_fraction > 0) out.validation = all.held_out_part(config.validation_fraction);
  if (!config.validation_files.empty()) {
    out.validation.emplace(config.validation_files, corpus_options(config));
    refuse_shared_files(out.train, *out.validation);
  }
  return out;
}

}  // namespace

void tokenize_share(const DataConfig& config, const Tokenizer& tokenizer, int index, int of) {
  const Path cache = resolve_cache_directory(config.cache_directory);
  const Corpora corpora = corpora_of(config);
  tokenize_share(corpora.train, tokenizer, cache, index, of);
  if (corpora.validation) tokenize_share(*corpora.validation, tokenizer, cache, index, of);
}

Dataset load_dataset(const DataConfig& config, std::shared_ptr<const Tokenizer> existing) {
  const Path cache = resolve_cache_directory(config.cache_directory);
  const auto [train, validation] = corpora_of(config);
  Dataset dataset;
  dataset.tokenizer = existing ? std::move(existing) : tokenizer_of(config.tokenizer, train, cache);
  dataset.train = load_tokens(train, *dataset.tokenizer, cache);
  if (validation) dataset.validation = load_tokens(*validation, *dataset.tokenizer, cache);
  check(dataset.train.tokens() > 0 && (!validation || dataset.validation->tokens() > 0), "data", "validation_fraction ",
        config.validation_fraction, " leaves no text on one side; choose another, or give more text");
  return dataset;
}

}  // namespace lithe
