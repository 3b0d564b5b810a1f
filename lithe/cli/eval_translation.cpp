#include "lithe/cli/eval_translation.h"

#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/further_sources.h"
#include "lithe/cli/text_lines.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/measured_part.h"
#include "lithe/eval/paired_bootstrap.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/eval/translation_scores.h"

namespace lithe {
namespace {

BleuOptions bleu_options(const TranslationEvalOptions& o) {
  return {.tokenizer = o.tokenizer.value_or("13a"), .lowercase = o.lowercase};
}

std::string show(const char* name, const PairedBootstrap& b) {
  char line[200];
  std::snprintf(line, sizeof line, "%-6s baseline %.1f (%.1f ± %.1f)  system %.1f (%.1f ± %.1f)  p = %.4f\n", name,
                b.baseline.score, b.baseline.mean, b.baseline.half_width(), b.system.score, b.system.mean,
                b.system.half_width(), b.p);
  return line;
}

Json to_json(const PairedBootstrap& b) {
  const auto one = [](const ResampledScore& s) {
    return Json{{"score", s.score}, {"mean", s.mean}, {"low", s.low}, {"high", s.high}};
  };
  return {{"baseline", one(b.baseline)}, {"system", one(b.system)}, {"p", b.p}};
}

}  // namespace

int eval_translation(const TranslationEvalOptions& o, const Recipe& recipe, const LoadedModel& loaded,
                     const std::vector<std::string>& files, bool json, const Json& more) {
  check_usage(!files.empty() || o.sources.empty(), "eval",
              "--source belongs to files that are translated; name the source and its translation, too");
  auto [pairs, part] = measured_pairs(
      recipe, files,
      files.size() == 2 ? further_files(o.sources, recipe, "eval") : std::map<std::string, std::string>());
  TranslateConfig translate = recipe.translate;
  take_given(translate.num_beams, o.num_beams);
  take_given(translate.length_penalty, o.length_penalty);
  const Tokenizers tokenizers{loaded.tokenizer, loaded.source_tokenizer};
  TranslationBatches batches =
      held_out_translations(pairs, tokenizers, recipe.data, recipe.train.batch_tokens, recipe.translation.cut_sources);
  batches.give_only(loaded.model->config().source_names());
  const auto total = evaluate(*loaded.model, *make_objective(recipe.train.objective), batches);
  if (!total) return 128 + stop_signal();
  check_finite_result("eval", "the loss", total->mean_nll());
  const std::vector<std::string> hypotheses = translate_sources(*loaded.model, tokenizers, pairs, translate);
  if (stop_signal()) return 128 + stop_signal();
  std::vector<std::string> references;
  for (const TextPair& pair : pairs) references.push_back(pair.target);
  const TranslationScores scores = score_translations(hypotheses, {references}, bleu_options(o));
  if (!o.save.empty()) {
    std::string text;
    for (const std::string& hypothesis : hypotheses) text += hypothesis + "\n";
    write_file(o.save, text);
  }
  if (json) {
    Json out = scores.json();
    out["part"] = part;
    out["loss"] = total->mean_nll();
    out["num_beams"] = translate.num_beams;
    out["length_penalty"] = translate.length_penalty;
    out.update(more);
    std::cout << dump(out, 2) << "\n";
  } else {
    std::cout << cat("loss ", total->mean_nll(), " per token (", total->labels, " tokens), ", pairs.size(), " lines, ",
                     part, ", beams ", translate.num_beams, ", length penalty ", translate.length_penalty, "\n",
                     scores.text());
  }
  return 0;
}

int score_translation_files(const TranslationEvalOptions& o, bool json) {
  check_usage(!o.hypotheses.empty() && !o.references.empty(), "eval",
              "--task translation without a run scores files: give --hypotheses and --references");
  check_usage(!o.num_beams && !o.length_penalty && o.save.empty(), "eval",
              "--num-beams, --length-penalty and --save-translations are for a run; files are scored as they are");
  TextReferences references;
  for (const std::string& file : o.references) references.push_back(text_lines({file}));
  const auto translations = [&](const std::string& file) {
    std::vector<std::string> lines = text_lines({file});
    for (size_t i = 0; i < references.size(); ++i)
      check_usage(lines.size() == references[i].size(), "eval", "'", file, "' has ", lines.size(), " lines, '",
                  o.references[i], "' has ", references[i].size(), "; each line of one translates that of the other");
    return lines;
  };
  const std::vector<std::string> hypotheses = translations(o.hypotheses);
  const TranslationScores scores = score_translations(hypotheses, references, bleu_options(o));
  Json out = scores.json();
  std::string text = scores.text();
  if (!o.baseline.empty()) {
    const std::vector<std::string> baseline = translations(o.baseline);
    const auto compare = [&](const TextMetric& metric) {
      return paired_bootstrap(metric, segment_counts(metric, baseline, references),
                              segment_counts(metric, hypotheses, references), o.samples);
    };
    const PairedBootstrap bleu = compare(Bleu(bleu_options(o))), chrf = compare(Chrf());
    out["paired_bootstrap"] = {{"samples", o.samples}, {"bleu", to_json(bleu)}, {"chrf", to_json(chrf)}};
    text += cat("paired bootstrap, ", o.samples, " samples (Koehn 2004):\n") + show("BLEU", bleu) + show("chrF2", chrf);
  }
  std::cout << (json ? dump(out, 2) + "\n" : text);
  return 0;
}

void add_translation_options(CommandLine& app, TranslationEvalOptions& o) {
  add_source_option(app, o.sources);
  app.add_option("--num-beams", o.num_beams, "translation: hypotheses kept at each step; default: the run's")
      .positive();
  app.add_option("--length-penalty", o.length_penalty, "translation: as in lithe translate; default: the run's");
  app.add_option("--save-translations", o.save, "translation: write the translations to this file").output_file();
  app.add_option("--hypotheses", o.hypotheses, "translation, without a run: lines to score");
  app.add_option("--references", o.references,
                 "translation, without a run: reference translations; several files are several references");
  const Option baseline = app.add_option("--baseline", o.baseline,
                                         "translation, without a run: translations of another system, to compare with");
  app.add_option("--bootstrap-samples", o.samples, "translation: resamples for the comparison with --baseline")
      .positive()
      .needs(baseline);
  app.add_option("--tokenize", o.tokenizer, "translation: sacreBLEU's tokenizer of BLEU; default: 13a")
      .one_of({"13a", "none", "char", "intl"});
  app.add_flag("--lowercase", o.lowercase, "translation: BLEU without case");
}

}  // namespace lithe
