#include "lithe/eval/translation_evaluation.h"

#include "lithe/base/stop.h"
#include "lithe/eval/translation_scores.h"
#include "lithe/train/step.h"

namespace lithe {

std::vector<std::string> translate_sources(const Model& model, const Tokenizers& tokenizers,
                                           const std::vector<TextPair>& pairs, TranslateConfig config) {
  std::vector<std::string> sources, out;
  for (const TextPair& pair : pairs) sources.push_back(pair.source);
  config.num_return_sequences = 1;
  const Tokenizer& source = tokenizers.source ? *tokenizers.source : *tokenizers.tokenizer;
  for (const auto& best : translate(model, source, *tokenizers.tokenizer, sources, config))
    out.push_back(best.empty() ? "" : best[0].text);
  return out;
}

std::function<HeldOutScores(const Model&, const TrainingData&)> score_translation_of(const TranslationConfig& config,
                                                                                     const TranslateConfig& translate) {
  if (config.metric_for_best_model == "loss") return {};
  return [best = config.metric_for_best_model, translate](const Model& model, const TrainingData& data) {
    const auto& held_out = static_cast<const TranslationBatches&>(*data.validation);
    HeldOutScores out;
    const auto total = evaluate(model, held_out);
    if (!total) return out;
    out.loss = total->mean_nll();
    out.perplexity = true;
    TranslateConfig greedy = translate;
    greedy.num_beams = 1;
    const std::vector<std::string> hypotheses =
        translate_sources(model, {data.tokenizer, data.source_tokenizer}, held_out.pairs(), greedy);
    if (stop_signal()) return out;
    std::vector<std::string> references;
    for (const TextPair& pair : held_out.pairs()) references.push_back(pair.target);
    const TranslationScores scores = score_translations(hypotheses, {references});
    for (const TranslationMetric& metric : translation_metrics())
      out.metrics.emplace_back(metric.name, scores.value(metric.name));
    out.best = scores.value(best);
    return out;
  };
}

}  // namespace lithe
