#include "lithe/text/code_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/text/hex.h"
#include "lithe/text/json_section.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"
#include "lithe/text/word_cache.h"

namespace lithe {
namespace {

constexpr std::array<std::string_view, code_ordinary> special_names = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};

/// What words and characters have in common: five special tokens, codes, no way back.
class CodeTokenizer : public Tokenizer {
 public:
  CodeTokenizer(TokenCode code, std::string json)
      : code_(code), json_(std::move(json)), added_(special_tokens({special_names.begin(), special_names.end()})) {
    specials_.bos = code_bos;
    specials_.pad = code_pad;
    specials_.eos = code_eos;
    specials_.unk = code_unk;
    specials_.mask = code_mask;
  }

  int64_t width() const override { return code_.width(); }
  TokenCode code() const override { return code_; }
  int64_t vocab_size() const override { return code_values; }
  const Specials& specials() const override { return specials_; }
  std::string to_json() const override { return json_; }

  std::string token(int32_t id) const override {
    check_value(id);
    return id == code_ordinary ? std::string() : std::string(special_names[size_t(id)]);
  }
  std::optional<int32_t> id(std::string_view token) const override {
    for (size_t i = 0; i < special_names.size(); ++i)
      if (special_names[i] == token) return int32_t(i);
    return {};
  }
  bool is_special(int32_t id) const override { return id >= 0 && id < code_ordinary; }
  bool continues_word(int32_t id) const override {
    check_value(id);
    return false;
  }
  std::string piece(int32_t, bool) const override { no_way_back(); }
  std::string decode(std::span<const int32_t>) const override { no_way_back(); }

 protected:
  std::vector<int32_t> encode_text(std::string_view text, bool with_specials) const override {
    std::vector<int32_t> codes;
    added_.cut(
        text, with_specials, [&](std::string_view part) { encode_part(part, codes); },
        [&](const AddedToken& token) { add_special(token.id, codes); });
    return codes;
  }
  virtual void encode_part(std::string_view text, std::vector<int32_t>& codes) const = 0;

  void add_special(int32_t value, std::vector<int32_t>& codes) const {
    codes.push_back(value);
    codes.resize(codes.size() + size_t(width() - 1));
  }

 private:
  TokenCode code_;
  std::string json_;
  AddedTokens added_;
  Specials specials_;

  static void check_value(int32_t id) {
    check(id >= 0 && id < code_values, "tokenizer", "id ", id, " is outside the ", code_values,
          " values of code[0] that a tokenizer without a vocabulary has");
  }
  [[noreturn]] static void no_way_back() {
    fail("tokenizer",
         "a tokenizer without a vocabulary (type words, characters or features) cannot turn codes into text: use it "
         "for the input of encoders, and type bpe, wordpiece or bytes where text is generated");
  }
};

class WordTokenizer final : public CodeTokenizer {
 public:
  WordTokenizer(const WordHashSettings& settings, NgramDictionary ngrams, std::string json)
      : CodeTokenizer(settings.token_code(), std::move(json)),
        cutter_(settings.lowercase),
        model_(make_word_hash(settings, std::move(ngrams))) {}
  const WordCutter& cutter() const { return cutter_; }

 protected:
  void encode_part(std::string_view text, std::vector<int32_t>& codes) const override {
    cutter_.words(text, [&](auto words) { encoder_.encode(*model_, words, codes); });
  }

 private:
  WordCutter cutter_;
  std::unique_ptr<WordModel> model_;
  WordEncoder encoder_;
};

// Code points, which an embedding of CANINE's kind hashes.
class CharacterTokenizer final : public CodeTokenizer {
 public:
  explicit CharacterTokenizer(std::string json)
      : CodeTokenizer({.payload = TokenCode::Payload::character, .size = 0x110000}, std::move(json)) {}

 protected:
  void encode_part(std::string_view text, std::vector<int32_t>& codes) const override {
    codes.reserve(codes.size() + 2 * text.size());
    for (size_t at = 0; at < text.size();) {
      const Utf8Unit unit = utf8_unit(text.substr(at));
      at += unit.length;
      if (unit.kind == Utf8Unit::Kind::character)
        codes.insert(codes.end(), {code_ordinary, int32_t(unit.code_point)});
      else
        add_special(code_unk, codes);
    }
  }
};

// Rows of numbers, written out.
class FeatureTokenizer final : public CodeTokenizer {
 public:
  FeatureTokenizer(int64_t size, std::string json)
      : CodeTokenizer({.payload = TokenCode::Payload::features, .size = size}, std::move(json)), size_(size) {}

 protected:
  void encode_part(std::string_view text, std::vector<int32_t>& codes) const override {
    constexpr std::string_view between = " \t\r\n,;";
    int64_t count = 0;
    for (size_t at = 0; (at = text.find_first_not_of(between, at)) != std::string_view::npos; ++count) {
      const std::string_view word = text.substr(at, std::min(text.find_first_of(between, at), text.size()) - at);
      float number = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      check(error == std::errc() && end == word.data() + word.size() && std::isfinite(number), "tokenizer", "number ",
            count + 1, " of a text is '", word.substr(0, 40),
            "'; type features reads finite numbers of f32 between spaces, commas or semicolons");
      if (count % size_ == 0) codes.push_back(code_ordinary);
      codes.push_back(code_of_number(number));
      at += word.size();
    }
    check(count % size_ == 0, "tokenizer", "a text has ", count, " numbers, which are no whole tokens of ", size_,
          "; data.tokenizer.num_features says how many make a token");
  }

 private:
  int64_t size_;
};

std::unique_ptr<Tokenizer> word_tokenizer(const WordHashSettings& settings, NgramDictionary ngrams, std::string json) {
  return std::make_unique<WordTokenizer>(settings, std::move(ngrams), std::move(json));
}

// ---- the file

using Tree = JsonSection::Tree;
constexpr int64_t file_version = 1;

/// The value of one key of the settings, in the file.
Json value_of(const WordHashSettings& s, const std::string& key) {
  if (key == "lowercase") return s.lowercase;
  if (key == "hash") return s.hash;
  if (key == "code") return s.code;
  if (key == "bits") return s.bits;
  if (key == "num_buckets") return s.num_buckets;
  if (key == "key") return s.key;
  if (key == "ngram_vocab_size") return s.ngram_vocab_size;
  if (key == "ngram_max") return s.ngram_max;
  return s.hash_seed;
}

/// The object of the file that the checksum begins with: all settings, in a fixed order.
Json header_of(const char* type) { return {{"type", type}, {"version", file_version}}; }
Json header_of_words(const WordHashSettings& settings, const std::string& unicode) {
  Json header = header_of("words");
  header["unicode"] = unicode;
  for (const std::string& key : settings.used_keys()) header[key] = value_of(settings, key);
  return header;
}
Json header_of_features(int64_t size) {
  Json header = header_of("features");
  header["num_features"] = size;
  return header;
}

uint64_t checksum_of(const std::string& header, const NgramDictionary& ngrams) {
  uint64_t print = checksum(header.data(), header.size());
  for (const std::string& ngram : ngrams.ngrams()) print = checksum(ngram.data(), ngram.size(), print);
  return print;
}

/// `extra`: further keys between header and checksum.
std::string file_json(const std::string& header, const std::string& extra = {}, const NgramDictionary& ngrams = {}) {
  return "{\n  \"" + std::string(code_tokenizer_key) + "\": " + header + extra + ",\n  \"checksum\": \"" +
         hex(checksum_of(header, ngrams)) + "\"\n}\n";
}

std::string file_json_of_words(const WordHashSettings& settings, const NgramDictionary& ngrams) {
  std::string list, extra;
  for (const std::string& ngram : ngrams.ngrams()) list += (list.empty() ? "\n    " : ",\n    ") + dump(Json(ngram));
  if (settings.hash == "lsh") {
    extra += ",\n  \"ngrams\": [" + list + (list.empty() ? "]" : "\n  ]");
    extra += ",\n  \"drawn\": \"" + hex(hash_probe(settings)) + "\"";
  }
  return file_json(dump(header_of_words(settings, unicode_version())), extra, ngrams);
}

void check_role(const Role& role, const char* key, std::optional<std::string_view> name, const std::string& origin) {
  if (!role.stated || role.token == name) return;
  fail("tokenizer", "'", origin, "': ", key, " is stated as '", role.token.value_or("null"),
       "', but a tokenizer without a vocabulary has ", name.value_or("none"), " there");
}

WordHashSettings read_settings(const JsonSection& section) {
  WordHashSettings s;
  // The two that say which others there are come first.
  s.hash = section.text("hash");
  s.code = section.text("code");
  for (const std::string& key : s.used_keys())
    check(section.has(key.c_str()), "tokenizer", section.place(key.c_str()), " is missing");
  s.lowercase = section.flag("lowercase", s.lowercase);
  s.bits = section.integer("bits", s.bits);
  s.num_buckets = section.integer("num_buckets", s.num_buckets);
  s.key = section.optional_text("key").value_or("");
  s.ngram_vocab_size = section.integer("ngram_vocab_size", s.ngram_vocab_size);
  s.ngram_max = section.integer("ngram_max", s.ngram_max);
  s.hash_seed = section.integer("hash_seed", s.hash_seed);
  s.validate();
  return s;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_code_tokenizer(const JsonSection& root, std::string json, const std::string& origin,
                                                const Roles& roles) {
  const JsonSection header = root.section(code_tokenizer_key);
  const int64_t version = header.integer("version", 0);
  check(version == file_version, "tokenizer", header.place("version"), " is ", version, ", this program reads ",
        file_version, ": hashes could differ, so the model needs the program that made it");
  const std::string type = header.type();
  check(type == "words" || type == "characters" || type == "features", "tokenizer", header.place("type"),
        " must be words, characters or features, got '", type, "'");
  const bool words = type == "words";
  WordHashSettings settings;
  NgramDictionary ngrams;
  if (words) settings = read_settings(header);
  const bool lsh = words && settings.hash == "lsh";
  check(root.has("ngrams") == lsh && root.has("drawn") == lsh, "tokenizer", root.place(),
        lsh ? " must have ngrams and drawn" : " has ngrams or drawn, which only belong to hash lsh");
  if (lsh) {
    const Tree& list = root.list("ngrams");
    check(int64_t(list.size()) <= settings.ngram_vocab_size, "tokenizer", root.place("ngrams"), " has ", list.size(),
          " entries, above ngram_vocab_size ", settings.ngram_vocab_size);
    std::vector<std::string> entries;
    for (size_t i = 0; i < list.size(); ++i) {
      check(list[i].is_string(), "tokenizer", root.place("ngrams"), "[", i, "] must be text, got ",
            list[i].type_name());
      entries.push_back(list[i].get<std::string>());
    }
    ngrams = NgramDictionary(settings.ngram_max, std::move(entries));
  }
  const std::string unicode = words ? header.text("unicode") : std::string();
  const int64_t features = type == "features" ? header.integer("num_features", 0) : 0;
  check(type != "features" || features >= 1, "tokenizer", header.place("num_features"), " must be at least 1, got ",
        features);
  const std::string canonical = dump((words                ? header_of_words(settings, unicode)
                                      : type == "features" ? header_of_features(features)
                                                           : header_of("characters")));
  check(header.has("type") && Tree::parse(canonical) == root.value(code_tokenizer_key), "tokenizer", header.place(),
        " must hold exactly the keys of ", canonical);
  const std::string expected = hex(checksum_of(canonical, ngrams));
  check(root.text("checksum") == expected, "tokenizer", root.place("checksum"), " is '", root.text("checksum"),
        "', the content has '", expected,
        "': the file was changed or damaged, and words would get other codes than in training");
  if (lsh) {
    const std::string drawn = hex(hash_probe(settings));
    check(root.text("drawn") == drawn, "tokenizer", root.place("drawn"), " is '", root.text("drawn"),
          "', this machine draws '", drawn, "' from hash_seed: words would get other codes than in training");
  }
  if (words && unicode != unicode_version())
    log_warning("tokenizer: ", root.place(), " was made with Unicode ", unicode, ", this program has ",
                unicode_version(), ": words with characters that are newer than one of them may get other codes");
  check_role(roles.bos, "bos_token", special_names[code_bos], origin);
  check_role(roles.pad, "pad_token", special_names[code_pad], origin);
  check_role(roles.eos, "eos_token", special_names[code_eos], origin);
  check_role(roles.unk, "unk_token", special_names[code_unk], origin);
  check_role(roles.mask, "mask_token", special_names[code_mask], origin);
  check_role(roles.cls, "cls_token", {}, origin);
  check_role(roles.sep, "sep_token", {}, origin);
  if (words) return word_tokenizer(settings, std::move(ngrams), std::move(json));
  if (features) return std::make_unique<FeatureTokenizer>(features, std::move(json));
  return std::make_unique<CharacterTokenizer>(std::move(json));
}

std::unique_ptr<Tokenizer> make_word_tokenizer(const WordHashSettings& settings, NgramDictionary ngrams) {
  settings.validate();
  check(settings.hash == "lsh" || ngrams.ngrams().empty(), "tokenizer", "hash ", settings.hash, " takes no n-grams");
  std::string json = file_json_of_words(settings, ngrams);
  return word_tokenizer(settings, std::move(ngrams), std::move(json));
}

std::unique_ptr<Tokenizer> make_character_tokenizer() {
  return std::make_unique<CharacterTokenizer>(file_json(dump(header_of("characters"))));
}

std::unique_ptr<Tokenizer> make_feature_tokenizer(int64_t size) {
  check_usage(size >= 1, "tokenizer", "type features needs num_features, how many numbers a token is, at least 1; got ",
              size);
  return std::make_unique<FeatureTokenizer>(size, file_json(dump(header_of_features(size))));
}

void NgramTrainer::add(std::string_view text) {
  cutter_.words(text, [&](auto words) {
    for (const std::string_view word : words) ++counts_.insert(word);
  });
}

bool is_word_tokenizer(const Tokenizer& tokenizer) { return dynamic_cast<const WordTokenizer*>(&tokenizer) != nullptr; }

std::vector<std::string> distinct_words(const Tokenizer& tokenizer, std::string_view text) {
  const auto* words = dynamic_cast<const WordTokenizer*>(&tokenizer);
  check(words != nullptr, "tokenizer", "words and their codes exist for type words only");
  WordTable<bool> seen;
  words->cutter().words(text, [&](auto cut) {
    for (const std::string_view word : cut) seen.insert(word) = true;
  });
  std::vector<std::string> out;
  for (size_t w = 0; w < seen.size(); ++w) out.emplace_back(seen.word(w));
  return out;
}

std::vector<std::string> token_texts(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> out;
  if (const auto* words = dynamic_cast<const WordTokenizer*>(&tokenizer)) {
    words->cutter().words(text, [&](auto cut) { out.insert(out.end(), cut.begin(), cut.end()); });
    return out;
  }
  check(dynamic_cast<const CharacterTokenizer*>(&tokenizer) != nullptr, "tokenizer",
        "tokens of a vocabulary are spelt by it; token() and piece() say how");
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_unit(text.substr(at)).length;
    out.emplace_back(text.substr(at, length));
    at += length;
  }
  return out;
}

}  // namespace lithe
