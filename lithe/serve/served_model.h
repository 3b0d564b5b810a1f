// A model that answers many at once: one thread runs it, and everybody may ask.
#pragma once

#include <atomic>
#include <future>
#include <thread>

#include "lithe/eval/chat_template.h"
#include "lithe/infer/adapter.h"
#include "lithe/infer/decode_loop.h"
#include "lithe/infer/grammar_step.h"
#include "lithe/infer/load.h"
#include "lithe/infer/named_drafter.h"
#include "lithe/infer/neighbours.h"
#include "lithe/infer/translate.h"
#include "lithe/recipe/recipe.h"
#include "lithe/serve/text_queue.h"

namespace lithe {

struct ServeOptions {
  std::string weights, precision = "f32", chat_template;
  bool el_rewrite = false;
  DecodeBudget budget;
  // As `lithe generate` has them.
  std::string exit, draft;
  int64_t draft_tokens = 4;
  std::optional<double> early_stop;
  /// The store that is asked beside the model, or none.
  std::function<std::optional<NeighbourModel>(const Path& run, const LoadedModel& loaded)> neighbours = {};
  /// Bytes of all that the model takes, weights and answers under way: budget.tokens and longest follow. 0: no limit.
  int64_t memory = 0;
  /// Low-rank adapters that requests may name, in the order in which they are listed.
  std::vector<std::pair<std::string, Path>> adapters = {};
  int64_t queue = 64;  // requests that wait for a slot, at most
};

/// A token and its natural log-probability.
struct TokenScore {
  int32_t token;
  double log_probability;
};
/// What the model says of a token, given those before it: the token, and the likeliest ones, the best first.
struct ScoredToken {
  TokenScore token;
  std::vector<TokenScore> best;
};

/// Throws where nobody waits for an answer any more.
using StillWanted = std::function<void()>;

/// Thrown by check_queue() when too many wait.
struct QueueIsFull : std::runtime_error {
  using runtime_error::runtime_error;
};

/// What clients call the model of a run: the name of its directory.
std::string served_name(const Path& run);

class ServedModel {
 public:
  ServedModel(const Path& run, const ServeOptions& options);
  /// Interrupts what is under way.
  ~ServedModel();

  const std::string& name() const { return name_; }
  const Model& model() const { return *loaded_.model; }
  const Tokenizer& tokenizer() const { return *loaded_.tokenizer; }
  const Recipe& recipe() const { return recipe_; }
  const std::vector<std::pair<std::string, std::unique_ptr<Adapter>>>& adapters() const { return adapters_; }
  const ChatTemplate* chat_template() const { return chat_ ? &*chat_ : nullptr; }
  /// It predicts the next token; else its rows of texts are all that it gives.
  bool generates() const { return loop_ != nullptr; }
  int64_t longest() const { return longest_; }
  /// Tokens of an answer whose request says nothing, at most: a slot's share of what all may come to together.
  int64_t usual_answer() const { return usual_answer_; }
  /// Tokens of a text that encode() reads.
  int64_t longest_text() const;
  const ServeOptions& options() const { return options_; }
  /// What a request that says nothing is decoded with.
  GenerateConfig base_config() const;
  /// The step that mixes in what the store says; null without one.
  const std::shared_ptr<const LogitStep>& neighbours() const { return neighbour_step_; }
  /// The next token is chosen from what all layers of the model say, and nothing else.
  bool decodes_plainly() const { return !neighbour_step_ && options_.exit.empty() && !options_.early_stop; }

  /// The masks of a grammar, which are shared by requests with the same `key`: how it was written. `make` compiles it.
  std::shared_ptr<GrammarMasks> masks(const std::string& key, const std::function<Grammar()>& make) const;

  /// Throws QueueIsFull where as many wait as may. A request that is let in may have any number of choices.
  void check_queue() const;
  /// As DecodeLoop has them.
  DecodeLoop::Id submit(DecodeRequest request);
  void cancel(DecodeLoop::Id id) { loop_->cancel(id); }

  /// Each token from the second on, given those before it, with the `top` likeliest ones; and what follows the last.
  /// Results do not depend on who else is scored. `adapter`: one of adapters(), or null. Waits;
  /// what `wanted` throws then ends it.
  struct Scores {
    std::vector<ScoredToken> tokens;
    ScoredToken next;
  };
  Scores score(std::vector<int32_t> tokens, int64_t top, const Adapter* adapter = nullptr,
               const StillWanted& wanted = {});
  /// Rows of texts by the recipe's pooling, f32 [texts, D]; `most` of their tokens are read, or longest_text(). Waits
  /// as score(). Throws QueueIsFull.
  Tensor encode(const std::vector<std::string>& texts, const Adapter* adapter = nullptr, const StillWanted& wanted = {},
                std::optional<int64_t> most = {});

  /// It learnt to say something of texts, with nothing beside them; it translates.
  bool predicts() const;
  bool translates() const { return loaded_.source_tokenizer != nullptr; }
  /// What it says of each text (prediction_json()), and the translations of each. Errors name texts by their numbers
  /// from 1. Wait as encode(), and throw as it does; fail (usage) on texts that are too long.
  Json predict(const std::vector<std::string>& texts, const Adapter* adapter = nullptr, const StillWanted& wanted = {});
  std::vector<std::vector<Translation>> translate(const std::vector<std::string>& texts, const TranslateConfig& config,
                                                  const Adapter* adapter = nullptr, const StillWanted& wanted = {});
  /// The tokenizer of what it reads.
  const Tokenizer& read_tokenizer() const { return translates() ? *loaded_.source_tokenizer : tokenizer(); }

  struct Load {
    int64_t running = 0, waiting = 0;
    GenerateTimes times;
  };
  Load load() const;

 private:
  std::string name_;
  Recipe recipe_;
  int64_t before_;  // bytes of all tensors, before it is loaded
  LoadedModel loaded_;
  ServeOptions options_;
  std::optional<ChatTemplate> chat_;
  std::vector<std::pair<std::string, std::unique_ptr<Adapter>>> adapters_;
  std::optional<NeighbourModel> neighbours_;
  std::shared_ptr<const LogitStep> neighbour_step_;
  std::optional<DraftSource> drafts_;
  std::unique_ptr<DecodeLoop> loop_;
  int64_t longest_ = 0, usual_answer_ = INT64_MAX;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> open_ = 0;  // requests and jobs that were submitted and are not done
  mutable std::mutex mutex_;       // of what follows
  std::vector<std::function<void()>> jobs_;
  std::condition_variable job_arrived_;  // where there is no loop
  Load load_;
  // The grammars used last, the latest first, and the vocabulary that they are over.
  static constexpr size_t kGrammars = 8;
  mutable std::mutex grammars_mutex_;
  mutable std::shared_ptr<const TokenBytes> token_bytes_;
  mutable std::deque<std::pair<std::string, std::shared_ptr<GrammarMasks>>> grammars_;
  TextQueue<Tensor> rows_;
  TextQueue<Json> predictions_;
  TextQueue<std::vector<Translation>> translations_;
  std::thread thread_;

  void try_decoding();
  std::shared_ptr<Drafter> give_drafter(DecodeRequest& request);
  void run();
  void serve();
  void run_jobs();
  // Answers to all texts, some after others, each time in the model's thread, with those of other requests of the
  // kind and adapter. read(first, texts): an answer to each, `first` being the number of the first from 0.
  template <class T>
  std::vector<T> in_passes(
      TextQueue<T>& queue, const std::string& kind, const std::vector<std::string>& texts, const Adapter* adapter,
      const StillWanted& wanted,
      const std::function<std::vector<T>(size_t first, const std::vector<std::string>& texts)>& read);
  void wake();  // the thread, which waits for requests, jobs and the end
  int64_t texts_of_a_pass() const;
  template <class T>
  T in_thread(std::function<T()> job, const StillWanted& wanted);
};

/// The scores of one row of logits: `token`'s, and the `top` best ones.
ScoredToken scored_row(std::span<const float> logits, int32_t token, int64_t top);

}  // namespace lithe
