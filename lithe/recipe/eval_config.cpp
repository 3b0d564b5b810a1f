#include "lithe/recipe/eval_config.h"

namespace lithe {

void EvalConfig::fields(Fields& f) {
  f("context_length", context_length, "window in tokens; 0: data.sequence_length of the training recipe", at_least(0));
  f("stride", stride, "tokens between the starts of two windows; 0: context_length", at_least(0));
  f("batch_tokens", batch_tokens, "tokens that run at once; the result does not depend on it", at_least(1));
  f("cache_dtype", cache_dtype,
    "read all keys and values from a cache of this type, as generation does: f32, bf16, int8 or int4; empty: no cache",
    one_of({"", "f32", "bf16", "int8", "int4"}));
  f("exit", exit,
    "early exits: the rule by which rows leave the model, as generate.exit; empty: every row runs all layers");
  f("carry_state", carry_state,
    "no windows: each document runs once, in pieces of batch_tokens; each piece continues from the state of the one "
    "before, so that a token sees the same past as in generation");
}

}  // namespace lithe
