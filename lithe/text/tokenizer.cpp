#include "lithe/text/tokenizer.h"

#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/utf8.h"

namespace lithe {

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) out += piece(ids[i], i == 0);
  return out;
}

std::vector<int32_t> Tokenizer::sample(std::string_view text, const SegmentationSampling& how, const RandomKey&) const {
  how.validate();
  check_usage(how.off(), "tokenizer",
              "dropout needs a BPE that lithe merges, alpha and length_penalty a unigram tokenizer,"
              " and this one is neither or another: got dropout ",
              how.dropout, ", alpha ", how.alpha ? cat(*how.alpha) : "none", ", length_penalty ", how.length_penalty);
  return encode(text);
}

uint64_t Tokenizer::fingerprint() const {
  const std::string json = to_json();
  const Specials& s = specials();
  const int32_t roles[] = {s.bos.value_or(-1), s.eos.value_or(-1), s.pad.value_or(-1), s.unk.value_or(-1)};
  const uint64_t print = checksum(roles, sizeof roles, checksum(json.data(), json.size()));
  if (!s.cls && !s.sep && !s.mask) return print;  // as it was before these roles, so that caches stay good
  const int32_t more[] = {s.cls.value_or(-1), s.sep.value_or(-1), s.mask.value_or(-1)};
  return checksum(more, sizeof more, print);
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  BpeDescription description;
  for (int b = 0; b < 256; ++b) description.vocabulary.push_back(spell_bytes(std::string(1, char(b))));
  description.added.push_back({.id = 256, .content = std::string(end_of_text), .special = true});
  description.words = false;
  return parse_tokenizer(byte_level_bpe_json(description), "byte tokenizer");
}

std::string StreamDecoder::push(int32_t id) {
  pending_ += tokenizer_->piece(id, first_);
  first_ = false;
  // What may still become a character stays: at most three bytes at the end.
  size_t keep = 0;
  for (size_t length = 1; length <= std::min<size_t>(3, pending_.size()); ++length)
    if (const Utf8Unit unit = utf8_unit(std::string_view(pending_).substr(pending_.size() - length));
        unit.kind == Utf8Unit::Kind::incomplete && unit.length == length)
      keep = length;
  std::string out = valid_utf8(std::string_view(pending_).substr(0, pending_.size() - keep));
  pending_.erase(0, pending_.size() - keep);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = valid_utf8(pending_);
  pending_.clear();
  first_ = true;
  return out;
}

}  // namespace lithe
