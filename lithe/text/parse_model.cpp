// Section model of a tokenizer.json.
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/tokenizer_parse.h"

namespace lithe {
namespace {

void read_vocabulary(const JsonSection& model, Vocabulary& vocabulary) {
  const JsonSection::Tree& vocab = model.value("vocab");
  check(vocab.is_object() && !vocab.empty(), "tokenizer", model.place("vocab"),
        " must be an object of tokens and ids, got ", vocab.empty() ? "nothing" : vocab.type_name());
  const std::string place = model.place("vocab");
  for (const auto& entry : vocab.items()) vocabulary.add(entry.key(), JsonSection::integer_of(entry.value(), place));
}

/// "left right", or ["left", "right"].
std::pair<std::string, std::string> merge_of(const JsonSection::Tree& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.is_string() ? merge.get<std::string>() : std::string();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Merge> read_merges(const JsonSection& model, const Vocabulary& vocabulary, const std::string& prefix) {
  std::vector<Merge> merges;
  const JsonSection::Tree& list = model.list("merges");
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
    merges.push_back({id(left), id(right), id(left + right.substr(right.starts_with(prefix) ? prefix.size() : 0))});
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
  const JsonSection::Tree& dropout = model.value("dropout");
  check(dropout.is_null() || dropout == 0.0, "tokenizer", model.place("dropout"), " is ", dump(dropout),
        ": texts would be cut at random, each time anew; set it to null");
  BpeOptions options;
  options.byte_level = byte_level;
  options.ignore_merges = model.flag("ignore_merges", false);
  options.byte_fallback = model.flag("byte_fallback", false);
  options.fuse_unk = model.flag("fuse_unk", false);
  options.continuing_prefix = model.optional_text("continuing_subword_prefix").value_or("");
  options.end_suffix = model.optional_text("end_of_word_suffix").value_or("");
  options.unk = unk_of(model, *parts.vocabulary);
  parts.specials.unk = options.unk;
  if (byte_level && options.end_suffix.empty() && options.continuing_prefix.empty()) {
    int missing = 0;
    for (int b = 0; b < 256; ++b) missing += !parts.vocabulary->find(spell_bytes(std::string(1, char(b))));
    if (missing > 0)
      log_warning("tokenizer: ", model.place("vocab"), " has no token for ", missing, " of the 256 bytes: they are ",
                  options.unk ? "encoded as unk" : "left out", " when text holds them");
  }
  parts.model =
      make_bpe_model(*parts.vocabulary, read_merges(model, *parts.vocabulary, options.continuing_prefix), options);
}

void read_wordpiece(const JsonSection& model, TokenizerParts& parts) {
  parts.specials.unk = unk_of(model, *parts.vocabulary);
  check(parts.specials.unk.has_value(), "tokenizer", model.place("unk_token"), " is required for WordPiece");
  const int64_t longest = model.integer("max_input_chars_per_word", 100);
  check(longest >= 1, "tokenizer", model.place("max_input_chars_per_word"), " must be at least 1, got ", longest);
  parts.model = make_wordpiece_model(*parts.vocabulary, model.optional_text("continuing_subword_prefix").value_or("##"),
                                     longest, *parts.specials.unk);
}

constexpr size_t longest_piece = 1024;  // cutting takes time in proportion

void read_unigram(const JsonSection& model, TokenizerParts& parts) {
  const JsonSection::Tree& vocab = model.list("vocab");
  std::vector<UnigramPiece> pieces;
  for (const JsonSection::Tree& entry : vocab) {
    check(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(), "tokenizer",
          model.place("vocab"), "[", pieces.size(), "] must be a piece and its log probability");
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>(), int32_t(pieces.size())});
    check(pieces.back().text.size() <= longest_piece, "tokenizer", model.place("vocab"), "[", pieces.size() - 1,
          "] has ", pieces.back().text.size(), " bytes, above the limit of ", longest_piece);
    check(std::isfinite(pieces.back().score), "tokenizer", model.place("vocab"), "[", pieces.size() - 1,
          "]: the log probability is not finite");
    parts.vocabulary->add(pieces.back().text, int64_t(pieces.size()) - 1);
  }
  check(!pieces.empty(), "tokenizer", model.place("vocab"), " is empty");
  if (model.has("unk_id")) {
    const int64_t unk = model.integer("unk_id", 0);
    check(unk >= 0 && unk < int64_t(pieces.size()), "tokenizer", model.place("unk_id"), " is ", unk,
          ", the vocabulary has ", pieces.size(), " pieces");
    parts.specials.unk = int32_t(unk);
  }
  UnigramOptions options{.unk = parts.specials.unk, .place = model.place()};
  if (model.flag("byte_fallback", false)) options.byte_ids.emplace().fill(-1);
  double least = std::numeric_limits<double>::infinity();
  for (const UnigramPiece& piece : pieces) {
    least = std::min(least, piece.score);
    if (const auto byte = fallback_byte(piece.text); byte && options.byte_ids)
      (*options.byte_ids)[uint8_t(*byte)] = piece.id;
  }
  options.unknown_score = least - unigram_unknown_penalty;
  parts.model = make_unigram_model(std::move(pieces), std::move(options));
}

}  // namespace

std::string read_model(const JsonSection& root, bool byte_level, size_t entries, TokenizerParts& parts) {
  const JsonSection model = root.section("model");
  // Files from before the models had a type are told apart by what they hold, as Hugging Face does.
  const std::string type = model.has("type")     ? model.type()
                           : model.has("merges") ? "BPE"
                           : model.has("unk_id") ? "Unigram"
                                                 : "WordPiece";
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel" && type != "Unigram")
    unsupported(model.place("type"), type);
  check(!byte_level || type == "BPE", "tokenizer", model.place("type"), ": ", type,
        " after ByteLevel is not supported");
  parts.vocabulary = std::make_unique<Vocabulary>(entries, root.place());
  if (type == "Unigram") {
    read_unigram(model, parts);
    return type;
  }
  read_vocabulary(model, *parts.vocabulary);
  if (type == "BPE") {
    read_bpe(model, byte_level, parts);
  } else if (type == "WordPiece") {
    read_wordpiece(model, parts);
  } else {
    parts.specials.unk = unk_of(model, *parts.vocabulary);
    parts.model = make_word_level_model(*parts.vocabulary, parts.specials.unk, model.place());
  }
  return type;
}

}  // namespace lithe
