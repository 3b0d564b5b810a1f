#include "lithe/fit/ways.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "lithe/data/token_store.h"
#include "lithe/eval/perplexity.h"
#include "lithe/eval/token_likelihoods.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/eval/translation_scores.h"
#include "lithe/fit/use.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/named_drafter.h"
#include "lithe/model/exits.h"

namespace lithe::fit {
namespace {

constexpr int kTurnsOfWays = 5;

}  // namespace

ExitLosses exit_losses(const Model& model, const std::vector<Batch>& batches, const std::string& rule) {
  EvalConfig config;
  config.exit = rule;
  ExitLosses out;
  for (const Batch& batch : batches) {
    heed();
    std::vector<std::vector<int32_t>> sequences;
    int64_t longest = 1;
    for (size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
      sequences.emplace_back(batch.tokens.begin() + batch.offsets[b], batch.tokens.begin() + batch.offsets[b + 1]);
      longest = std::max(longest, int64_t(sequences.back().size()));
    }
    const TokenStore text = TokenStore::from_documents(sequences, {.vocab_size = model.config().vocab_size});
    const Perplexity p = perplexity(model, text, config, longest);
    out.losses.push_back(p.loss());
    out.mean_layers += p.mean_layers / double(batches.size());
  }
  return out;
}

TokenTimes time_tokens(const LoadedModel& loaded, const std::string& precision, const Way& way, const Path& drafter,
                       const std::vector<std::vector<int32_t>>& prompts, int64_t new_tokens) {
  GenerateConfig config;
  config.do_sample = false;
  config.batch_size = 1;
  config.max_new_tokens = new_tokens;
  config.add_bos_token = false;
  GenerateConfig by_way = config;
  by_way.exit = way.exit;
  const std::string name = way.draft == "pruned" ? drafter.string() : way.draft;
  const NamedDrafter drafts = drafter_named(name, loaded, precision, by_way);
  TokenTimes out{INFINITY, INFINITY};
  for (int turn = 0; turn < kTurnsOfWays; ++turn)
    for (const bool plain : {true, false}) {
      heed();
      GenerateTimes times;
      GenerateHelp help;
      if (!plain) help.drafter = drafts.drafter.get();
      continue_each(*loaded.model, *loaded.tokenizer, prompts, plain ? config : by_way, {}, &times, help);
      const double seconds = times.decode_seconds / double(std::max<int64_t>(times.new_tokens, 1));
      double& least = plain ? out.plain : out.by_way;
      least = std::min(least, seconds);
      if (!plain && times.passes) out.tokens_a_pass = double(times.new_tokens) / double(times.passes);
    }
  return out;
}

std::vector<int32_t> greedy_tokens(const Model& model, const std::vector<Batch>& batches, const std::string& rule) {
  const NoGrad no_grad;
  std::optional<ExitRun> run = exit_run_of(model, rule);
  std::vector<int32_t> out;
  for (const Batch& batch : batches)
    for (size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
      heed();
      const std::vector<int32_t> text(batch.tokens.begin() + batch.offsets[b],
                                      batch.tokens.begin() + batch.offsets[b + 1]);
      const auto n = int64_t(text.size());
      Pass pass;
      pass.set_exits(run ? &*run : nullptr);
      const Rows rows = model.run({tensor_of({n}, text), Sequences({0, n})}, pass);
      for (int64_t begin = 0; begin < n; begin += kRowsOfLogits) {
        std::vector<int64_t> wanted(size_t(std::min(kRowsOfLogits, n - begin)));
        std::iota(wanted.begin(), wanted.end(), begin);
        const Tensor logits = model.logits(rows, wanted).value();
        for (int64_t i = 0; i < logits.rows(); ++i) {
          const float* row = logits.data<float>() + i * logits.cols();
          out.push_back(int32_t(std::max_element(row, row + logits.cols()) - row));
        }
      }
    }
  return out;
}

double agreement_of(const std::vector<int32_t>& drafter, const std::vector<int32_t>& model) {
  check(drafter.size() == model.size() && !model.empty(), "fit", "greedy tokens of ", drafter.size(), " and ",
        model.size(), " positions cannot be compared");
  int64_t same = 0;
  for (size_t i = 0; i < model.size(); ++i) same += drafter[i] == model[i];
  return double(same) / double(model.size());
}

double tokens_a_pass(double agreement, int64_t drafted) {
  double sum = 0, power = 1;
  for (int64_t i = 0; i <= drafted; ++i, power *= agreement) sum += power;
  return sum;
}

double lookup_tokens_a_pass(const std::vector<int32_t>& text, int64_t drafted) {
  const auto drafter = lookup_drafter();
  drafter->begin(int64_t(text.size()) + drafted + 1);
  int64_t passes = 0;
  size_t at = std::min<size_t>(text.size(), 1);
  const size_t begin = at;
  while (at < text.size()) {
    const auto drafts = drafter->draft({text.begin(), text.begin() + int64_t(at)}, drafted, 0, {});
    size_t right = 0;
    while (right < drafts.size() && at + right + 1 < text.size() && drafts[right].token == text[at + right]) ++right;
    at += right + 1, ++passes;
  }
  return passes ? double(at - begin) / double(passes) : 1;
}

Translated translate_each(const LoadedModel& loaded, const std::vector<TextPair>& pairs, TranslateConfig config,
                          int64_t beams) {
  const NoGrad no_grad;
  config.do_sample = false;
  if (beams) config.num_beams = beams;
  const Tokenizers tokenizers{loaded.tokenizer, loaded.source_tokenizer};
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  Translated out;
  std::vector<std::string> hypotheses, references;
  double seconds = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    heed();
    const auto start = std::chrono::steady_clock::now();
    hypotheses.push_back(translate_sources(*loaded.model, tokenizers, {pairs[i]}, config).at(0));
    // The first is a warm-up.
    if (i > 0 || pairs.size() == 1)
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    references.push_back(pairs[i].target);
    out.chrf.push_back(score_translations(std::vector{hypotheses.back()}, {{pairs[i].target}}).chrf);
  }
  heed();
  out.seconds = seconds / double(std::max<size_t>(pairs.size() - 1, 1));
  out.peak = loaded.model->parameters().bytes() + ledger(Device::cpu).peak() - before;
  const TranslationScores scores = score_translations(hypotheses, {references});
  for (const TranslationMetric& metric : translation_metrics())
    out.scores.emplace_back(metric.name, scores.value(metric.name));
  return out;
}

}  // namespace lithe::fit
