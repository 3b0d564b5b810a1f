#include "lithe/text/pipeline_tokenizer.h"

#include <optional>

#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/word_cache.h"

namespace lithe {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

// The clean-up of Hugging Face's transformers, in its order.
void clean_up_english(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts)
      : p_(std::move(parts)), is_special_(size_t(vocab_size())), is_added_(size_t(vocab_size())) {
    std::vector<AddedToken> raw, normalized;
    for (const AddedToken& token : p_.added) {
      is_special_[size_t(token.id)] = token.special;
      is_added_[size_t(token.id)] = true;
      const bool look_in_normalized = token.normalized && !p_.normalizer.empty();
      (look_in_normalized ? normalized : raw).push_back(token);
      if (look_in_normalized) normalized.back().content = p_.normalizer(token.content);
    }
    std::erase_if(normalized, [](const AddedToken& token) { return token.content.empty(); });
    raw_added_ = AddedTokens(std::move(raw));
    normalized_added_ = AddedTokens(std::move(normalized));

    size_t bytes = 0;
    for (int32_t id = 0; id < vocab_size(); ++id) {
      text_.push_back(text_of(token(id)));
      check_growth(p_.json.size(), bytes += text_.back().size());
    }
    if (p_.decoding.kind != Decoding::Kind::steps)
      for (const AddedToken& token : p_.added) text_[size_t(token.id)] = token.content;
  }

  int64_t vocab_size() const override { return p_.vocabulary->size(); }
  std::string token(int32_t id) const override { return p_.vocabulary->token(id); }
  std::optional<int32_t> id(std::string_view token) const override { return p_.vocabulary->find(token); }
  bool is_special(int32_t id) const override { return id >= 0 && id < vocab_size() && is_special_[size_t(id)]; }
  const Specials& specials() const override { return p_.specials; }
  bool continues_word(int32_t id) const override {
    const std::string& spelling = p_.vocabulary->token(id);  // checks the id
    if (is_added_[size_t(id)] || spelling.empty()) return false;
    if (p_.decoding.kind == Decoding::Kind::word_piece) return spelling.starts_with(p_.decoding.prefix);
    const std::string& text = text_[size_t(id)];
    if (!p_.decoding.between.empty() || !p_.decoding.end.empty() || text.empty()) return false;
    return text[0] != ' ' && !(text[0] >= '\t' && text[0] <= '\r');
  }
  std::string to_json() const override { return p_.json; }

  std::string piece(int32_t id, bool first) const override {
    const std::string& spelling = p_.vocabulary->token(id);  // checks the id
    const std::string& text = text_[size_t(id)];
    switch (p_.decoding.kind) {
      case Decoding::Kind::byte_level: return text;
      case Decoding::Kind::word_piece:
        if (first || spelling.empty()) return spelling;
        return spelling.starts_with(p_.decoding.prefix) ? spelling.substr(p_.decoding.prefix.size()) : " " + spelling;
      case Decoding::Kind::steps:
        return first ? stripped(changed(spelling, true), p_.decoding.strip_start, 0) : p_.decoding.between + text;
    }
    return text;
  }

  std::vector<int32_t> sample(std::string_view text, const SegmentationSampling& how,
                              const RandomKey& key) const override {
    if (how.dropout == 0 || how.alpha || how.length_penalty != 0) return Tokenizer::sample(text, how, key);
    how.validate();
    MergeDropout dropout{.probability = how.dropout, .key = key};
    return encode_pieces(text, false, [&](auto pieces, std::vector<int32_t>& ids) {
      for (const std::string_view piece : pieces) p_.model->sample(piece, dropout, ids);
    });
  }

  std::string decode(std::span<const int32_t> ids) const override {
    if (p_.decoding.kind == Decoding::Kind::steps) return decode_steps(ids);
    std::string out = Tokenizer::decode(ids);
    if (p_.decoding.cleanup) clean_up_english(out);
    return out;
  }

 protected:
  std::vector<int32_t> encode_text(std::string_view text, bool with_specials) const override {
    return encode_pieces(text, with_specials,
                         [&](auto pieces, std::vector<int32_t>& ids) { encoder_.encode(*p_.model, pieces, ids); });
  }

 private:
  TokenizerParts p_;
  AddedTokens raw_added_, normalized_added_;
  std::vector<bool> is_special_, is_added_;
  std::vector<std::string> text_;  // what a token means, by id
  WordEncoder encoder_;

  /// Calls encode(pieces, ids) for the pieces between added tokens.
  template <class Encode>
  std::vector<int32_t> encode_pieces(std::string_view text, bool with_specials, Encode&& encode) const {
    std::vector<int32_t> ids;
    bool first = true;  // nothing stands before what comes
    const auto encode_part = [&](std::string_view part) {
      p_.pretokenizer.pieces(
          part, [&](auto pieces) { encode(pieces, ids); }, first);
      first = false;
    };
    const auto on_token = [&](const AddedToken& token) {
      ids.push_back(token.id);
      first = false;
    };
    raw_added_.cut(
        text, with_specials,
        [&](std::string_view part) {
          if (p_.normalizer.empty()) return encode_part(part);
          normalized_added_.cut(p_.normalizer(part), with_specials, encode_part, on_token);
        },
        on_token);
    return ids;
  }

  std::string text_of(const std::string& spelling) const {
    if (p_.decoding.kind == Decoding::Kind::byte_level) return unspell_bytes(spelling).value_or(spelling);
    if (p_.decoding.kind == Decoding::Kind::word_piece) return spelling;
    return changed(spelling, false);
  }

  // ---- Kind::steps

  std::string changed(const std::string& spelling, bool first) const {
    if (const auto byte = p_.decoding.bytes ? fallback_byte(spelling) : std::nullopt) return std::string(1, *byte);
    std::string out = spelling;
    for (const Decoding::Step& step : p_.decoding.steps) {
      out = step(out, first);
      check_growth(spelling.size(), out.size());
    }
    if (!p_.decoding.end.empty()) replace_all(out, p_.decoding.end, " ");
    return out;
  }
  std::string stripped(std::string text, int64_t start, int64_t stop) const {
    const std::string& what = p_.decoding.strip;
    if (what.empty()) return text;
    for (; start > 0 && text.starts_with(what); --start) text.erase(0, what.size());
    for (; stop > 0 && text.ends_with(what); --stop) text.resize(text.size() - what.size());
    return text;
  }
  std::string decode_steps(std::span<const int32_t> ids) const {
    const Decoding& how = p_.decoding;
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string& spelling = p_.vocabulary->token(ids[i]);  // checks the id
      if (how.once && i > 0 && ids[i] == ids[i - 1]) continue;
      if (i > 0) out += how.between;
      if (std::string last = spelling; i + 1 == ids.size() && !how.end.empty())
        replace_all(last, how.end, ""), out += last;
      else
        out += i == 0 ? changed(spelling, true) : text_[size_t(ids[i])];
    }
    return stripped(std::move(out), how.strip_start, how.strip_stop);
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline_tokenizer(TokenizerParts parts) {
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace lithe
