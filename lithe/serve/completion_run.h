// A request for texts on its way: its choices decode in the model's thread, and what they add waits here to be sent.
#pragma once

#include <condition_variable>
#include <mutex>

#include "lithe/serve/completions.h"

namespace lithe {

class CompletionRun {
 public:
  /// Scores prompts that are echoed, which waits, and submits all choices. Throws QueueIsFull, then none runs, and what
  /// `wanted` throws.
  CompletionRun(ServedModel& model, CompletionRequest request, CompletionHead head, const StillWanted& wanted = {});
  /// Cancels what is under way.
  ~CompletionRun();
  CompletionRun(const CompletionRun&) = delete;

  const CompletionRequest& request() const { return request_; }
  struct Event {
    size_t choice;
    Completion piece;  // piece.finish set: the choice is done
  };
  /// The next piece of a choice, after so long at most. None: nothing came. Throws where a choice failed.
  std::optional<Event> next(std::chrono::milliseconds most);
  /// All choices are done and their pieces taken.
  bool done() const;

  /// The JSON of a whole answer, once it is done; waits in steps of `most`, after each of which `wanted` is called.
  Json whole(std::chrono::milliseconds most, const StillWanted& wanted = {});
  /// Tokens of the prompts and of what came so far, as usage().
  Json spent() const { return usage(request_, choices_); }
  /// Server-sent events of what came, for one call; empty: nothing yet. The last ends in [DONE].
  std::string events(std::chrono::milliseconds most);

 private:
  struct Inbox {  // outlives the run in callbacks
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<Event> events;
    std::exception_ptr error;
  };
  ServedModel& model_;
  CompletionRequest request_;
  CompletionHead head_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::vector<DecodeLoop::Id> ids_;
  std::vector<Completion> echoed_, choices_;
  std::vector<bool> begun_;
  std::vector<size_t> offsets_;  // characters of tokens that were sent
  size_t left_ = 0;
  bool ended_ = false;

  void echo(const StillWanted& wanted);
  void submit(size_t prompt, int64_t number, size_t choice);
  bool answered_by_scores(size_t prompt) const;
};

}  // namespace lithe
