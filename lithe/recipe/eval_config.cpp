#include "lithe/recipe/eval_config.h"

namespace lithe {

void EvalConfig::fields(Fields& f) {
  f("context_length", context_length, "tokens of a window; 0: data.sequence_length of the training recipe",
    at_least(0));
  f("stride", stride, "tokens a window moves on; 0: context_length", at_least(0));
  f("batch_tokens", batch_tokens, "tokens run at once; does not change the result", at_least(1));
  f("cache_dtype", cache_dtype,
    "all keys and values are read from a cache of this type, as in generation: f32, bf16, int8 or int4; empty: no "
    "cache",
    one_of({"", "f32", "bf16", "int8", "int4"}));
  f("exit", exit,
    "where rows leave a model with early exits, as generate.exit says it; empty: every row runs all layers");
  f("carry_state", carry_state,
    "no windows: each document runs once, in pieces of batch_tokens that go on from the state of the piece before, so "
    "that every token sees as much of the past as the model does while generating");
}

}  // namespace lithe
