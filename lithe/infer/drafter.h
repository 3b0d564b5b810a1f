// Drafted tokens: who proposes them, how many are worth it, and which of them the model takes.
#pragma once

#include "lithe/infer/token_choice.h"
#include "lithe/recipe/generate_config.h"

namespace lithe {

/// Who proposes tokens, of one text at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;
  struct Draft {
    int32_t token;
    TokenDistribution from;  // what it was drawn from
  };
  /// At most `count` tokens that may follow `tokens`, each drawn from what the drafter gives it after those before.
  /// `tokens` begins as it did at the last call, as far as both agree. Draws are functions of (config.seed, key,
  /// position).
  virtual std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, uint64_t key,
                                   const GenerateConfig& config) = 0;
  /// Tokens of another prompt follow, at most `capacity` of them.
  virtual void begin(int64_t capacity) = 0;
};

/// How many tokens are worth drafting, by how the last drafts went: at most `most`, two more after a draft that was
/// taken whole, else one more than was taken. Where nothing was taken twice in a row, none for 1 step, then 2, 4, 8, up
/// to 16, with a draft of one token in between, until one is taken: a drafter that is wrong must not slow the model
/// down.
class DraftLength {
 public:
  explicit DraftLength(int64_t most) : most_(most), length_(most) {}
  /// Of the next step.
  int64_t next();
  /// What became of a draft; one of no tokens says nothing.
  void found(int64_t drafted, int64_t taken);

 private:
  int64_t most_, length_, wrong_ = 0, pause_ = 0;  // drafts in a row of which nothing was taken; steps without a draft
};

/// What follows a draft: how many of its tokens are taken, and the token after them. `target[i]` is the model's
/// distribution after the first i of them; draws are functions of (seed, key, position).
struct Verdict {
  size_t taken;
  int32_t next;
};
Verdict verify(const std::vector<Drafter::Draft>& drafts, const std::vector<TokenDistribution>& target, int64_t seed,
               uint64_t key, int64_t position);

/// The token of a distribution where `share` of its probability lies, in the order of ids.
int32_t draw(const TokenDistribution& from, double share);

}  // namespace lithe
