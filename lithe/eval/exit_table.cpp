#include "lithe/eval/exit_table.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "lithe/base/stop.h"
#include "lithe/eval/perplexity.h"
#include "lithe/model/exits.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;
using Criterion = ExitRule::Criterion;

// No rule first, then the rules.
std::vector<std::optional<ExitRun>> runs_of(const Model& model, const std::vector<ExitRule>& rules) {
  std::vector<std::optional<ExitRun>> out{std::nullopt};
  for (const ExitRule& rule : rules) out.push_back(exit_run_of(model, text_of(rule)));
  return out;
}

ExitPoint begun(const Model& model, const std::optional<ExitRun>& run) {
  ExitPoint point;
  if (run) point.rule = run->rule;
  point.mean_layers = double(model.config().num_hidden_layers);
  return point;
}

// Rules take turns, this many times, and the fastest counts: what else the machine does hardly shows, nor that its
// speed changes.
constexpr int kPasses = 5;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Milliseconds of a decoding step under each rule: the mean over the tokens of the fastest pass each.
void time_steps(const Model& model, const std::vector<int32_t>& tokens, const std::vector<std::optional<ExitRun>>& runs,
                ExitTable& table) {
  const NoGrad no_grad;
  std::vector<std::vector<double>> least(runs.size(), std::vector<double>(tokens.size(), INFINITY));
  for (int pass = 0; pass < kPasses; ++pass)
    for (size_t r = 0; r < runs.size(); ++r) {
      std::optional<ExitRun> run = runs[r];
      const auto state = model.make_state(1, int64_t(tokens.size()));
      for (size_t i = 0; i < tokens.size(); ++i) {
        const Tensor token = tensor_of({1}, std::vector<int32_t>{tokens[i]});
        const auto start = Clock::now();
        Pass pass;
        pass.set_exits(run ? &*run : nullptr);
        const Rows rows = model.run({token, model.continue_sequences(*state, {1})}, pass, state.get());
        model.logits(rows, {0});
        least[r][i] = std::min(least[r][i], milliseconds_since(start));
      }
      check(!stop_signal(), "eval", "stopped by signal ", stop_signal());
    }
  for (size_t r = 0; r < runs.size(); ++r)
    table.points[r].milliseconds =
        std::accumulate(least[r].begin(), least[r].end(), 0.0) / double(std::max<size_t>(tokens.size(), 1));
}

// The first `count` tokens, document by document.
std::vector<std::vector<int32_t>> first_tokens(const TokenStore& text, int64_t count) {
  std::vector<std::vector<int32_t>> out;
  for (int64_t d = 0; d < text.documents() && count > 0; ++d) {
    const int64_t first = text.document_begin(d), n = std::min(count, text.document_end(d) - first);
    if (n < 1) continue;
    out.emplace_back(size_t(n));
    text.copy(first, n, out.back().data());
    count -= n;
  }
  return out;
}

}  // namespace

double relative_loss(const ExitTable& table, const ExitPoint& point) {
  const double whole = table.points.at(0).quality, difference = point.quality - whole;
  return difference == 0 ? 0 : (table.lower_is_better ? difference : -difference) / std::abs(whole);
}

const ExitPoint* best_exit(const ExitTable& table, double most) {
  const ExitPoint* best = nullptr;
  for (const ExitPoint& p : table.points)
    if (p.rule && relative_loss(table, p) <= most && p.milliseconds < table.points[0].milliseconds &&
        (!best || p.milliseconds < best->milliseconds))
      best = &p;
  return best;
}

std::vector<ExitRule> exit_grid(const Model& model) {
  std::vector<ExitRule> out;
  const auto add = [&](Criterion criterion, const std::vector<double>& thresholds) {
    for (const double t : thresholds) out.push_back({.criterion = criterion, .threshold = t});
  };
  std::vector<double> layers, patience;
  for (size_t e = 0; e < model.exits().size(); ++e) {
    layers.push_back(double(model.exits()[e].layer + 1));
    if (e > 0 && e <= 4) patience.push_back(double(e));
  }
  add(Criterion::layer, layers);
  add(Criterion::entropy, {0.1, 0.3, 0.5, 1, 2});
  add(Criterion::maxprob, {0.98, 0.9, 0.8, 0.6, 0.4});
  add(Criterion::margin, {0.9, 0.7, 0.4, 0.2});
  add(Criterion::similarity, {0.999, 0.99, 0.97, 0.94, 0.9});
  if (model.exits().size() > 1) add(Criterion::divergence, {1e-3, 1e-2, 3e-2, 0.1});
  add(Criterion::patience, patience);
  for (const Parameter& p : model.parameters().all())
    if (p.name == "stack.depth_predictor.weight") add(Criterion::predictor, {0});
  return out;
}

ExitTable text_exit_table(const Model& model, const TokenStore& text, int64_t context, int64_t scored, int64_t timed,
                          const std::vector<ExitRule>& rules, const Progress& progress) {
  model.check_predicts_next("eval");
  const auto runs = runs_of(model, rules);
  const std::vector<std::vector<int32_t>> documents = first_tokens(text, scored);
  check_usage(!documents.empty(), "eval", "the text has no token to score");
  const TokenStore part = TokenStore::from_documents(documents, {.vocab_size = text.info().vocab_size,
                                                                 .begin_of_text = text.info().begin_of_text,
                                                                 .end_of_text = text.info().end_of_text});
  std::vector<int32_t> steps;
  const int64_t limit = model.position_limit();
  for (const auto& document : documents)
    for (const int32_t token : document)
      if (int64_t(steps.size()) < (limit ? std::min(limit, timed) : timed)) steps.push_back(token);
  ExitTable table{.quality = "token_perplexity", .unit = "token", .timed = int64_t(steps.size()), .points = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (progress) progress(int64_t(i) + 1, int64_t(runs.size()));
    ExitPoint point = begun(model, runs[i]);
    EvalConfig config;
    if (runs[i]) config.exit = text_of(runs[i]->rule);
    const Perplexity p = perplexity(model, part, config, context);
    table.scored = p.tokens;
    point.quality = p.token_perplexity();
    if (runs[i]) point.mean_layers = p.mean_layers;
    table.points.push_back(point);
  }
  time_steps(model, steps, runs, table);
  return table;
}

ExitTable task_exit_table(const Model& model, const TaskBatches& batches, const TaskConfig& task,
                          const std::vector<std::string>& labels, const std::vector<ExitRule>& rules,
                          const Progress& progress) {
  const auto runs = runs_of(model, rules);
  const ChosenMetrics chosen = choose_metrics(task, labels);
  const auto sentences = int64_t(batches.sequences().size());
  ExitTable table{.quality = chosen.best.name,
                  .lower_is_better = chosen.best.better == Better::lower,
                  .unit = "sentence",
                  .scored = sentences,
                  .timed = sentences,
                  .points = {}};
  for (const auto& run : runs) {
    table.points.push_back(begun(model, run));
    table.points.back().milliseconds = INFINITY;
  }
  for (int pass = 0; pass < kPasses; ++pass)
    for (size_t i = 0; i < runs.size(); ++i) {
      if (progress) progress(int64_t(pass) * int64_t(runs.size()) + int64_t(i) + 1, kPasses * int64_t(runs.size()));
      ExitPoint& point = table.points[i];
      std::optional<ExitRun> run = runs[i];
      const auto start = Clock::now();
      const TaskAnswers answers = answer(model, batches, {}, run ? &*run : nullptr);
      point.milliseconds =
          std::min(point.milliseconds, milliseconds_since(start) / double(std::max<int64_t>(sentences, 1)));
      check(!stop_signal(), "eval", "stopped by signal ", stop_signal());
      for (const Score& s : score_predictions(chosen.metrics, answers.predictions, batches.examples(), labels))
        if (s.metric.name == chosen.best.name) point.quality = s.value;
      if (run) point.mean_layers = run->mean_layers();
    }
  return table;
}

}  // namespace lithe
