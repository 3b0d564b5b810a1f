// Decoding of requests that come and go, all that are under way in one batch: tokens in, tokens out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "lithe/infer/decode_slots.h"
#include "lithe/infer/drafter.h"
#include "lithe/infer/prefix_tree.h"
#include "lithe/ops/weight_product.h"

namespace lithe {

/// What all requests of a loop share.
struct DecodeBudget {
  int64_t slots = 16;               // requests under way at once, at most
  int64_t tokens = 0;               // that all under way may come to together, prompts included; 0: no limit
  int64_t longest = 0;              // that one may come to; 0: as many as the model has positions for, or `tokens`
  std::optional<DType> cache = {};  // what rows of past tokens are kept in; none: the type of the rows
  bool use_cache = true;            // false: whole texts are read anew for each token
  int64_t prefill_tokens = 512;     // of prompts, read in one step beside the tokens of those who decode
  // Bytes of beginnings of prompts that are kept for others that begin so; 0: none are. What is shared are pieces of
  // `prefix_block` tokens of prompts that are read in such pieces (GenerateConfig::prefill_tokens), so that nothing is
  // computed in another way than without.
  int64_t prefix_bytes = 0, prefix_block = 512;
};

struct DecodeResult {
  std::vector<int32_t> tokens;  // that were added, without the one that ended it
  Finish finish = Finish::length;
  int64_t prompt_tokens = 0, cached_tokens = 0;  // cached: of the prompt, that were kept and not read again
  /// Where they were wanted: the model's own log-probability of each token, before all steps, and of the one that
  /// ended it.
  std::vector<double> log_probabilities;
  bool begun = false;        // it had a slot
  std::exception_ptr error;  // of Finish::failed
};

struct DecodeRequest {
  std::vector<int32_t> tokens;                               // that are continued, at least one
  std::vector<int32_t> source;                               // encoder_decoder: what the encoder reads
  std::map<std::string, std::vector<int32_t>> further = {};  // and what further encoders read, by their names
  /// What chooses tokens: max_new_tokens, do_sample to repetition_penalty, seed, exit, early_stop; and prefill_tokens,
  /// how many tokens of the prompt are read at once. A cache that it names must be the loop's. Texts and batches are
  /// the business of others.
  GenerateConfig config = {};
  /// Draws are a function of config.seed, this key and the number of the token.
  uint64_t key = 0;
  int64_t vocab_size = 0;                   // tokens from this one on are never chosen; 0: the model's vocabulary
  std::vector<int32_t> end_tokens;          // each ends it, and is not part of the result
  LogitSteps steps;                         // before those of config
  const LowRankUpdates* adapter = nullptr;  // of the model's weights, for this request; outlives the loop
  Drafter* drafter = nullptr;               // of this request alone; outlives it
  int64_t draft_tokens = 4;                 // at a time, at most
  bool log_probabilities = false;           // in the result
  std::string name = "the request";         // in errors
  /// A token was added. False: it was the last (Finish::stop).
  std::function<bool(int32_t token)> on_token;
  /// Called once, when the request is done and its slot is free.
  std::function<void(DecodeResult&&)> on_done;
};

struct GenerateTimes {
  int64_t prompt_tokens = 0, new_tokens = 0;
  int64_t peak_state_bytes = 0;      // of decode state in use
  int64_t peak_state_allocated = 0;  // of what the ledger has for it
  /// Of all steps. A step that reads prompts and continues others is shared out by rows.
  double prefill_seconds = 0, decode_seconds = 0;
  double mean_layers = 0;  // that a token ran, under a rule of early exits; 0 without
  // With drafters: passes of the model after the prompts, and tokens.
  int64_t passes = 0, drafted = 0, taken = 0;
  // Of beginnings that are kept: tokens of prompts that were found there, and what is kept now.
  int64_t cached_tokens = 0, prefixes = 0, prefix_bytes = 0;
};

/// Continuous batching, of decoders and encoder-decoders. A request waits until a slot and its tokens are free, in the
/// order of arrival: nobody is ever thrown out to be read again. Its prompt is read in pieces beside the tokens of
/// others, and who is done makes room at once. Slots and what is kept grow with the requests, up to the budget.
///
/// The tokens of a request are a function of the model, the request and the type of the cache: not of the budget, of
/// when it came or of who runs beside.
///
/// submit() and cancel() may be called by any thread, also by callbacks. One thread at a time calls the rest, and
/// callbacks run in it, inside step().
class DecodeLoop {
 public:
  using Id = uint64_t;
  /// Fails (usage) on a model that does not predict the next token, or has no cache as the budget names it.
  DecodeLoop(const Model& model, const DecodeBudget& budget);
  ~DecodeLoop();

  /// Fails (usage) on a request that can never run: it does not fit the model's positions or the budget, or asks for
  /// what the model lacks.
  Id submit(DecodeRequest request);
  /// The request is done (Finish::cancelled) before the next step runs the model. None, where it is done already.
  void cancel(Id id);

  /// Takes what was submitted and cancelled, and runs the model once over all that are under way. False: nothing is
  /// left to do. An error of one request (its steps, its on_token, logits that are not finite) ends that request alone.
  /// What on_done and the model throw leaves the loop as it is, which then must not step again.
  bool step();
  /// Waits until there is something to do (true) or wake(), or for so long at most.
  bool wait(std::optional<std::chrono::milliseconds> most = {});
  /// Ends a wait(), now or the next. Any thread may call it.
  void wake();
  /// All requests are done: Finish::interrupted.
  void interrupt();

  const GenerateTimes& times() const { return times_; }
  int64_t running() const;
  int64_t waiting() const { return int64_t(waiting_.size()); }

 private:
  struct Task;
  struct Fed;
  struct Due;
  const Model& model_;
  DecodeBudget budget_;
  DecodeSlots state_;
  bool forgets_, stops_;  // the state its last tokens, where it is asked to; the head knows where texts stop
  std::deque<std::unique_ptr<Task>> waiting_;
  std::vector<std::unique_ptr<Task>> slots_;
  std::map<std::string, ExitRun> exits_;  // by the rule's name
  int64_t reserved_ = 0;                  // tokens that those under way may come to
  std::optional<PrefixTree> prefixes_;    // whose slots stand behind those of requests
  std::vector<int64_t> free_prefixes_;    // slots that none uses
  int64_t prefix_slots_ = 0;
  GenerateTimes times_;
  bool stepping_ = false;

  std::mutex mutex_;  // of what follows
  std::condition_variable arrived_;
  std::vector<std::unique_ptr<Task>> submitted_;
  std::vector<Id> cancelled_;
  bool woken_ = false;
  Id next_ = 1;

  void check_request(const DecodeRequest& request, int64_t most) const;
  void check_source(const DecodeRequest& request) const;
  void check_drafts(const DecodeRequest& request) const;
  void take_inbox();
  void cancel_now(Id id);
  void admit();
  std::vector<Fed> choose_rows();
  bool shares(const Task& task) const;
  void begin_with_prefix(Task& task, int64_t slot);
  void keep_prefixes(const std::vector<Fed>& fed);
  void keep_prefix(std::span<const int32_t> tokens, int64_t slot, const LowRankUpdates* reader);
  void draft(Task& task);
  void run(const std::vector<Fed>& fed);
  std::vector<DecodeSlots::Predictions> read(const std::vector<Fed>& fed, std::vector<Due>& due);
  void choose_tokens(std::vector<Due>& due);
  std::optional<Finish> advance(Due& due);
  std::optional<Finish> take_drafts(Due& due);
  std::optional<Finish> add(Due& due, size_t row, int32_t token);
  void finish(std::unique_ptr<Task> task, Finish why);
  void finish_slot(size_t slot, Finish why);
  void note_state();
  void share_out(double seconds, const std::vector<Fed>& fed);
  bool idle();
};

/// Tokens that a continuation of `prompt` tokens may come to. Fails (usage), naming `name`, where the prompt has none
/// or more than the model has positions, and on numbers of `config` that are out of range.
int64_t most_tokens(const Model& model, int64_t prompt, const GenerateConfig& config, const std::string& name);
/// Fails (usage) where so many tokens never fit.
void check_fits(const DecodeBudget& budget, int64_t most_tokens, const std::string& name);

}  // namespace lithe
