#include "lithe/recipe/translate_config.h"

#include <cmath>

#include "lithe/base/error.h"
#include "lithe/recipe/generate_config.h"

namespace lithe {
namespace {

constexpr int64_t kMostBeams = 1 << 16;

}  // namespace

void TranslateConfig::fields(Fields& f) {
  f("num_beams", num_beams, "beam size: hypotheses kept at each step; 1: greedy", between(1, kMostBeams));
  f("length_penalty", length_penalty,
    "alpha: log-probabilities are divided by ((5 + tokens) / 6)^alpha; 0 favours short translations, larger values "
    "longer ones");
  f("early_stopping", early_stopping,
    "end the search when num_beams translations have ended, although others may still score higher: faster");
  f("num_return_sequences", num_return_sequences, "translations of each sentence, best first; at most num_beams",
    between(1, kMostBeams));
  f("do_sample", do_sample, "draw translations at random instead of beam search; num_beams must be 1");
  f("temperature", temperature, "do_sample: logits are divided by this; below 1 likely tokens become likelier",
    at_least(0));
  f("top_k", top_k, "do_sample: draw from the k most likely tokens only; 0: all", at_least(0));
  f("top_p", top_p, "do_sample: draw from the smallest set of tokens with at least this total probability",
    between(0, 1));
  f("min_p", min_p, "do_sample: draw no token whose probability is below this share of the most likely token's; 0: all",
    between(0, 1));
  f("seed", seed, "do_sample: random seed; a draw depends only on it, the sentence's line and the token", at_least(0));
  f("max_new_tokens", max_new_tokens,
    "largest number of tokens of a translation; 0: 10 more than twice the source's tokens", between(0, kMostNewTokens));
  f("min_new_tokens", min_new_tokens,
    "smallest number of tokens of a translation, without the end token; 0: a translation may be empty",
    between(0, kMostNewTokens));
  f("batch_size", batch_size, "most sentences in a batch; the translations do not depend on it", at_least(1));
}

void TranslateConfig::validate() const {
  check_usage(num_beams >= 1 && num_beams <= kMostBeams, "translate", "num_beams must be between 1 and ", kMostBeams,
              ", got ", num_beams);
  check_usage(std::isfinite(length_penalty), "translate", "length_penalty must be a number, got ", length_penalty);
  const int64_t most = do_sample ? kMostBeams : num_beams;
  check_usage(num_return_sequences >= 1 && num_return_sequences <= most, "translate",
              "num_return_sequences must be between 1 and ", do_sample ? "" : "num_beams ", most, ", got ",
              num_return_sequences);
  check_usage(!do_sample || num_beams == 1, "translate", "translations are drawn (do_sample) or searched with ",
              num_beams, " beams; set num_beams 1, or do_sample false");
  check_usage(top_p > 0 && top_p <= 1 && min_p >= 0 && min_p <= 1 && top_k >= 0, "translate",
              "top_p must be above 0 and at most 1, min_p between 0 and 1, top_k at least 0; got ", top_p, ", ", min_p,
              " and ", top_k);
  check_usage(!do_sample || (std::isfinite(temperature) && temperature > 0), "translate",
              "do_sample needs a temperature above 0, got ", temperature);
  check_usage(max_new_tokens >= 0 && max_new_tokens <= kMostNewTokens && batch_size >= 1, "translate",
              "max_new_tokens must be between 0 and ", kMostNewTokens, " and batch_size at least 1, got ",
              max_new_tokens, " and ", batch_size);
  check_usage(min_new_tokens >= 0 && (!max_new_tokens || min_new_tokens <= max_new_tokens), "translate",
              "min_new_tokens must be at least 0 and at most max_new_tokens ", max_new_tokens, ", got ",
              min_new_tokens);
}

}  // namespace lithe
