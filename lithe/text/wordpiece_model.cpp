#include "lithe/text/utf8.h"
#include "lithe/text/word_model.h"

namespace lithe {
namespace {

class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(const Vocabulary& vocabulary, std::string prefix, int64_t max_characters, int32_t unk)
      : vocabulary_(vocabulary), prefix_(std::move(prefix)), max_characters_(max_characters), unk_(unk) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    int64_t characters = 0;
    for (size_t i = 0; i < word.size(); i += utf8_unit(word.substr(i)).length) ++characters;
    const size_t before = ids.size();
    if (characters > max_characters_ || !pieces(word, ids)) {
      ids.resize(before);
      ids.push_back(unk_);
    }
  }

 private:
  const Vocabulary& vocabulary_;
  std::string prefix_;
  int64_t max_characters_;
  int32_t unk_;

  bool pieces(std::string_view word, std::vector<int32_t>& ids) const {
    std::string piece;
    for (size_t begin = 0; begin < word.size();) {
      size_t end = word.size();
      for (;; --end) {
        if (end == begin) return false;
        // Only whole characters: a piece never starts with a continuation byte.
        if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
        piece = begin > 0 ? prefix_ : std::string();
        piece += word.substr(begin, end - begin);
        if (const auto id = vocabulary_.find(piece)) {
          ids.push_back(*id);
          break;
        }
      }
      begin = end;
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<WordModel> make_wordpiece_model(const Vocabulary& vocabulary, std::string prefix,
                                                int64_t max_characters, int32_t unk) {
  return std::make_unique<WordPieceModel>(vocabulary, std::move(prefix), max_characters, unk);
}

}  // namespace lithe
