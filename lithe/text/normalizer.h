// Normalizers: what is done to text before it is cut.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/unicode.h"

namespace lithe {

struct BertNormalization {
  bool clean_text = true;     // control characters go, white space becomes a space
  bool chinese = true;        // spaces around CJK ideographs
  bool strip_accents = true;  // canonical decomposition without nonspacing marks
  bool lowercase = true;
};

/// A list of steps on valid UTF-8.
class Normalizer {
 public:
  using Step = std::function<std::string(std::string_view)>;

  bool empty() const { return steps_.empty(); }
  void add(Step step) { steps_.push_back(std::move(step)); }

  /// Bytes that are no UTF-8 stay; what stands between them is normalized separately. Fails when a step makes a text
  /// more than max_growth() long, which only a hostile file does.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

/// Bytes that a step may make of `bytes`.
size_t max_growth(size_t bytes);
void check_growth(size_t from, size_t to);

Normalizer::Step bert_normalization(const BertNormalization& options);
Normalizer::Step lower_case();
/// SentencePiece's rules for translation: some control characters go, white space and marks of direction become a
/// space.
Normalizer::Step nmt_normalization();
Normalizer::Step strip_white_space(bool left, bool right);
/// Marks of Unicode 9, as the step StripAccents of Hugging Face's library takes them off.
Normalizer::Step strip_marks();

}  // namespace lithe
