// What a served model takes, planned before it answers.
#pragma once

#include "lithe/infer/decode_loop.h"

namespace lithe {

/// Bytes.
struct ServeMemory {
  int64_t weights = 0;
  int64_t work = 0;             // of a pass, at most: a piece of a prompt, all slots, or a text that is scored whole
  int64_t slot = 0, token = 0;  // of decode state: of each slot, and of each token that is kept
};

/// The plan of a model with these weights, on tensors without data; `budget` says how long a request may get, and
/// `drafted` how many tokens a slot checks at once; `rank`: the largest of its adapters.
ServeMemory plan_serving(const Model& model, int64_t weights, const DecodeBudget& budget, int64_t drafted,
                         int64_t rank = 0);
/// Texts of the most tokens that are encoded in one pass of a model whose memory is planned.
constexpr int64_t kTextsOfAPass = 4;
/// Bytes of a pass over these, each of so many tokens.
int64_t encoding_work(const Model& model, int64_t tokens, int64_t rank);
/// Fails (ExitCode::memory) where a model that only encodes has no room.
void check_encoding_fits(int64_t weights, int64_t work, int64_t bytes, const std::string& name);
/// The budget with as many tokens as there is room for within `bytes`, and none longer than these. Fails
/// (ExitCode::memory), naming `name` and what it needs, where there is no room for a page of tokens.
DecodeBudget within_memory(const ServeMemory& plan, int64_t bytes, DecodeBudget budget, const std::string& name);

}  // namespace lithe
