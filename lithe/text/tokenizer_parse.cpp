// tokenizer.json to the parts of a tokenizer. What is not supported is refused by name.
#include <unordered_set>

#include "lithe/base/log.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/json_section.h"
#include "lithe/text/pipeline_tokenizer.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer_roles.h"

namespace lithe {
namespace {

using Tree = JsonSection::Tree;

constexpr int64_t most_entries = 1 << 24;
constexpr size_t most_steps = 64;

[[noreturn]] void unsupported(const std::string& place, const std::string& what) {
  fail("tokenizer", place, ": '", what, "' is not supported");
}

/// Calls f for the section itself, or for each of those in its list when it is a Sequence.
template <class F>
void for_each_step(const JsonSection& section, const char* list, F&& f) {
  if (section.is_null()) return;
  if (section.type() != "Sequence") return f(section);
  const Tree& steps = section.list(list);
  check(steps.size() <= most_steps, "tokenizer", section.place(list), " has ", steps.size(),
        " steps, above the limit of ", most_steps);
  for (size_t i = 0; i < steps.size(); ++i)
    for_each_step(JsonSection(steps[i], cat(section.place(list), "[", i, "]")), list, f);
}

Pattern pattern_of(const JsonSection& section) {
  const JsonSection pattern = section.section("pattern");
  if (const auto expression = pattern.optional_text("Regex")) return Pattern(*expression, pattern.place());
  const std::string text = pattern.text("String");
  check(!text.empty(), "tokenizer", pattern.place(), ": the string is empty");
  return Pattern::literal(text, pattern.place());
}

void replace(std::string& out, std::string_view text, const Pattern& pattern, const std::string& content) {
  size_t done = 0, from = 0, begin = 0, end = 0;
  while (from < text.size() && pattern.find(text, from, begin, end)) {
    if (end == begin) {
      from = begin + 1;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    out += text.substr(done, begin - done);
    out += content;
    check_growth(text.size(), out.size());
    done = from = end;
  }
  out += text.substr(done);
}

// ---- normalizer

void add_normalizer(const JsonSection& step, Normalizer& normalizer) {
  const std::string type = step.type();
  const auto form = [&](NormalForm f) { normalizer.add([f](std::string_view text) { return normal_form(text, f); }); };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return normalizer.add(lower_case());
  if (type == "StripAccents") return normalizer.add(strip_marks());
  if (type == "BertNormalizer") {
    BertNormalization options;
    options.clean_text = step.flag("clean_text", true);
    options.chinese = step.flag("handle_chinese_chars", true);
    options.lowercase = step.flag("lowercase", true);
    options.strip_accents = step.flag("strip_accents", options.lowercase);
    return normalizer.add(bert_normalization(options));
  }
  if (type == "Prepend")
    return normalizer.add([prefix = step.text("prepend")](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    });
  if (type == "Replace")
    return normalizer.add([pattern = pattern_of(step), content = step.text("content")](std::string_view text) {
      std::string out;
      replace(out, text, pattern, content);
      return out;
    });
  unsupported(step.place("type"), type);
}

// ---- pre-tokenizer

Split::Behavior behavior_of(const JsonSection& step) {
  const std::string name = step.text("behavior");
  using B = Split::Behavior;
  if (name == "Isolated") return B::isolated;
  if (name == "Removed") return B::removed;
  if (name == "MergedWithPrevious") return B::merged_with_previous;
  if (name == "MergedWithNext") return B::merged_with_next;
  if (name == "Contiguous") return B::contiguous;
  unsupported(step.place("behavior"), name);
}

/// Adds a step; true when it is the one that goes on to bytes.
bool add_pretokenizer(const JsonSection& step, PreTokenizer& pretokenizer) {
  const std::string type = step.type();
  if (type == "ByteLevel") {
    if (step.flag("add_prefix_space", true)) pretokenizer.add_prefix_space();
    if (step.flag("use_regex", true)) pretokenizer.add_split(Pattern(gpt2_pattern, step.place()));
    return true;
  }
  if (type == "Split") {
    pretokenizer.add_split(pattern_of(step), behavior_of(step), step.flag("invert", false));
  } else if (type == "Digits") {
    pretokenizer.add_split(Pattern(R"(\p{N})", step.place()), step.flag("individual_digits", false)
                                                                  ? Split::Behavior::isolated
                                                                  : Split::Behavior::contiguous);
  } else if (type == "Punctuation") {
    pretokenizer.add_split(Pattern(punctuation_pattern, step.place()),
                           step.has("behavior") ? behavior_of(step) : Split::Behavior::isolated);
  } else if (type == "WhitespaceSplit") {
    pretokenizer.add_split(Pattern(R"(\s)", step.place()), Split::Behavior::removed);
  } else if (type == "BertPreTokenizer") {
    pretokenizer.add_bert();
  } else {
    unsupported(step.place("type"), type);
  }
  return false;
}

// ---- model

void read_vocabulary(const JsonSection& model, Vocabulary& vocabulary) {
  const Tree& vocab = model.value("vocab");
  check(vocab.is_object() && !vocab.empty(), "tokenizer", model.place("vocab"),
        " must be an object of tokens and ids, got ", vocab.empty() ? "nothing" : vocab.type_name());
  const std::string place = model.place("vocab");
  for (const auto& entry : vocab.items()) vocabulary.add(entry.key(), JsonSection::integer_of(entry.value(), place));
}

/// "left right", or ["left", "right"].
std::pair<std::string, std::string> merge_of(const Tree& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.is_string() ? merge.get<std::string>() : std::string();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Merge> read_merges(const JsonSection& model, const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  const Tree& list = model.list("merges");
  const std::string place = model.place("merges");
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [left, right] = merge_of(list[i]);
    check(!left.empty() && !right.empty(), "tokenizer", place, "[", i,
          "] must be two tokens with one space between, or a list of two");
    const auto id = [&](const std::string& token) {
      const auto found = vocabulary.find(token);
      check(found.has_value(), "tokenizer", place, "[", i, "]: token '", token, "' is not in the vocabulary");
      return *found;
    };
    merges.push_back({id(left), id(right), id(left + right)});
  }
  return merges;
}

std::optional<int32_t> unk_of(const JsonSection& model, const Vocabulary& vocabulary) {
  const auto unk = model.optional_text("unk_token");
  if (!unk) return {};
  const auto id = vocabulary.find(*unk);
  check(id.has_value(), "tokenizer", model.place("unk_token"), ": '", *unk, "' is not in the vocabulary");
  return id;
}

void read_bpe(const JsonSection& model, bool byte_level, TokenizerParts& parts) {
  const Tree& dropout = model.value("dropout");
  if (!dropout.is_null() && dropout != 0.0) unsupported(model.place("dropout"), dump(dropout));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = model.optional_text(key); text && !text->empty()) unsupported(model.place(key), *text);

  BpeOptions options;
  options.byte_level = byte_level;
  options.ignore_merges = model.flag("ignore_merges", false);
  options.byte_fallback = model.flag("byte_fallback", false);
  options.fuse_unk = model.flag("fuse_unk", false);
  options.unk = unk_of(model, *parts.vocabulary);
  parts.specials.unk = options.unk;
  if (byte_level) {
    int missing = 0;
    for (int b = 0; b < 256; ++b) missing += !parts.vocabulary->find(spell_bytes(std::string(1, char(b))));
    if (missing > 0)
      log_warning("tokenizer: ", model.place("vocab"), " has no token for ", missing, " of the 256 bytes: they are ",
                  options.unk ? "encoded as unk" : "left out", " when text holds them");
  }
  parts.model = make_bpe_model(*parts.vocabulary, read_merges(model, *parts.vocabulary), options);
}

void read_wordpiece(const JsonSection& model, TokenizerParts& parts) {
  parts.specials.unk = unk_of(model, *parts.vocabulary);
  check(parts.specials.unk.has_value(), "tokenizer", model.place("unk_token"), " is required for WordPiece");
  const int64_t longest = model.integer("max_input_chars_per_word", 100);
  check(longest >= 1, "tokenizer", model.place("max_input_chars_per_word"), " must be at least 1, got ", longest);
  parts.model = make_wordpiece_model(*parts.vocabulary, model.optional_text("continuing_subword_prefix").value_or("##"),
                                     longest, *parts.specials.unk);
}

// ---- decoder and added tokens

Decoding read_decoder(const JsonSection& decoder, bool byte_level, bool word_piece) {
  Decoding decoding;
  if (byte_level) {
    for_each_step(decoder, "decoders", [](const JsonSection& step) {
      if (step.type() != "ByteLevel") unsupported(step.place("type"), step.type());
    });
    return decoding;
  }
  if (word_piece) {
    decoding.kind = Decoding::Kind::word_piece;
    if (decoder.is_null()) return decoding;
    if (decoder.type() != "WordPiece") unsupported(decoder.place("type"), decoder.type());
    decoding.prefix = decoder.optional_text("prefix").value_or("##");
    decoding.cleanup = decoder.flag("cleanup", true);
    return decoding;
  }
  // Characters with U+2581 for spaces, as SentencePiece writes them.
  decoding.kind = Decoding::Kind::metaspace;
  check(!decoder.is_null(), "tokenizer", decoder.place(), ": BPE over characters without a decoder is not supported");
  for_each_step(decoder, "decoders", [&](const JsonSection& step) {
    const std::string type = step.type();
    if (type == "Strip") {
      if (step.text("content") != " " || step.integer("stop", 0) != 0 || step.integer("start", 0) > 1)
        unsupported(step.place(), "Strip of anything but one space at the start");
      decoding.strip_start = step.integer("start", 0) == 1;
    } else if (type == "Replace") {
      if (step.section("pattern").text("String") != "\u2581" || step.text("content") != " ")
        unsupported(step.place(), "Replace of anything but U+2581 by a space");
    } else if (type != "ByteFallback" && type != "Fuse") {
      unsupported(step.place("type"), type);
    }
  });
  return decoding;
}

std::vector<AddedToken> read_added(const JsonSection& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  std::unordered_set<int32_t> seen;
  if (!root.has("added_tokens")) return added;
  const Tree& list = root.list("added_tokens");
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonSection entry(list[i], cat(root.place("added_tokens"), "[", i, "]"));
    AddedToken token;
    token.content = entry.text("content");
    check(!token.content.empty(), "tokenizer", entry.place("content"), " is empty");
    const int64_t id = entry.integer("id", -1);
    vocabulary.add(token.content, id);
    token.id = int32_t(id);
    token.special = entry.flag("special", false);
    token.single_word = entry.flag("single_word", false);
    token.lstrip = entry.flag("lstrip", false);
    token.rstrip = entry.flag("rstrip", false);
    token.normalized = entry.flag("normalized", !token.special);
    check(seen.insert(token.id).second, "tokenizer", entry.place(), ": token '", token.content, "' stands there twice");
    added.push_back(std::move(token));
  }
  return added;
}

size_t size_of(const Tree& value) { return value.is_object() || value.is_array() ? value.size() : 0; }

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin, const Roles& roles) {
  TokenizerParts parts;
  const Tree tree = parse_json_sorted(json, origin);
  check(tree.is_object(), "tokenizer", "'", origin, "' must hold an object, got ", tree.type_name());
  const JsonSection root(tree, "'" + origin + "'");
  if (root.section(code_tokenizer_key).value("type") == sentencepiece_type)
    return parse_sentencepiece_json(root, std::move(json), origin, roles);
  if (root.states(code_tokenizer_key)) return parse_code_tokenizer(root, std::move(json), origin, roles);
  check(root.has("model"), "tokenizer", root.place("model"), " is missing: this is no tokenizer.json");
  const JsonSection model = root.section("model");
  for (const char* key : {"truncation", "padding"})
    if (root.has(key))
      log_info("tokenizer: ", root.place(key), " is left to who makes batches; encoding neither cuts nor pads");

  const size_t entries = size_of(model.value("vocab")) + size_of(root.value("added_tokens"));
  check(int64_t(entries) <= most_entries, "tokenizer", root.place(), " has ", entries, " tokens, above the limit of ",
        most_entries);
  // Files from before the models had a type are told apart by their merges, as Hugging Face does.
  const std::string type = model.has("type") ? model.type() : model.has("merges") ? "BPE" : "WordPiece";
  check(type != "Unigram", "tokenizer", model.place("type"),
        ": 'Unigram' is not supported here: load the SentencePiece .model that this file was made from");
  if (type != "BPE" && type != "WordPiece") unsupported(model.place("type"), type);

  for_each_step(root.section("normalizer"), "normalizers",
                [&](const JsonSection& step) { add_normalizer(step, parts.normalizer); });
  bool byte_level = false;
  for_each_step(root.section("pre_tokenizer"), "pretokenizers", [&](const JsonSection& step) {
    check(!byte_level, "tokenizer", step.place(), ": a step after ByteLevel is not supported");
    byte_level = add_pretokenizer(step, parts.pretokenizer);
  });
  check(!byte_level || type == "BPE", "tokenizer", model.place("type"), ": ", type,
        " after ByteLevel is not supported");

  parts.vocabulary = std::make_unique<Vocabulary>(entries, root.place());
  read_vocabulary(model, *parts.vocabulary);
  if (type == "BPE")
    read_bpe(model, byte_level, parts);
  else
    read_wordpiece(model, parts);
  parts.added = read_added(root, *parts.vocabulary);
  parts.decoding = read_decoder(root.section("decoder"), byte_level, type == "WordPiece");
  parts.specials = assign_roles(roles, *parts.vocabulary, parts.added, parts.specials.unk, origin);
  parts.json = std::move(json);
  return make_pipeline_tokenizer(std::move(parts));
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin) {
  return parse_tokenizer(std::move(json), origin, Roles());
}

}  // namespace lithe
