#include "lithe/recipe/translate_config.h"

#include <cmath>

#include "lithe/base/error.h"
#include "lithe/recipe/generate_config.h"

namespace lithe {
namespace {

constexpr int64_t kMostBeams = 1 << 16;

}  // namespace

void TranslateConfig::fields(Fields& f) {
  f("num_beams", num_beams, "hypotheses kept at each step; 1 is greedy", between(1, kMostBeams));
  f("length_penalty", length_penalty,
    "alpha: log-probabilities are divided by ((5 + tokens) / 6)^alpha; 0 favours short translations, above 0 longer "
    "ones");
  f("early_stopping", early_stopping,
    "end when num_beams translations have ended, though others may still score higher: faster");
  f("num_return_sequences", num_return_sequences, "translations of a sentence, best first; at most num_beams",
    between(1, kMostBeams));
  f("max_new_tokens", max_new_tokens, "tokens of a translation at most; 0: 10 more than twice the source's",
    between(0, kMostNewTokens));
  f("batch_size", batch_size, "sentences of a batch, at most; does not change the translations", at_least(1));
}

void TranslateConfig::validate() const {
  check_usage(num_beams >= 1 && num_beams <= kMostBeams, "translate", "num_beams must be between 1 and ", kMostBeams,
              ", got ", num_beams);
  check_usage(std::isfinite(length_penalty), "translate", "length_penalty must be a number, got ", length_penalty);
  check_usage(num_return_sequences >= 1 && num_return_sequences <= num_beams, "translate",
              "num_return_sequences must be between 1 and num_beams ", num_beams, ", got ", num_return_sequences);
  check_usage(max_new_tokens >= 0 && max_new_tokens <= kMostNewTokens && batch_size >= 1, "translate",
              "max_new_tokens must be between 0 and ", kMostNewTokens, " and batch_size at least 1, got ",
              max_new_tokens, " and ", batch_size);
}

}  // namespace lithe
