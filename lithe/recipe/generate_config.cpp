#include "lithe/recipe/generate_config.h"

#include <cmath>

#include "lithe/base/error.h"
#include "lithe/nn/exits.h"
#include "lithe/nn/state.h"

namespace lithe {
namespace {}  // namespace

void GenerateConfig::fields(Fields& f) {
  f("prompt", prompt, "text to continue, also for samples during training");
  f("max_new_tokens", max_new_tokens, "largest number of tokens to add", between(1, kMostNewTokens));
  f("do_sample", do_sample, "draw tokens at random; false: always take the most likely token (greedy)");
  f("temperature", temperature, "logits are divided by this; below 1 likely tokens become likelier; 0: greedy",
    at_least(0));
  f("top_k", top_k, "sample from the k most likely tokens only; 0: all", at_least(0));
  f("top_p", top_p, "sample from the smallest set of tokens with at least this total probability", between(0, 1));
  f("min_p", min_p, "sample no token whose probability is below this share of the most likely token's; 0: all",
    between(0, 1));
  f("repetition_penalty", repetition_penalty,
    "values above 1 make tokens that are already in the text less likely; 1: off", at_least(1e-3));
  f("num_return_sequences", num_return_sequences, "number of texts for each prompt", between(1, 65536));
  f("stop", stop, "generation ends before the first of these strings");
  f("seed", seed, "random seed of sampling", at_least(0));
  f("batch_size", batch_size, "prompts that are continued at the same time", at_least(1));
  f("use_cache", use_cache,
    "keep the decode state (KV cache); false: recompute the whole text for every token (slow, for checks)");
  f("add_bos_token", add_bos_token,
    "begin prompts with the tokenizer's bos token (eos if it has none), as texts in training; false: no such token");
  f("cache_dtype", cache_dtype,
    "type of the KV cache: f32, bf16, int8 (a scale per token and head), or int4 (a minimum and a step per token and "
    "32 channels of a head); empty: the type of the rows",
    one_of({"", "f32", "bf16", "int8", "int4"}));
  f("cache_tokens", cache_tokens,
    "largest number of cached tokens of all running prompts together, each counted with its full prompt and "
    "continuation; other prompts wait; 0: no limit",
    at_least(0));
  f("exit", exit,
    "early exits: the rule by which tokens leave the model: layer:N, entropy:T, maxprob:T, margin:T, similarity:T, "
    "divergence:T, patience:P or predictor; empty: every token runs all layers");
  f("early_stop", early_stop,
    "end a text where the head predicts its end (needs model.head: {type: lm, early_stop: true})");
  f("early_stop_margin", early_stop_margin,
    "theta of early_stop: a text ends if Pr(stop) >= Pr(continue) + theta; -1: at once, 1: only if it is certain",
    between(-1, 1));
  f("prefill_tokens", prefill_tokens,
    "tokens of new prompts that one decoding step of the running prompts also reads (chunked prefill)", at_least(1));
}

std::optional<DType> GenerateConfig::cache_type() const { return cache_type_named(cache_dtype); }

void GenerateConfig::validate() const {
  for (const std::string& s : stop) check_usage(!s.empty(), "generate", "a stop string is empty");
  check_usage(std::isfinite(temperature) && temperature >= 0, "generate", "temperature must be at least 0, got ",
              temperature);
  check_usage(top_p > 0 && top_p <= 1, "generate", "top_p must be above 0 and at most 1, got ", top_p);
  check_usage(min_p >= 0 && min_p <= 1, "generate", "min_p must be between 0 and 1, got ", min_p);
  check_usage(num_return_sequences >= 1, "generate", "num_return_sequences must be at least 1, got ",
              num_return_sequences);
  check_usage(num_return_sequences == 1 || (do_sample && temperature > 0), "generate",
              "the most likely tokens make one text; ", num_return_sequences,
              " for each prompt (num_return_sequences, --samples) need sampling, without --greedy");
  check_usage(std::isfinite(repetition_penalty) && repetition_penalty > 0, "generate",
              "repetition_penalty must be above 0, got ", repetition_penalty);
  check_usage(max_new_tokens >= 1 && max_new_tokens <= kMostNewTokens, "generate",
              "max_new_tokens must be between 1 and ", kMostNewTokens, ", got ", max_new_tokens);
  check_usage(batch_size >= 1 && top_k >= 0, "generate", "batch_size must be at least 1, top_k at least 0");
  check_usage(cache_tokens >= 0 && prefill_tokens >= 1, "generate",
              "cache_tokens must be at least 0, prefill_tokens at least 1");
  if (!exit.empty()) exit_rule_named(exit);
  check_usage(std::abs(early_stop_margin) <= 1, "generate", "early_stop_margin must be between -1 and 1, got ",
              early_stop_margin);
  check_usage(use_cache || (cache_dtype.empty() && cache_tokens == 0), "generate",
              "cache_dtype and cache_tokens (--cache-type, --cache-tokens) say how to keep the decode state, use_cache "
              "false (--no-cache) not to; give only one");
}

}  // namespace lithe
