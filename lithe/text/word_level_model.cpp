#include "lithe/base/error.h"
#include "lithe/text/utf8.h"
#include "lithe/text/word_model.h"

namespace lithe {
namespace {

class WordLevelModel final : public WordModel {
 public:
  WordLevelModel(const Vocabulary& vocabulary, std::optional<int32_t> unk, std::string place)
      : vocabulary_(vocabulary), unk_(unk), place_(std::move(place)) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const auto id = vocabulary_.find(word);
    check(id || unk_, "tokenizer", place_, " has no unk_token, and '", valid_utf8(word), "' is not in its vocabulary");
    ids.push_back(id ? *id : *unk_);
  }

 private:
  const Vocabulary& vocabulary_;
  std::optional<int32_t> unk_;
  std::string place_;
};

}  // namespace

std::unique_ptr<WordModel> make_word_level_model(const Vocabulary& vocabulary, std::optional<int32_t> unk,
                                                 std::string place) {
  return std::make_unique<WordLevelModel>(vocabulary, unk, std::move(place));
}

}  // namespace lithe
