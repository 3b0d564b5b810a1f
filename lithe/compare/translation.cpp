#include "lithe/compare/translation.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/stop.h"
#include "lithe/compare/result.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/report/format.h"

namespace lithe::compare {
namespace {

// Rows of a piece, some ten sentences: few enough for the noise of the text to be seen.
constexpr int64_t kPieceRows = 256;

// A metric of several seeds' translations of the same sentences: a segment's counts are those of each seed, one after
// another, and the score is the mean of the seeds' scores.
class OverSeeds final : public TextMetric {
 public:
  OverSeeds(const TextMetric& metric, size_t seeds) : metric_(metric), seeds_(seeds) {}

  std::string name() const override { return metric_.name(); }
  std::string signature(int64_t references) const override { return metric_.signature(references); }
  TextCounts counts(std::string_view hypothesis, std::span<const std::string> references) const override {
    return metric_.counts(hypothesis, references);
  }
  double score(const TextCounts& all) const override {
    const auto width = int64_t(all.size() / seeds_);
    double sum = 0;
    for (auto at = all.begin(); at != all.end(); at += width) sum += metric_.score(TextCounts(at, at + width));
    return sum / double(seeds_);
  }

 private:
  const TextMetric& metric_;
  size_t seeds_;
};

using CountsOf = std::vector<TextCounts> Outcome::*;

std::vector<TextCounts> side_by_side(const std::vector<const Outcome*>& runs, CountsOf counts) {
  std::vector<TextCounts> out((runs[0]->*counts).size());
  for (const Outcome* run : runs) {
    check((run->*counts).size() == out.size(), "compare", "runs translated different sentences");
    for (size_t i = 0; i < out.size(); ++i)
      out[i].insert(out[i].end(), (run->*counts)[i].begin(), (run->*counts)[i].end());
  }
  return out;
}

void resample(Comparison& c, const TextMetric& metric, CountsOf counts, ResampledMetric TranslationResult::*field) {
  std::vector<ResampledMetric*> compared;
  std::vector<double> p;
  for (VariantResult& v : c.variants) {
    std::vector<const Outcome*> runs;
    for (const Outcome& run : v.runs)
      if (run.finished()) runs.push_back(&run);
    if (!v.translation) continue;
    ResampledMetric& out = (*v.translation).*field;
    out.score = bootstrap(OverSeeds(metric, runs.size()), side_by_side(runs, counts));
    const VariantResult& base = c.variants[c.baseline];
    const auto pairs = common_runs(v, base);
    if (&v == &base || pairs.empty()) continue;
    std::vector<const Outcome*> own, others;
    for (const auto& [mine, other] : pairs) own.push_back(mine), others.push_back(other);
    const PairedBootstrap b =
        paired_bootstrap(OverSeeds(metric, pairs.size()), side_by_side(others, counts), side_by_side(own, counts));
    // Equal scores are no sign of a difference; the bootstrap, as sacreBLEU defines it, gives them the least p.
    out.p = b.system.score == b.baseline.score ? 1 : b.p;
    compared.push_back(&out);
    p.push_back(out.p);
  }
  p = holm(p);
  for (size_t i = 0; i < p.size(); ++i) {
    compared[i]->corrected = p[i];
    compared[i]->beyond = p[i] < 1 - c.experiment.confidence;
  }
}

}  // namespace

std::string Translations::held_out_text() const {
  int64_t tokens = 0;
  for (size_t i = 0; i < held_out.size(); ++i) tokens += int64_t(pieces->target_tokens(int64_t(i)).size()) + 1;
  return cat(report::format_integer(int64_t(held_out.size())), " sentences of the ", part, " part, ",
             report::format_integer(tokens), " tokens");
}

Translations load_translations(const Recipe& recipe) {
  check_usage(recipe.has_translation(), "compare", "objective seq2seq needs a section translation that names texts");
  TranslationConfig held_out = recipe.translation;
  held_out.train = {};
  check_usage(!held_out.test.empty() || !held_out.validation.empty(), "compare",
              "the recipe holds no translations out to score variants on; give translation.test or "
              "translation.validation");
  Translations out;
  out.data = load_training_data(recipe, {});
  TranslationData data = load_translation(held_out);
  out.part = data.test.empty() ? "validation" : "test";
  out.held_out = std::move(data.test.empty() ? data.validation : data.test);
  out.fingerprint = out.data.fingerprint;
  out.pieces = held_out_translations(out.held_out, {out.data.tokenizer, out.data.source_tokenizer}, recipe.data,
                                     kPieceRows, recipe.translation.cut_sources);
  for (const TextPair& pair : out.held_out)
    for (const std::string* text : {&pair.source, &pair.target})
      out.fingerprint = checksum(text->c_str(), text->size() + 1, out.fingerprint);
  for (const TextPair& pair : out.held_out)
    for (const auto& [name, text] : pair.sources)
      out.fingerprint = checksum(text.c_str(), text.size() + 1, out.fingerprint);
  return out;
}

Plan plan_translation(const ModelConfig& model, const Recipe& recipe, const Translations& t) {
  const auto largest = [](const BatchSource& of) { return BatchRows{of.largest_batch(), of.largest_sources()}; };
  PlanShape shape;
  shape.sequence_length = recipe.data.sequence_length;
  shape.training = largest(*t.data.train);
  if (t.data.held_out) shape.evaluation = largest(t.data.held_out->batches());
  Plan plan = plan_training(model, recipe.train, shape, false);
  const int64_t batches = t.data.train->batches_per_epoch();
  const EpochSize& epoch = t.data.epoch;
  PlanShape mean;
  mean.sequence_length = epoch.rows;
  mean.training.rows = epoch.rows / batches;
  for (const auto& [name, rows] : epoch.source_rows) {
    mean.sequence_length = std::max(mean.sequence_length, rows);
    mean.training.sources[name] = rows / batches;
  }
  mean.sequence_length /= epoch.sequences;
  Plan work = plan_training(model, recipe.train, mean, false);
  plan.parts = std::move(work.parts);
  plan.forward = work.forward;
  plan.step = work.step;
  return plan;
}

void score_translator(const Translations& t, const LoadedModel& loaded, const Recipe& recipe, Outcome& outcome) {
  for (int64_t i = 0; i < t.pieces->batches_per_epoch() && !stop_signal(); ++i) {
    const LossSums sums = evaluate_batch(*loaded.model, *t.data.objective,
                                         to_device(read_by(*loaded.model, t.pieces->batch(0, i)), *loaded.model));
    outcome.pieces.push_back({sums.nll, sums.labels});
    outcome.quality.nll += sums.nll;
    outcome.quality.tokens += sums.labels;
  }
  outcome.translations = translate_sources(
      *loaded.model, {.tokenizer = loaded.tokenizer, .source = loaded.source_tokenizer}, t.held_out, recipe.translate);
  check(!stop_signal(), "compare", "stopped by signal ", stop_signal());
}

void count_matches(const Translations& t, Outcome& outcome) {
  if (!outcome.finished()) return;
  std::vector<std::string> references;
  for (const TextPair& pair : t.held_out) references.push_back(pair.target);
  const Bleu bleu;
  const Chrf chrf;
  outcome.bleu_counts = segment_counts(bleu, outcome.translations, {references});
  outcome.chrf_counts = segment_counts(chrf, outcome.translations, {references});
  outcome.bleu = bleu.score(sum_counts(outcome.bleu_counts));
  outcome.chrf = chrf.score(sum_counts(outcome.chrf_counts));
}

void resample(Comparison& c) {
  for (VariantResult& v : c.variants) {
    v.translation.reset();
    if (v.variant.translates() && v.finished()) v.translation.emplace();
  }
  resample(c, Bleu(), &Outcome::bleu_counts, &TranslationResult::bleu);
  resample(c, Chrf(), &Outcome::chrf_counts, &TranslationResult::chrf);
}

}  // namespace lithe::compare
