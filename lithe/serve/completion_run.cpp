#include "lithe/serve/completion_run.h"

#include "lithe/infer/generate.h"

namespace lithe {
namespace {

std::string finish_of(Finish finish) {
  switch (finish) {
    case Finish::length:
    case Finish::positions: return "length";
    case Finish::end:
    case Finish::stop:
    case Finish::early_stop: return "stop";
    case Finish::cancelled:
    case Finish::interrupted:
    case Finish::failed: break;
  }
  return "";
}

}  // namespace

CompletionRun::CompletionRun(ServedModel& model, CompletionRequest request, CompletionHead head,
                             const StillWanted& wanted)
    : model_(model), request_(std::move(request)), head_(std::move(head)) {
  model_.check_queue();
  const auto n = size_t(request_.n);
  choices_.resize(request_.prompts.size() * n);
  begun_.resize(choices_.size());
  offsets_.resize(choices_.size());
  left_ = choices_.size();
  if (request_.echo) echo(wanted);
  try {
    for (size_t i = 0; i < choices_.size(); ++i) submit(i / n, int64_t(i % n), i);
  } catch (...) {
    for (const DecodeLoop::Id id : ids_) model_.cancel(id);
    throw;
  }
}

CompletionRun::~CompletionRun() {
  if (left_)
    for (const DecodeLoop::Id id : ids_) model_.cancel(id);
}

// What a greedy choice of one token is, the scores of the prompt say already.
bool CompletionRun::answered_by_scores(size_t prompt) const {
  return request_.echo && request_.logprobs && request_.config.max_new_tokens == 1 && !request_.config.do_sample &&
         request_.steps.empty() && !request_.grammar && model_.decodes_plainly() &&
         request_.config.repetition_penalty == 1 && prompt < echoed_.size();
}

void CompletionRun::echo(const StillWanted& wanted) {
  const Tokenizer& tokenizer = model_.tokenizer();
  for (size_t p = 0; p < request_.prompts.size(); ++p) {
    const std::vector<int32_t>& prompt = request_.prompts[p];
    const size_t sent = request_.begun[p];
    Completion one;
    for (size_t i = 0; i < prompt.size(); ++i) {
      const std::string text = i < sent ? "" : tokenizer.piece(prompt[i], i == sent);
      one.text += text;
      if (request_.logprobs) one.tokens.push_back({text, {{prompt[i], 0}, {}}});
    }
    if (request_.logprobs) {
      ServedModel::Scores scores =
          model_.score(prompt, std::max<int64_t>(1, *request_.logprobs), request_.adapter, wanted);
      for (size_t i = 1; i < prompt.size(); ++i) one.tokens[i].score = std::move(scores.tokens[i - 1]);
      one.tokens.push_back({tokenizer.piece(scores.next.token.token, false), std::move(scores.next)});
    }
    echoed_.push_back(std::move(one));
  }
}

void CompletionRun::submit(size_t prompt, int64_t number, size_t choice) {
  const Tokenizer& tokenizer = model_.tokenizer();
  const std::optional<int32_t> end = tokenizer.specials().eos;
  if (request_.only_prompt) {
    if (number == 0) echoed_[prompt].tokens.pop_back();
    inbox_->events.push_back({choice, {.text = "", .tokens = {}, .finish = "length"}});
    return;
  }
  if (answered_by_scores(prompt)) {
    Completion piece;
    piece.tokens.push_back(echoed_[prompt].tokens.back());
    if (number + 1 == request_.n) echoed_[prompt].tokens.pop_back();
    const bool ends = piece.tokens[0].score.token.token == end;
    piece.text = ends ? "" : piece.tokens[0].text;
    piece.finish = ends ? "stop" : "length";
    piece.new_tokens = 1;
    inbox_->events.push_back({choice, std::move(piece)});
    return;
  }
  if (request_.echo && request_.logprobs && number == 0) echoed_[prompt].tokens.pop_back();  // what follows is chosen
  struct Progress {
    std::shared_ptr<ScoreRecorder> recorder;
    std::vector<CompletionToken> scored;
    size_t count = 0;
  };
  const auto progress = std::make_shared<Progress>();
  const auto deliver = [inbox = inbox_, choice](Completion&& piece) {
    const std::lock_guard lock(inbox->mutex);
    inbox->events.push_back({choice, std::move(piece)});
    inbox->arrived.notify_all();
    return true;
  };
  const bool whole_too = request_.stream;
  DecodeRequest request = text_request(
      tokenizer, request_.prompts[prompt], request_.empty[prompt], request_.config,
      [=](std::string_view text) {
        if (!whole_too) return true;
        Completion piece{.text = std::string(text), .tokens = std::move(progress->scored), .finish = ""};
        progress->scored.clear();
        return deliver(std::move(piece));
      },
      [=, inbox = inbox_, echo = request_.echo, logprobs = request_.logprobs.has_value()](Generation&& result) {
        if (result.error || finish_of(result.finish).empty()) {
          const std::lock_guard lock(inbox->mutex);
          inbox->error =
              result.error ? result.error : std::make_exception_ptr(Error("serve", "the request was cancelled"));
          inbox->arrived.notify_all();
          return;
        }
        if (logprobs && echo && result.finish == Finish::end && result.tokens.empty() && end)
          progress->scored.push_back({"", progress->recorder->of(progress->count, *end)});
        Completion piece{.text = whole_too ? "" : result.text,
                         .tokens = std::move(progress->scored),
                         .finish = finish_of(result.finish),
                         .new_tokens = int64_t(result.tokens.size()),
                         .cached_tokens = result.cached_tokens};
        deliver(std::move(piece));
      });
  request.steps = request_.steps;
  if (request_.adapter) request.adapter = &request_.adapter->updates();
  if (request_.grammar)
    request.steps.insert(request.steps.begin(),
                         grammar_step(request_.grammar, request.end_tokens, request_.empty[prompt]));
  if (const auto& neighbours = model_.neighbours()) request.steps.insert(request.steps.begin(), neighbours);
  if (request_.logprobs) {
    progress->recorder = std::make_shared<ScoreRecorder>(std::max<int64_t>(request_.chat ? 0 : 1, *request_.logprobs));
    request.steps.insert(request.steps.begin(), progress->recorder);
    request.on_token = [=, inner = std::move(request.on_token), &tokenizer](int32_t token) {
      progress->scored.push_back({tokenizer.piece(token, false), progress->recorder->of(progress->count++, token)});
      return inner(token);
    };
  }
  request.key = uint64_t(number);
  ids_.push_back(model_.submit(std::move(request)));
}

std::optional<CompletionRun::Event> CompletionRun::next(std::chrono::milliseconds most) {
  std::unique_lock lock(inbox_->mutex);
  inbox_->arrived.wait_for(lock, most, [&] { return !inbox_->events.empty() || inbox_->error; });
  if (inbox_->events.empty()) {
    if (inbox_->error) std::rethrow_exception(inbox_->error);
    return {};
  }
  Event event = std::move(inbox_->events.front());
  inbox_->events.erase(inbox_->events.begin());
  Completion& choice = choices_[event.choice];
  if (!event.piece.finish.empty()) {
    choice.new_tokens = event.piece.new_tokens;
    choice.cached_tokens = event.piece.cached_tokens;
    --left_;
  }
  return event;
}

bool CompletionRun::done() const { return left_ == 0; }

Json CompletionRun::whole(std::chrono::milliseconds most, const StillWanted& wanted) {
  using Clock = std::chrono::steady_clock;
  for (auto looked = Clock::now(); !done();) {
    if (std::optional<Event> event = next(most)) {
      Completion& choice = choices_[event->choice];
      choice.text += event->piece.text;
      choice.finish = event->piece.finish;
      std::move(event->piece.tokens.begin(), event->piece.tokens.end(), std::back_inserter(choice.tokens));
    }
    if (done() || Clock::now() - looked < most) continue;
    if (wanted) wanted();
    looked = Clock::now();
  }
  return whole_answer(request_, head_, model_.tokenizer(), echoed_, choices_);
}

std::string CompletionRun::events(std::chrono::milliseconds most) {
  std::string out;
  const auto put = [&](const Json& chunk) { out += "data: " + dump(chunk, -1, Invalid::replaced) + "\n\n"; };
  for (auto wait = most; std::optional<Event> event = next(wait); wait = std::chrono::milliseconds(0)) {
    put(answer_chunk(request_, head_, model_.tokenizer(), event->choice, event->piece, !begun_[event->choice],
                     &offsets_[event->choice]));
    begun_[event->choice] = true;
    if (done()) break;
  }
  if (done() && !ended_) {
    ended_ = true;
    if (request_.include_usage) put(usage_chunk(request_, head_, choices_));
    out += "data: [DONE]\n\n";
  }
  return out;
}

}  // namespace lithe
