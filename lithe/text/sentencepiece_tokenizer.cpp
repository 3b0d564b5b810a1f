#include "lithe/text/sentencepiece_tokenizer.h"

#include <algorithm>

#include "lithe/text/base64.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/hex.h"
#include "lithe/text/json_section.h"
#include "lithe/text/sentencepiece_encoder.h"
#include "lithe/text/sentencepiece_file.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/unigram_lattice.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Piece = SentencePieceFile::Piece;
using PieceType = SentencePieceFile::PieceType;
using Arc = UnigramLattice::Arc;

constexpr int64_t file_version = 1;

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, std::string json, const std::string& origin, Roles roles)
      : json_(std::move(json)),
        file_(read_sentencepiece_file(model, origin)),
        vocabulary_(vocabulary_of(file_, origin)),
        encoder_(file_, vocabulary_, origin) {
    std::vector<AddedToken> controls;
    for (const Piece& piece : file_.pieces) {
      const int32_t id = int32_t(text_.size());
      text_.push_back(text_of(piece));
      if (piece.type == PieceType::control) controls.push_back({.id = id, .content = piece.text, .special = true});
      longest_piece_ = std::max(longest_piece_, piece.text.size());
    }
    const auto role = [&](Role& role, const std::string& piece, PieceType must_be) {
      if (role.stated) return;
      role.stated = true;
      const auto id = vocabulary_.find(piece);
      if (id && type(*id) == must_be) role.token = piece;
    };
    role(roles.bos, file_.bos_piece, PieceType::control);
    role(roles.eos, file_.eos_piece, PieceType::control);
    role(roles.pad, file_.pad_piece, PieceType::control);
    role(roles.unk, vocabulary_.token(encoder_.unk()), PieceType::unknown);
    specials_ = assign_roles(roles, vocabulary_, controls, {}, origin);
    controls_ = AddedTokens(std::move(controls));
  }

  int64_t vocab_size() const override { return vocabulary_.size(); }
  std::string token(int32_t id) const override { return vocabulary_.token(id); }
  std::optional<int32_t> id(std::string_view token) const override { return vocabulary_.find(token); }
  bool is_special(int32_t id) const override {
    return id >= 0 && id < vocab_size() && (type(id) == PieceType::control || type(id) == PieceType::unknown);
  }
  bool continues_word(int32_t id) const override {
    vocabulary_.token(id);  // checks the id
    return !is_special(id) && !text_[size_t(id)].starts_with(' ');
  }
  const Specials& specials() const override { return specials_; }
  std::string to_json() const override { return json_; }

  std::string piece(int32_t id, bool first) const override {
    vocabulary_.token(id);  // checks the id
    const std::string& text = text_[size_t(id)];
    const bool strip = first && !is_special(id) && (file_.add_dummy_prefix || file_.remove_extra_whitespaces);
    return strip && text.starts_with(' ') ? text.substr(1) : text;
  }

  std::vector<int32_t> sample(std::string_view text, const SegmentationSampling& how,
                              const RandomKey& key) const override {
    const bool unigram = file_.kind == SentencePieceFile::Kind::unigram;
    if (how.off() || (unigram ? how.dropout > 0 : how.alpha || how.length_penalty != 0))
      return Tokenizer::sample(text, how, key);
    how.validate();
    const std::string normalized = encoder_.normalize(text);
    if (!unigram) {
      std::vector<int32_t> ids;
      MergeDropout dropout{.probability = how.dropout, .key = key};
      encoder_.sample(normalized, dropout, ids);
      return ids;
    }
    const UnigramLattice lattice = lattice_of(normalized);
    std::vector<int32_t> ids;
    bool after_unknown = false;
    for (const Arc& arc : lattice.draw(how, key)) {
      const bool unknown = type(arc.id) == PieceType::unknown;
      if (unknown && encoder_.byte_ids())
        for (uint32_t at = arc.begin; at < arc.end; ++at)
          ids.push_back((*encoder_.byte_ids())[uint8_t(normalized[at])]);
      else if (!unknown || !after_unknown)  // unknown characters in a row are one <unk>
        ids.push_back(arc.id);
      after_unknown = unknown;
    }
    return ids;
  }

 protected:
  std::vector<int32_t> encode_text(std::string_view text, bool with_specials) const override {
    std::vector<int32_t> ids;
    controls_.cut(
        text, with_specials, [&](std::string_view part) { encoder_.encode(encoder_.normalize(part), ids); },
        [&](const AddedToken& control) { ids.push_back(control.id); });
    return ids;
  }

 private:
  std::string json_;
  SentencePieceFile file_;
  Vocabulary vocabulary_;
  SentencePieceEncoder encoder_;
  AddedTokens controls_;
  Specials specials_;
  std::vector<std::string> text_;  // what a piece means, by id
  size_t longest_piece_ = 0;       // bytes

  PieceType type(int32_t id) const { return file_.pieces[size_t(id)].type; }

  std::string text_of(const Piece& piece) const {
    if (piece.type == PieceType::control) return piece.text;
    if (piece.type == PieceType::unknown) return file_.unk_surface;
    if (const auto byte = fallback_byte(piece.text); byte && piece.type == PieceType::byte)
      return std::string(1, *byte);
    return unspell_spaces(piece.text);
  }

  /// Pieces of `text`. A character is <unk> only where no piece of the text covers it, or else no path would go
  /// through.
  UnigramLattice lattice_of(std::string_view text) const {
    std::vector<uint32_t> starts;  // of characters, the end included
    for (size_t at = 0; at < text.size(); at += utf8_unit(text.substr(at)).length) starts.push_back(uint32_t(at));
    starts.push_back(uint32_t(text.size()));

    std::vector<Arc> arcs;
    std::vector<bool> single(text.size()), covered(text.size());
    for (size_t e = 1; e < starts.size(); ++e) {
      uint32_t uncovered = starts[e];  // bytes from here on are covered by pieces that end here
      for (size_t b = e; b-- > 0 && starts[e] - starts[b] <= longest_piece_;) {
        const auto id = vocabulary_.find(text.substr(starts[b], starts[e] - starts[b]));
        if (!id || (type(*id) != PieceType::normal && type(*id) != PieceType::user_defined)) continue;
        arcs.push_back({starts[b], starts[e], *id, encoder_.log_probability(*id)});
        uncovered = starts[b];
        if (b + 1 == e) single[starts[b]] = true;
      }
      for (uint32_t at = uncovered; at < starts[e]; ++at) covered[at] = true;
    }
    const auto with_unknown = [&](auto&& needed) {
      std::vector<Arc> all = arcs;
      for (size_t e = 1; e < starts.size(); ++e)
        if (needed(starts[e - 1]))
          all.push_back({starts[e - 1], starts[e], encoder_.unk(), encoder_.unknown_log_probability()});
      // Of the arcs to one place the longest comes first, and so wins where scores are equal, as in the library.
      std::sort(all.begin(), all.end(),
                [](const Arc& a, const Arc& b) { return a.end != b.end ? a.end < b.end : a.begin < b.begin; });
      return UnigramLattice(uint32_t(text.size()), std::move(all));
    };
    UnigramLattice lattice = with_unknown([&](uint32_t at) { return !covered[at]; });
    return lattice.connected() ? lattice : with_unknown([&](uint32_t at) { return !single[at]; });
  }
};

std::string checksum_of(std::string_view model) { return hex(checksum(model.data(), model.size())); }

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view model, const std::string& origin, const Roles& roles) {
  const Json type = {{"type", sentencepiece_type}, {"version", file_version}};
  std::string json = "{\n  \"lithe_tokenizer\": " + dump(type) + ",\n  \"model\": \"" + to_base64(model) +
                     "\",\n  \"checksum\": \"" + checksum_of(model) + "\"\n}\n";
  return std::make_unique<SentencePieceTokenizer>(model, std::move(json), origin, roles);
}

std::string sentencepiece_model_of(const std::string& json) {
  const auto tree = parse_json_sorted(json, "tokenizer.json");
  const bool holds = tree.is_object() && tree.contains("lithe_tokenizer") && tree["lithe_tokenizer"].is_object() &&
                     tree["lithe_tokenizer"].value("type", "") == sentencepiece_type && tree.contains("model") &&
                     tree["model"].is_string();
  return holds ? from_base64(tree["model"].get<std::string>()) : "";
}

bool is_sentencepiece_name(const Path& path) { return path.extension() == ".model"; }

std::unique_ptr<Tokenizer> parse_sentencepiece_json(const JsonSection& root, std::string json,
                                                    const std::string& origin, const Roles& roles) {
  const JsonSection header = root.section("lithe_tokenizer");
  const int64_t version = header.integer("version", 0);
  check(version == file_version, "tokenizer", header.place("version"), " is ", version, ", this program reads ",
        file_version);
  const std::string model = from_base64(root.text("model"));
  check(!model.empty(), "tokenizer", root.place("model"), " is no base64");
  check(root.text("checksum") == checksum_of(model), "tokenizer", root.place("checksum"), " is '",
        root.text("checksum"), "', the model has '", checksum_of(model), "': the file was changed or damaged");
  return std::make_unique<SentencePieceTokenizer>(model, std::move(json), origin, roles);
}

}  // namespace lithe
