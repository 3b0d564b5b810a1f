#include "lithe/serve/served_model.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/eval/prediction.h"
#include "lithe/eval/sentence_rows.h"
#include "lithe/eval/similarity.h"
#include "lithe/eval/token_likelihoods.h"
#include "lithe/ops/basic.h"
#include "lithe/serve/serve_memory.h"
#include "lithe/text/framing.h"

namespace lithe {
namespace {

bool predicts_next(const Model& model) {
  return model.config().architecture == Architecture::decoder &&
         (model.config().head.type == "lm" || model.config().head.type == "hash_codes");
}

const LowRankUpdates* updates_of(const Adapter* adapter) { return adapter ? &adapter->updates() : nullptr; }

}  // namespace

std::string served_name(const Path& run) {
  const Path whole = std::filesystem::absolute(run).lexically_normal();
  return (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

ScoredToken scored_row(std::span<const float> logits, int32_t token, int64_t top) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - double(best));
  const auto score = [&](int32_t id) {
    return TokenScore{id, double(logits[size_t(id)]) - double(best) - std::log(sum)};
  };
  ScoredToken out{score(token), {}};
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(top, int64_t(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  });
  for (int64_t i = 0; i < count; ++i) out.best.push_back(score(order[size_t(i)]));
  return out;
}

ServedModel::ServedModel(const Path& run, const ServeOptions& options)
    : name_(served_name(run)),
      recipe_(recipe_of_run(run)),
      before_(ledger(Device::cpu).current()),
      loaded_(load_model(run, options.weights, options.precision, options.el_rewrite)),
      options_(options) {
  if (!options.chat_template.empty())
    chat_.emplace(options.chat_template, *loaded_.tokenizer);
  else
    try {
      chat_ = ChatTemplate::of_run(run, *loaded_.tokenizer);
    } catch (const Error& error) {
      log_warning("'", run.string(), "' answers no chats: ", error.what());
    }
  for (const auto& [name, directory] : options.adapters)
    adapters_.emplace_back(name, std::make_unique<Adapter>(*loaded_.model, directory, run, options.weights));
  int64_t rank = 0;
  for (const auto& [name, adapter] : adapters_) rank = std::max(rank, adapter->rank());
  if (predicts_next(*loaded_.model)) {
    DecodeBudget budget = options.budget;
    const int64_t positions = loaded_.model->position_limit();
    if (!budget.longest) budget.longest = 1 + (positions ? positions : loaded_.model->config().max_position_embeddings);
    if (budget.tokens) budget.longest = std::min(budget.longest, budget.tokens);
    if (options.neighbours) neighbours_ = options.neighbours(run, loaded_);
    if (neighbours_) neighbour_step_ = neighbour_step(*neighbours_);
    if (!options.draft.empty()) drafts_.emplace(options.draft, loaded_, options.precision);
    const int64_t weights = ledger(Device::cpu).current() - before_;
    if (options.memory) {
      const int64_t drafted = options.draft.empty() ? 0 : options.draft_tokens;
      ServeMemory plan = plan_serving(*loaded_.model, weights, budget, drafted, rank);
      plan.work = std::max(plan.work, encoding_work(*loaded_.model, recipe_.data.sequence_length, rank));
      budget = within_memory(plan, options.memory, budget, name_);
      log_info("'", name_, "' has room for ", budget.tokens, " tokens, ", budget.longest, " a request");
    }
    longest_ = budget.longest;
    if (budget.tokens) usual_answer_ = std::max<int64_t>(16, budget.tokens / budget.slots);
    budget.prefix_block = recipe_.generate.prefill_tokens;
    loop_ = std::make_unique<DecodeLoop>(*loaded_.model, budget);
    try_decoding();
  } else if (options.memory) {
    check_encoding_fits(ledger(Device::cpu).current() - before_,
                        encoding_work(*loaded_.model, recipe_.data.sequence_length, rank), options.memory, name_);
  }
  // Ends this thread's own helpers. With them there would be more threads than cores, and OpenMP lets those of the
  // model's thread sleep between loops (some 150 times a token of a model of GPT-2's size).
  omp_pause_resource_all(omp_pause_soft);
  thread_ = std::thread([this] { this->run(); });
}

ServedModel::~ServedModel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

std::shared_ptr<GrammarMasks> ServedModel::masks(const std::string& key, const std::function<Grammar()>& make) const {
  const auto taken = [&]() -> std::shared_ptr<GrammarMasks> {
    const auto at = std::find_if(grammars_.begin(), grammars_.end(), [&](const auto& one) { return one.first == key; });
    if (at == grammars_.end()) return nullptr;
    std::rotate(grammars_.begin(), at, at + 1);
    return grammars_.front().second;
  };
  {
    const std::lock_guard lock(grammars_mutex_);
    if (auto known = taken()) return known;
  }
  Grammar grammar = make();
  const std::lock_guard lock(grammars_mutex_);
  if (auto known = taken()) return known;
  if (!token_bytes_) token_bytes_ = std::make_shared<TokenBytes>(tokenizer());
  grammars_.emplace_front(key, std::make_shared<GrammarMasks>(token_bytes_, std::move(grammar)));
  if (grammars_.size() > kGrammars) grammars_.pop_back();
  return grammars_.front().second;
}

GenerateConfig ServedModel::base_config() const {
  GenerateConfig out = recipe_.generate;
  out.exit = options_.exit;
  out.early_stop = options_.early_stop.has_value();
  out.early_stop_margin = options_.early_stop.value_or(out.early_stop_margin);
  out.use_cache = options_.budget.use_cache;
  out.cache_dtype.clear();
  return out;
}

std::shared_ptr<Drafter> ServedModel::give_drafter(DecodeRequest& request) {
  std::shared_ptr<Drafter> drafter;
  if (drafts_) drafter = drafts_->make(request.config);
  request.drafter = drafter.get();
  request.draft_tokens = options_.draft_tokens;
  return drafter;
}

// Ways of decoding that the model, or the drafter, lacks are refused before anybody asks.
void ServedModel::try_decoding() {
  check_usage(!neighbours_ || !drafts_, "serve",
              "--draft checks tokens by the model alone; leave out --draft or --datastore");
  DecodeRequest request{.tokens = {0}, .config = base_config()};
  request.config.max_new_tokens = 1;
  request.config.validate();
  if (neighbour_step_) request.steps = {neighbour_step_};
  const std::shared_ptr<Drafter> drafter = give_drafter(request);
  if (drafter) drafter->begin(2);
  loop_->cancel(loop_->submit(std::move(request)));
  loop_->step();
}

void ServedModel::check_queue() const {
  if (open_ >= options_.budget.slots + options_.queue) throw QueueIsFull(cat(options_.queue, " requests wait already"));
}

DecodeLoop::Id ServedModel::submit(DecodeRequest request) {
  check(!stopping_, "serve", "the model answers no more");
  ++open_;
  const std::shared_ptr<Drafter> drafter = give_drafter(request);
  request.on_done = [this, drafter, done = std::move(request.on_done)](DecodeResult&& result) {
    --open_;
    done(std::move(result));
  };
  try {
    return loop_->submit(std::move(request));
  } catch (...) {
    --open_;
    throw;
  }
}

template <class T>
T ServedModel::in_thread(std::function<T()> job, const StillWanted& wanted) {
  if (wanted) wanted();
  auto task = std::make_shared<std::packaged_task<T()>>(std::move(job));
  auto dropped = std::make_shared<std::atomic<bool>>(false);
  std::future<T> result = task->get_future();
  const struct Open {
    std::atomic<int64_t>& count;
    explicit Open(std::atomic<int64_t>& of) : count(of) { ++count; }
    ~Open() { --count; }
  } open(open_);
  {
    const std::lock_guard lock(mutex_);
    check(!stopping_, "serve", "the server stops");
    jobs_.push_back([task, dropped] {
      if (!*dropped) (*task)();
    });
  }
  wake();
  try {
    while (wanted && result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) wanted();
  } catch (...) {
    *dropped = true;
    throw;
  }
  return result.get();
}

int64_t ServedModel::texts_of_a_pass() const { return options_.memory ? kTextsOfAPass : 32; }

template <class T>
std::vector<T> ServedModel::in_passes(
    TextQueue<T>& queue, const std::string& kind, const std::vector<std::string>& texts, const Adapter* adapter,
    const StillWanted& wanted,
    const std::function<std::vector<T>(size_t first, const std::vector<std::string>& texts)>& read) {
  check_queue();
  std::vector<T> out;
  const auto pass = size_t(texts_of_a_pass());
  for (size_t first = 0; first < texts.size(); first += pass) {
    const auto ticket = queue.add(
        {.kind = cat(static_cast<const void*>(adapter), " ", kind),
         .texts = {texts.begin() + ptrdiff_t(first), texts.begin() + ptrdiff_t(std::min(texts.size(), first + pass))},
         .read = [first, read](const std::vector<std::string>& some) { return read(first, some); }});
    const auto job = [&queue, ticket, adapter, pass] {
      const NoGrad no_grad;
      const LowRankScope adapted(updates_of(adapter));
      return queue.answer(ticket, pass);
    };
    std::vector<T> some = in_thread<std::vector<T>>(job, wanted);
    std::move(some.begin(), some.end(), std::back_inserter(out));
  }
  return out;
}

void ServedModel::wake() {
  job_arrived_.notify_all();
  if (loop_) loop_->wake();
}

ServedModel::Scores ServedModel::score(std::vector<int32_t> tokens, int64_t top, const Adapter* adapter,
                                       const StillWanted& wanted) {
  const int64_t positions = model().position_limit(), vocab = model().config().vocab_size;
  check_usage(!tokens.empty(), "score", "the text has no tokens");
  check_usage(!positions || int64_t(tokens.size()) <= positions, "score", "the text has ", tokens.size(),
              " tokens, the model has positions for ", positions);
  for (const int32_t token : tokens)
    check_usage(token >= 0 && token < vocab, "score", "the text has token ", token, ", the model has ", vocab);
  const auto scored = [this, tokens = std::move(tokens), top, adapter] {
    const NoGrad no_grad;
    const LowRankScope adapted(updates_of(adapter));
    const auto n = int64_t(tokens.size());
    Pass pass;
    const Rows rows = model().run({tensor_of({n}, std::span<const int32_t>(tokens)), Sequences::single(n)}, pass);
    Scores out;
    for (int64_t first = 0; first < n; first += kRowsOfLogits) {
      std::vector<int64_t> some(size_t(std::min(kRowsOfLogits, n - first)));
      std::iota(some.begin(), some.end(), first);
      const Tensor logits = cast(model().logits(rows, some), DType::f32).value();
      for (int64_t i = 0; i < int64_t(some.size()); ++i) {
        const std::span<const float> row(logits.data<float>() + i * logits.cols(), size_t(logits.cols()));
        const bool last = first + i + 1 == n;
        const int32_t token =
            last ? int32_t(std::max_element(row.begin(), row.end()) - row.begin()) : tokens[size_t(first + i + 1)];
        ScoredToken scored = scored_row(row, token, top);
        if (last)
          out.next = std::move(scored);
        else
          out.tokens.push_back(std::move(scored));
      }
    }
    return out;
  };
  return in_thread<Scores>(scored, wanted);
}

int64_t ServedModel::longest_text() const { return recipe_.data.sequence_length - frame_specials(tokenizer(), false); }

Tensor ServedModel::encode(const std::vector<std::string>& texts, const Adapter* adapter, const StillWanted& wanted,
                           std::optional<int64_t> most) {
  const auto longest = most.value_or(longest_text()) + frame_specials(tokenizer(), false);
  const auto read = [this, longest](size_t, const std::vector<std::string>& some) {
    Tensor rows =
        sentence_rows(model(), tokenizer(), some, recipe_.encode.pooling, longest, {}, texts_of_a_pass() * longest);
    if (recipe_.encode.normalize) rows = normalize_rows(rows);
    std::vector<Tensor> each;
    for (int64_t i = 0; i < rows.rows(); ++i) each.push_back(rows.slice(i, i + 1));
    return each;
  };
  const std::vector<Tensor> rows = in_passes<Tensor>(rows_, std::to_string(longest), texts, adapter, wanted, read);
  const Tensor out = empty({int64_t(texts.size()), model().config().hidden_size}, DType::f32);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(rows[i].data<float>(), out.cols(), out.data<float>() + int64_t(i) * out.cols());
  return out;
}

bool ServedModel::predicts() const {
  const DataConfig& data = recipe_.data;
  return (recipe_.has_task() || recipe_.train.objective.type == "task") && !data.image.given() && !data.audio.given() &&
         recipe_.task.further_sources().empty() && task_type(recipe_.task) != TaskType::text &&
         task_type(recipe_.task) != TaskType::transcription;
}

Json ServedModel::predict(const std::vector<std::string>& texts, const Adapter* adapter, const StillWanted& wanted) {
  const auto read = [this](size_t first, const std::vector<std::string>& some) {
    const TaskType type = task_type(recipe_.task);
    const int64_t length = recipe_.data.sequence_length;
    std::vector<Example> examples;
    for (const std::string& text : some) examples.push_back(example_without_label(text, type));
    const TaskBatches batches(std::move(examples), type, tokenizer(), length, texts_of_a_pass() * length, 0, false,
                              task_reading(recipe_));
    check_usage(batches.cut() == 0, "predict", "of the texts ", first + 1, " to ", first + some.size(), " ",
                batches.cut(), " have more tokens than the ", length, " that the model reads; shorten them");
    const TaskAnswers answers = answer(model(), batches);
    check(!stop_signal(), "predict", "stopped by signal ", stop_signal());
    std::vector<Json> said;
    for (size_t i = 0; i < answers.predictions.size(); ++i)
      said.push_back(prediction_json(type, answers, i, model().config().label_names));
    return said;
  };
  return in_passes<Json>(predictions_, "", texts, adapter, wanted, read);
}

std::vector<std::vector<Translation>> ServedModel::translate(const std::vector<std::string>& texts,
                                                             const TranslateConfig& config, const Adapter* adapter,
                                                             const StillWanted& wanted) {
  const auto read = [this, config](size_t first, const std::vector<std::string>& some) {
    std::vector<std::vector<Translation>> found =
        lithe::translate(model(), read_tokenizer(), tokenizer(), some, config, "", {}, int64_t(first) + 1);
    check(!stop_signal(), "translate", "stopped by signal ", stop_signal());
    return found;
  };
  const Json asked = {config.num_beams, config.num_return_sequences, config.length_penalty, config.max_new_tokens};
  return in_passes<std::vector<Translation>>(translations_, asked.dump(), texts, adapter, wanted, read);
}

ServedModel::Load ServedModel::load() const {
  const std::lock_guard lock(mutex_);
  Load out = load_;
  out.waiting = std::max<int64_t>(0, open_ - out.running);
  return out;
}

void ServedModel::run_jobs() {
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
    if (loop_) load_.running = loop_->running(), load_.times = loop_->times();
  }
  for (const auto& job : jobs) job();
}

void ServedModel::serve() {
  while (!stopping_) {
    run_jobs();
    if (!loop_) {
      std::unique_lock lock(mutex_);
      job_arrived_.wait(lock, [&] { return !jobs_.empty() || stopping_; });
    } else if (loop_->wait()) {
      loop_->step();
    }
  }
}

void ServedModel::run() {
  try {
    serve();
  } catch (const std::exception& error) {  // of the model, not of a request
    log_line(LogLevel::error, cat("'", name_, "' answers no more: ", error.what()));
    stopping_ = true;
  }
  if (loop_) loop_->interrupt();
  run_jobs();
}

}  // namespace lithe
