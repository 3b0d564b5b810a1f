// Draft-and-verify decoding: a drafter proposes tokens, and the model scores all of them in one pass.
#pragma once

#include "lithe/infer/generate.h"

namespace lithe {

/// Who proposes tokens.
class Drafter {
 public:
  virtual ~Drafter() = default;
  struct Draft {
    int32_t token;
    TokenDistribution from;  // what it was drawn from
  };
  /// At most `count` tokens that may follow `tokens`, each drawn from what the drafter gives it after those before.
  /// `tokens` begins as it did at the last call, as far as both agree.
  virtual std::vector<Draft> draft(const std::vector<int32_t>& tokens, int64_t count, int64_t sequence,
                                   const GenerateConfig& config) = 0;
  /// Tokens of another prompt follow, at most `capacity` of them.
  virtual void begin(int64_t capacity) = 0;
};

/// A smaller model of the same tokenizer. Fails (usage) where it does not know its tokens or its state cannot forget
/// some.
std::unique_ptr<Drafter> model_drafter(const Model& drafter, const Tokenizer& tokenizer, const GenerateConfig& config);

/// The model itself, as far as its exit after `layers` layers, whose state is its own. Fails (usage) where it has none
/// there.
std::unique_ptr<Drafter> exit_drafter(const Model& model, int64_t layers, const Tokenizer& tokenizer,
                                      const GenerateConfig& config);

/// What followed the last `longest` tokens (or fewer) where they stood before, if they did.
std::unique_ptr<Drafter> lookup_drafter(int64_t longest = 3);

struct SpeculativeTimes {
  int64_t passes = 0;              // of the model, after the prompts
  int64_t drafted = 0, taken = 0;  // tokens
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

/// generate_each(), one prompt after another, with at most `count` tokens drafted a time (see DraftLength). Greedy: the
/// tokens that generate_each() gives, up to ties. Sampled: equally distributed [Leviathan et al. 2023]. Fails (usage)
/// when the model's state cannot forget tokens.
void generate_speculative(const Model& model, Drafter& drafter, int64_t count, const Tokenizer& tokenizer,
                          const std::vector<std::string>& prompts, const GenerateConfig& config,
                          const GenerateEvents& events, GenerateTimes* times = nullptr,
                          SpeculativeTimes* speculative = nullptr);

/// What follows a draft: how many of its tokens are taken, and the token after them. `target[i]` is the model's
/// distribution after the first i of them; draws are functions of (seed, sequence, position).
struct Verdict {
  size_t taken;
  int32_t next;
};
Verdict verify(const std::vector<Drafter::Draft>& drafts, const std::vector<TokenDistribution>& target, uint64_t seed,
               int64_t sequence, int64_t position);

}  // namespace lithe
