#include "lithe/eval/translation_evaluation.h"

#include "lithe/base/stop.h"
#include "lithe/eval/translation_scores.h"

namespace lithe {

TranslationBatches held_out_translations(std::vector<TextPair> pairs, const Tokenizers& tokenizers,
                                         const DataConfig& data, int64_t batch_tokens, bool cut_sources) {
  return TranslationBatches(
      std::move(pairs), tokenizers.source ? tokenizers.source : tokenizers.tokenizer, tokenizers.tokenizer,
      TranslationLimits{.max_length = data.sequence_length,
                        .cut_sources = cut_sources ? std::optional(data.truncation) : std::nullopt},
      batch_tokens, 0, false);
}

std::vector<std::string> translate_sources(const Model& model, const Tokenizers& tokenizers,
                                           const std::vector<TextPair>& pairs, TranslateConfig config) {
  std::vector<std::string> sources, out;
  TranslationExtras extras;
  for (const TextPair& pair : pairs) {
    sources.push_back(pair.source);
    extras.trees.push_back(pair.tree);
    for (const auto& [name, text] : pair.sources) extras.further[name].push_back(text);
  }
  config.num_return_sequences = 1;
  const Tokenizer& source = tokenizers.source ? *tokenizers.source : *tokenizers.tokenizer;
  for (const auto& best : translate(model, source, *tokenizers.tokenizer, sources, config, "", {}, 1, extras))
    out.push_back(best.empty() ? "" : best[0].text);
  return out;
}

HeldOutTranslations::HeldOutTranslations(TranslationBatches batches, Tokenizers tokenizers,
                                         std::shared_ptr<const Objective> objective, std::string metric_for_best_model,
                                         const TranslateConfig& translate)
    : batches_(std::move(batches)),
      tokenizers_(std::move(tokenizers)),
      objective_(std::move(objective)),
      metric_(std::move(metric_for_best_model)),
      greedy_(translate) {
  greedy_.num_beams = 1;
  greedy_.do_sample = false;
}

std::optional<HeldOutScores> HeldOutTranslations::score(const Model& model, const Progress& progress) const {
  const auto total = evaluate(model, *objective_, batches_, progress);
  if (!total) return std::nullopt;
  HeldOutScores out{.loss = total->mean_nll(), .perplexity = objective_->predicts_vocabulary()};
  out.best = -out.loss;
  if (metric_ == "loss") return out;
  const std::vector<std::string> hypotheses = translate_sources(model, tokenizers_, batches_.pairs(), greedy_);
  if (stop_signal()) return std::nullopt;
  std::vector<std::string> references;
  for (const TextPair& pair : batches_.pairs()) references.push_back(pair.target);
  const TranslationScores scores = score_translations(hypotheses, {references});
  for (const TranslationMetric& metric : translation_metrics())
    out.metrics.emplace_back(metric.name, scores.value(metric.name));
  out.best = scores.value(metric_);
  return out;
}

}  // namespace lithe
