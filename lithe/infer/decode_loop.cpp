#include "lithe/infer/decode_loop.h"

#include <algorithm>
#include <cmath>

#include "lithe/infer/sampler.h"
#include "lithe/model/exits.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

const Model& checked(const Model& model) {
  if (!reads_source(model.config().architecture)) model.check_predicts_next("generate");
  return model;
}

// Tokens that one request may come to.
int64_t longest(const Model& model, const DecodeBudget& budget) {
  check_usage(budget.slots >= 1 && budget.tokens >= 0 && budget.longest >= 0 && budget.prefill_tokens >= 1, "generate",
              "a loop needs a slot and a token to read at a time, and limits of at least 0; got slots ", budget.slots,
              ", prefill_tokens ", budget.prefill_tokens, ", tokens ", budget.tokens, ", longest ", budget.longest);
  if (budget.longest) return budget.longest;
  // Nothing follows the last token, so that it needs no position.
  if (const int64_t positions = model.position_limit())
    return budget.tokens ? std::min(budget.tokens, positions + 1) : positions + 1;
  check_usage(budget.tokens > 0, "generate",
              "the model has positions without end; say how many tokens a request may come to (longest)");
  return budget.tokens;
}

DecodeBudget complete(const Model& model, DecodeBudget budget) {
  budget.longest = longest(model, budget);
  return budget;
}

// log of the softmax.
std::vector<float> log_probabilities(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - most);
  std::vector<float> out;
  for (const float x : logits) out.push_back(float(double(x) - most - std::log(sum)));
  return out;
}

}  // namespace

struct DecodeLoop::Task {
  Id id;
  DecodeRequest request;
  LogitSteps chain;
  int64_t limit;                            // tokens to add, at most
  std::vector<int32_t> text;                // prompt and continuation, and in a step what was drafted behind them
  DraftLength length;                       // of drafts
  std::vector<Drafter::Draft> drafts = {};  // of this step
  ExitRun* exits = nullptr;
  DecodeResult result = {};

  int64_t most_tokens() const { return result.prompt_tokens + limit; }
  bool adds() const { return !result.tokens.empty(); }
};

// Rows of a slot in a step: tokens [begin, end) of its text.
struct DecodeLoop::Fed {
  size_t slot;
  int64_t begin, end, wanted;
};

// A slot whose next token is due, with a row for each of the tokens that were drafted, and one more.
struct DecodeLoop::Due {
  size_t slot;
  std::vector<LogitRow> rows;
  std::vector<std::vector<float>> log_probabilities = {};  // of the rows, where they are wanted
};

int64_t most_tokens(const Model& model, int64_t prompt, const GenerateConfig& config, const std::string& name) {
  config.validate();
  const int64_t positions = model.position_limit();
  check_usage(prompt > 0, "generate", name, " has no tokens; give it one to begin with");
  check_usage(!positions || prompt <= positions, "generate", name, " has ", prompt,
              " tokens, the model has positions for ", positions, "; shorten it");
  return prompt + (positions ? std::min(config.max_new_tokens, positions - prompt + 1) : config.max_new_tokens);
}

void check_fits(const DecodeBudget& budget, int64_t most_tokens, const std::string& name) {
  check_usage(!budget.tokens || most_tokens <= budget.tokens, "generate", name, " may come to ", most_tokens,
              " tokens, cache_tokens allows ", budget.tokens, "; raise it or lower max_new_tokens");
  check_usage(!budget.longest || most_tokens <= budget.longest, "generate", name, " may come to ", most_tokens,
              " tokens, the loop allows one ", budget.longest, "; raise longest or lower max_new_tokens");
}

DecodeLoop::DecodeLoop(const Model& model, const DecodeBudget& budget)
    : model_(checked(model)),
      budget_(complete(model, budget)),
      state_(model, 1, {.capacity = budget_.longest, .cache = budget.cache, .cached = budget.use_cache}),
      forgets_(state_.truncates()),
      stops_(predicts_stops(model)),
      slots_(1) {
  check_usage(budget.prefix_bytes >= 0 && budget.prefix_block >= 1, "generate",
              "beginnings of prompts are kept in at least 0 bytes and blocks of a token, got ", budget.prefix_bytes,
              " and ", budget.prefix_block);
  if (!budget.prefix_bytes) return;
  check_usage(budget.use_cache && !reads_source(model.config().architecture), "generate",
              "beginnings of prompts are kept for decoders with a cache; leave the prefix cache out");
  prefixes_.emplace(budget.prefix_block, forgets_);
}

DecodeLoop::~DecodeLoop() = default;

void DecodeLoop::check_request(const DecodeRequest& request, int64_t most) const {
  const GenerateConfig& config = request.config;
  const std::string& name = request.name;
  check_fits(budget_, most, name);
  const int64_t vocab = model_.config().vocab_size;
  check_usage(request.vocab_size >= 1 && request.vocab_size <= vocab, "generate", name,
              " is limited to a vocabulary of ", request.vocab_size, ", the model has ", vocab);
  for (const int32_t token : request.tokens)
    check_usage(token >= 0 && token < vocab, "generate", name, " has token ", token, ", the model has ", vocab);
  const bool cached = config.use_cache == budget_.use_cache;
  check_usage(cached && (config.cache_dtype.empty() || config.cache_type() == budget_.cache), "generate", name,
              " names another cache than the loop's; leave use_cache and cache_dtype out");
  exit_run_of(model_, config.exit);  // which the model must have
  check_source(request);
  if (request.drafter) check_drafts(request);
}

void DecodeLoop::check_source(const DecodeRequest& request) const {
  const bool reads = reads_source(model_.config().architecture);
  check_usage(!reads || !request.adapter, "generate", request.name,
              " has an adapter, which a model that reads sources does not take; leave it out");
  check_usage(request.source.empty() != reads, "generate", request.name, " has a source of ", request.source.size(),
              " tokens; architecture ", model_.config().architecture, reads ? " needs one" : " reads none");
  if (!reads) return;
  check_usage(budget_.use_cache, "generate", "what a source is read for is kept; leave use_cache on");
  for (const std::string& name : model_.config().source_names()) {
    const auto further = request.further.find(name);
    const bool main = name == kSource;
    check_usage(main || (further != request.further.end() && !further->second.empty()), "generate", request.name,
                " has no tokens of ", name, ", which an encoder of the model reads; give it some");
    const std::vector<int32_t>& ids = main ? request.source : further->second;
    const auto tokens = int64_t(ids.size());
    const int64_t most = model_.source_limit(name), vocab = model_.config().encoder_config(name).vocab_size;
    check_usage(!most || tokens <= most, "generate", request.name, " has a ", name, " of ", tokens,
                " tokens, the model reads at most ", most, "; split it");
    for (const int32_t token : ids)
      check_usage(token >= 0 && token < vocab, "generate", request.name, " has token ", token, " in its ", name,
                  ", the encoder has ", vocab);
  }
}

void DecodeLoop::check_drafts(const DecodeRequest& request) const {
  const GenerateConfig& config = request.config;
  check_usage(request.draft_tokens >= 1, "generate", "at least one token must be drafted, got ", request.draft_tokens);
  check_usage(budget_.use_cache, "generate", "drafting needs the cache; leave --no-cache or --draft out");
  check_usage(config.exit.empty() && !config.early_stop, "generate", "drafted tokens are checked by all layers; leave ",
              config.exit.empty() ? "early_stop" : "exit", " or --draft out");
  check_usage(forgets_, "generate",
              "drafted tokens that are not taken must be forgotten, which a layer's state cannot (one that keeps "
              "sums in place of rows, or only the last rows); leave --draft out");
}

DecodeLoop::Id DecodeLoop::submit(DecodeRequest request) {
  const GenerateConfig& config = request.config;
  const auto prompt = int64_t(request.tokens.size());
  if (request.vocab_size == 0) request.vocab_size = model_.config().vocab_size;
  const int64_t most = most_tokens(model_, prompt, config, request.name);
  check_request(request, most);

  LogitSteps chain = request.steps;
  for (auto& step : logit_steps(config, request.vocab_size)) chain.push_back(std::move(step));
  const LogitStep::Needs needs = needs_of(chain);
  check_usage(!needs.hidden || config.exit.empty(), "generate",
              "a datastore is asked by rows of all layers, which tokens that leave early lack; leave out one of --exit "
              "and --datastore");
  check_usage(!needs.stop_probability || stops_, "generate",
              "early_stop asks the head where texts end, which it did not learn; train with model.head: {type: lm, "
              "early_stop: true}, or leave it out");
  auto task = std::make_unique<Task>(Task{.id = 0,
                                          .request = std::move(request),
                                          .chain = std::move(chain),
                                          .limit = most - prompt,
                                          .text = {},
                                          .length = DraftLength(0)});
  task->text = std::move(task->request.tokens);
  task->length = DraftLength(task->request.draft_tokens);
  task->result.prompt_tokens = prompt;
  const std::lock_guard lock(mutex_);
  const Id id = task->id = next_++;
  submitted_.push_back(std::move(task));
  arrived_.notify_all();
  return id;
}

void DecodeLoop::cancel(Id id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  arrived_.notify_all();
}

bool DecodeLoop::idle() {
  if (running() || !waiting_.empty()) return false;
  const std::lock_guard lock(mutex_);
  return submitted_.empty();
}

bool DecodeLoop::wait(std::optional<std::chrono::milliseconds> most) {
  if (!idle()) return true;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return woken_ || !submitted_.empty(); };
  if (most)
    arrived_.wait_for(lock, *most, ready);
  else
    arrived_.wait(lock, ready);
  woken_ = false;
  return !submitted_.empty();
}

void DecodeLoop::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  arrived_.notify_all();
}

int64_t DecodeLoop::running() const {
  return int64_t(std::count_if(slots_.begin(), slots_.end(), [](const auto& task) { return task != nullptr; }));
}

void DecodeLoop::take_inbox() {
  std::vector<std::unique_ptr<Task>> submitted;
  std::vector<Id> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
  }
  for (auto& task : submitted) waiting_.push_back(std::move(task));
  for (const Id id : cancelled) cancel_now(id);
}

void DecodeLoop::cancel_now(Id id) {
  const auto is = [id](const auto& task) { return task && task->id == id; };
  if (const auto at = std::find_if(slots_.begin(), slots_.end(), is); at != slots_.end())
    return finish_slot(size_t(at - slots_.begin()), Finish::cancelled);
  const auto at = std::find_if(waiting_.begin(), waiting_.end(), is);
  if (at == waiting_.end()) return;
  std::unique_ptr<Task> task = std::move(*at);
  waiting_.erase(at);
  finish(std::move(task), Finish::cancelled);
}

void DecodeLoop::interrupt() {
  take_inbox();
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot]) finish_slot(slot, Finish::interrupted);
  while (!waiting_.empty()) {
    std::unique_ptr<Task> task = std::move(waiting_.front());
    waiting_.pop_front();
    finish(std::move(task), Finish::interrupted);
  }
}

void DecodeLoop::admit() {
  std::vector<DecodeSlots::Source> sources;
  while (!waiting_.empty()) {
    Task& next = *waiting_.front();
    if (budget_.tokens && reserved_ + next.most_tokens() > budget_.tokens) break;
    const auto free = size_t(std::find(slots_.begin(), slots_.end(), nullptr) - slots_.begin());
    if (free == slots_.size()) {
      if (int64_t(slots_.size()) == budget_.slots) break;
      slots_.resize(prefixes_ ? size_t(budget_.slots)
                              : std::min(slots_.size() + waiting_.size(), size_t(budget_.slots)));
      state_.grow(int64_t(slots_.size()));
    }
    reserved_ += next.most_tokens();
    times_.prompt_tokens += next.result.prompt_tokens;
    next.result.begun = true;
    const std::string& rule = next.request.config.exit;
    if (auto run = exit_run_of(model_, rule)) next.exits = &exits_.try_emplace(rule, std::move(*run)).first->second;
    if (next.request.drafter) {
      const int64_t positions = model_.position_limit();
      next.request.drafter->begin(positions ? std::min(positions, next.most_tokens()) : next.most_tokens());
    }
    if (!next.request.source.empty()) {
      sources.push_back({int64_t(free), {{kSource, next.request.source}}});
      for (const auto& [name, tokens] : next.request.further) sources.back().tokens[name] = tokens;
    }
    if (prefixes_ && shares(next)) begin_with_prefix(next, int64_t(free));
    slots_[free] = std::move(waiting_.front());
    waiting_.pop_front();
  }
  if (!sources.empty()) state_.read_sources(sources);
}

// Its rows are those that others with the same beginning have.
bool DecodeLoop::shares(const Task& task) const {
  return task.request.config.prefill_tokens == budget_.prefix_block && task.request.config.exit.empty();
}

void DecodeLoop::begin_with_prefix(Task& task, int64_t slot) {
  const auto found = prefixes_->find(task.text, task.request.adapter);
  if (!found) return;
  state_.copy(found->slot, slot);
  if (found->tokens < state_.length(slot)) state_.truncate(slot, found->tokens);
  task.result.cached_tokens = found->tokens;
  times_.cached_tokens += found->tokens;
}

// Where pieces of prompts end: there is nothing behind these tokens yet. A state that forgets serves all beginnings of
// what it has, so that the longest is enough.
void DecodeLoop::keep_prefixes(const std::vector<Fed>& fed) {
  for (const auto& [slot, begin, end, wanted] : fed) {
    const Task& task = *slots_[slot];
    if (task.adds() || end % budget_.prefix_block != 0 || !shares(task)) continue;
    if (forgets_ && end + budget_.prefix_block <= task.result.prompt_tokens) continue;
    keep_prefix(std::span(task.text).first(size_t(end)), int64_t(slot), task.request.adapter);
  }
  times_.prefixes = prefixes_->entries();
  times_.prefix_bytes = prefixes_->bytes();
}

void DecodeLoop::keep_prefix(std::span<const int32_t> tokens, int64_t slot, const LowRankUpdates* reader) {
  const int64_t bytes = model_.state_bytes({int64_t(tokens.size())}, {}, budget_.cache);
  if (bytes > budget_.prefix_bytes || prefixes_->has(tokens, reader)) return;
  const auto release = [&](int64_t freed) {
    state_.truncate(freed, 0);
    free_prefixes_.push_back(freed);
  };
  while (prefixes_->bytes() + bytes > budget_.prefix_bytes) release(*prefixes_->drop_oldest());
  if (free_prefixes_.empty()) {
    const int64_t had = std::exchange(prefix_slots_, std::max<int64_t>(4, 2 * prefix_slots_));
    state_.grow(budget_.slots + prefix_slots_);
    for (int64_t i = prefix_slots_; i-- > had;) free_prefixes_.push_back(budget_.slots + i);
  }
  const int64_t to = free_prefixes_.back();
  free_prefixes_.pop_back();
  state_.copy(slot, to);
  for (const int64_t freed : prefixes_->add(tokens, to, bytes, reader)) release(freed);
}

// Draws nothing before the prompt is read, so that its time is known.
void DecodeLoop::draft(Task& task) {
  task.drafts.clear();
  const auto n = int64_t(task.text.size());
  int64_t most = task.most_tokens() - n - 1;
  if (const int64_t positions = model_.position_limit()) most = std::min(most, positions - n);
  if (!task.adds() || (most = std::min(most, task.length.next())) <= 0) return;
  task.drafts = task.request.drafter->draft(task.text, most, task.request.key, task.request.config);
  for (const auto& [token, from] : task.drafts) task.text.push_back(token);
}

// One row of each that is under way, and new prompts, the oldest first, in pieces whose ends depend on the prompt
// alone.
std::vector<DecodeLoop::Fed> DecodeLoop::choose_rows() {
  std::vector<size_t> order;
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot]) order.push_back(slot);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return slots_[a]->id < slots_[b]->id; });
  std::vector<Fed> fed;
  int64_t prefill = 0;
  for (const size_t slot : order) {
    Task& task = *slots_[slot];
    const auto past = state_.length(int64_t(slot));
    auto all = int64_t(task.text.size()), end = all;
    if (state_.cached()) end = std::min(all, past + task.request.config.prefill_tokens);
    if (end - past > 1) {
      if (state_.cached() && prefill && prefill + end - past > budget_.prefill_tokens) continue;
      prefill += end - past;
    } else if (task.request.drafter) {
      draft(task);
      end = all = int64_t(task.text.size());
    }
    fed.push_back({slot, past, end, end == all ? 1 + int64_t(task.drafts.size()) : 0});
  }
  std::sort(fed.begin(), fed.end(), [](const Fed& a, const Fed& b) { return a.slot < b.slot; });
  return fed;
}

bool DecodeLoop::step() {
  check(!stepping_, "generate", "the loop steps already, or an error left it in the midst of a step");
  stepping_ = true;
  take_inbox();
  const auto start = Clock::now();
  admit();
  if (const std::vector<Fed> fed = choose_rows(); !fed.empty()) {
    std::vector<Due> due;
    const auto predictions = read(fed, due);
    if (prefixes_) keep_prefixes(fed);
    share_out(std::chrono::duration<double>(Clock::now() - start).count(), fed);
    choose_tokens(due);
  }
  stepping_ = false;
  return !idle();
}

// One run of the model for each adapter and rule of exits. The rows that are due point into what is returned.
std::vector<DecodeSlots::Predictions> DecodeLoop::read(const std::vector<Fed>& fed, std::vector<Due>& due) {
  std::map<std::pair<const LowRankUpdates*, ExitRun*>, std::vector<const Fed*>> runs;
  for (const Fed& f : fed) runs[{slots_[f.slot]->request.adapter, slots_[f.slot]->exits}].push_back(&f);
  std::vector<DecodeSlots::Predictions> out;
  for (const auto& [how, members] : runs) {
    const LowRankScope adapted(how.first);
    std::vector<DecodeSlots::Piece> pieces;
    LogitStep::Needs needs;
    for (const Fed* f : members) {
      const Task& task = *slots_[f->slot];
      const std::span<const int32_t> text(task.text);
      pieces.push_back({int64_t(f->slot), text.subspan(size_t(f->begin), size_t(f->end - f->begin)), f->wanted});
      if (f->wanted) needs = needs | needs_of(task.chain);
    }
    out.push_back(state_.read(pieces, how.second, needs));
    int64_t row = 0;
    for (const Fed* f : members) {
      if (f->wanted == 0) continue;
      due.push_back({f->slot, {}});
      const Task& task = *slots_[f->slot];
      for (size_t before = task.text.size() + 1 - size_t(f->wanted); before <= task.text.size(); ++before) {
        due.back().rows.push_back(out.back().row(row++, std::span(task.text).first(before), task.result.prompt_tokens));
        due.back().rows.back().tokens_left = std::max<int64_t>(0, task.most_tokens() - int64_t(before));
      }
    }
  }
  std::sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return a.slot < b.slot; });
  note_state();
  return out;
}

void DecodeLoop::choose_tokens(std::vector<Due>& due) {
  std::vector<LogitRow*> rows;
  std::vector<const LogitSteps*> chains;
  for (Due& d : due)
    for (LogitRow& row : d.rows) {
      const Task& task = *slots_[d.slot];
      if (task.request.log_probabilities) d.log_probabilities.push_back(log_probabilities(row.choice.scores()));
      rows.push_back(&row);
      chains.push_back(&task.chain);
    }
  run_steps(rows, chains);
  for (Due& d : due) {
    std::optional<Finish> end;
    try {
      end = advance(d);
    } catch (...) {
      slots_[d.slot]->result.error = std::current_exception();
      end = Finish::failed;
    }
    if (end) finish_slot(d.slot, *end);
  }
}

std::optional<Finish> DecodeLoop::advance(Due& due) {
  Task& task = *slots_[due.slot];
  task.text.resize(task.text.size() - task.drafts.size());  // the tokens that rows show end here
  for (const LogitRow& row : due.rows)
    if (row.error) std::rethrow_exception(row.error);
  if (task.request.drafter) return take_drafts(due);
  LogitRow& row = due.rows[0];
  if (row.end) return row.end;
  const auto added = int64_t(task.result.tokens.size());
  return add(due, 0, row.choice.choose(uniform_draw(task.request.config.seed, task.request.key, added)));
}

std::optional<Finish> DecodeLoop::take_drafts(Due& due) {
  Task& task = *slots_[due.slot];
  std::vector<LogitRow>& rows = due.rows;
  std::vector<Drafter::Draft>& drafts = task.drafts;
  const auto n = int64_t(task.text.size()), drafted = int64_t(drafts.size());
  // Behind a row where a step ends the text nothing was worth drafting.
  size_t last = 0;
  while (last < drafts.size() && !rows[last].end) ++last;
  drafts.resize(last);
  std::vector<TokenDistribution> target;
  for (size_t i = 0; i <= last; ++i)
    target.push_back(rows[i].end ? TokenDistribution{.certain = 0} : rows[i].choice.distribution());
  const Verdict verdict = verify(drafts, target, task.request.config.seed, task.request.key, n);
  const auto taken = int64_t(verdict.taken);
  task.length.found(drafted, taken);
  if (task.adds()) ++times_.passes, times_.drafted += drafted, times_.taken += taken;
  if (n + taken < state_.length(int64_t(due.slot))) state_.truncate(int64_t(due.slot), n + taken);
  for (size_t i = 0; i < verdict.taken; ++i)
    if (const auto end = add(due, i, drafts[i].token)) return end;
  if (rows[verdict.taken].end) return rows[verdict.taken].end;
  return add(due, verdict.taken, verdict.next);
}

std::optional<Finish> DecodeLoop::add(Due& due, size_t row, int32_t token) {
  Task& task = *slots_[due.slot];
  if (!due.log_probabilities.empty())
    task.result.log_probabilities.push_back(double(due.log_probabilities[row][size_t(token)]));
  const std::vector<int32_t>& ends = task.request.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return Finish::end;
  task.text.push_back(token);
  task.result.tokens.push_back(token);
  ++times_.new_tokens;
  if (task.request.on_token && !task.request.on_token(token)) return Finish::stop;
  if (int64_t(task.result.tokens.size()) < task.limit) return std::nullopt;
  return task.limit < task.request.config.max_new_tokens ? Finish::positions : Finish::length;
}

void DecodeLoop::finish(std::unique_ptr<Task> task, Finish why) {
  task->result.finish = why;
  if (task->request.on_done) task->request.on_done(std::move(task->result));
}

void DecodeLoop::finish_slot(size_t slot, Finish why) {
  std::unique_ptr<Task> task = std::move(slots_[slot]);
  reserved_ -= task->most_tokens();
  state_.truncate(int64_t(slot), 0);
  finish(std::move(task), why);
}

void DecodeLoop::note_state() {
  times_.peak_state_bytes = std::max(times_.peak_state_bytes, state_.bytes());
  if (state_.cached())
    times_.peak_state_allocated =
        std::max(times_.peak_state_allocated, ledger(model_.device()).current(MemoryClass::decode));
  double layers = 0;
  int64_t counted = 0;
  for (const auto& [rule, run] : exits_) {
    counted += run.counted();
    for (size_t l = 0; l < run.ran.size(); ++l) layers += double(l) * double(run.ran[l]);
  }
  if (!exits_.empty()) times_.mean_layers = layers / double(std::max<int64_t>(counted, 1));
}

void DecodeLoop::share_out(double seconds, const std::vector<Fed>& fed) {
  int64_t prompt = 0, all = 0;
  for (const auto& [slot, begin, end, wanted] : fed) {
    all += end - begin;
    if (!slots_[slot]->adds()) prompt += end - begin;
  }
  times_.prefill_seconds += seconds * double(prompt) / double(all);
  times_.decode_seconds += seconds * double(all - prompt) / double(all);
}

}  // namespace lithe
