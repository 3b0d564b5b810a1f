// What a comparison comes to, in words.
#include <algorithm>
#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/compare/fronts.h"
#include "lithe/report/format.h"

namespace lithe::compare {

namespace {

using report::format_integer;
using report::format_number;

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

// 1.2 -> "20 % more", 3 -> "3 times as much".
std::string times(double ratio, const std::string& more, const std::string& as_much) {
  return ratio < 2 ? format_number(100 * (ratio - 1), 2) + " % " + more : format_number(ratio, 2) + " times " + as_much;
}

const LossDifference* difference_of(const Comparison& c, size_t a, size_t b) {
  for (const LossDifference& d : c.losses)
    if ((d.a == a && d.b == b) || (d.a == b && d.b == a)) return &d;
  return nullptr;
}

bool same(const Comparison& c, size_t a, size_t b) {
  const LossDifference* d = difference_of(c, a, b);
  return d && d->both.value == 0 && d->both.error == 0;
}

// Of the variants that finished any.
int64_t fewest_seeds(const Comparison& c) {
  int64_t least = int64_t(c.experiment.seeds.size());
  for (size_t v : c.ranking) least = std::min(least, c.variants[v].finished());
  return least;
}

// What the words mean here: over many pairs some differ by chance alone.
std::string meaning_of_noise(const Comparison& c) {
  double least = INFINITY, most = 0;
  int64_t pairs = 0;
  for (const LossDifference& d : c.losses) {
    if (d.seeds.df <= 0) continue;
    ++pairs;
    least = std::min(least, d.both.df), most = std::max(most, d.both.df);
  }
  if (!pairs) return "";
  const std::string from = format_number(least, 3), to = format_number(most, 3);
  return cat("Beyond the noise: p below ", format_number(1 - c.experiment.confidence, 3), " by Student's t with ",
             from == to ? from : from + " to " + to, " degrees of freedom, after Holm's correction for ",
             counted(pairs, "pair"), " (", counted(int64_t(c.experiment.seeds.size()), "seed"), ").");
}

void quality(const Comparison& c, std::vector<std::string>& out) {
  for (const VariantResult& v : c.variants)
    if (v.diverged())
      out.push_back(cat(v.variant.name, " diverged with ", v.diverged(), " of ", v.runs.size(),
                        v.runs.size() == 1 ? " seed" : " seeds", "."));
  if (c.ranking.empty()) return;
  if (!c.noisier.empty()) {
    std::vector<std::string> names;
    for (size_t v : c.noisier) names.push_back(c.name(v));
    out.push_back(cat("Between the seeds ", joined(names), names.size() == 1 ? " differs" : " differ",
                      " more than the other variants do: compared by ", names.size() == 1 ? "its" : "their",
                      " own seeds alone."));
  }
  const size_t best = c.ranking[0];
  const std::string level = format_number(100 * c.experiment.confidence, 4) + " %";
  if (c.winner) {
    out.push_back(cat(c.name(best), " predicts the held-out text best, beyond the noise against all others (", level,
                      " confidence over all pairs, ", counted(int64_t(c.experiment.seeds.size()), "seed"), ")."));
  } else if (c.ranking.size() > 1) {
    std::vector<std::string> near;
    bool all_same = true;
    for (size_t v : c.ranking) {
      const LossDifference* d = difference_of(c, best, v);
      const bool noisy = std::find(c.noisier.begin(), c.noisier.end(), v) != c.noisier.end();
      if (v == best || (d && !d->beyond && !noisy)) near.push_back(c.name(v));
      all_same = all_same && (v == best || same(c, best, v));
    }
    if (all_same)
      out.push_back(cat("No winner: ", joined(near), " give exactly the same predictions."));
    else if (c.experiment.seeds.size() < 2)
      out.push_back(cat("No winner is named: with one seed the noise between seeds is not known. Lowest loss: ",
                        c.name(best), ". Add seeds and run the same command again."));
    else
      out.push_back(cat("No winner: ", joined(near), " lie within the noise of each other at the top (", level,
                        " confidence, ", fewest_seeds(c), fewest_seeds(c) == 1 ? " seed)." : " seeds)."));
  }
  const VariantResult& base = c.variants[c.baseline];
  if (!base.finished()) return;
  std::vector<std::string> better, worse, unclear;
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const LossDifference* d = v == c.baseline ? nullptr : difference_of(c, v, c.baseline);
    if (!d) continue;
    const double change = c.variants[v].loss - base.loss;
    const std::string text = cat(c.name(v), " (", change > 0 ? "+" : "", format_number(change, 2), ")");
    (!d->beyond ? unclear : change < 0 ? better : worse).push_back(text);
  }
  const std::string than = cat(" than ", c.name(c.baseline), ", beyond the noise (difference in nats per token): ");
  if (!better.empty()) out.push_back("Better" + than + joined(better) + ".");
  if (!worse.empty()) out.push_back("Worse" + than + joined(worse) + ".");
  if (!unclear.empty() && c.experiment.seeds.size() > 1 && !(better.empty() && worse.empty() && !c.winner))
    out.push_back(cat("Not to be told apart from ", c.name(c.baseline), ": ", joined(unclear), "."));
  if (const std::string meaning = meaning_of_noise(c); !meaning.empty()) out.push_back(meaning);
}

// What translations show against the baseline's, as far as the choice of sentences goes.
void translations(const Comparison& c, std::vector<std::string>& out) {
  if (!c.translates() || !c.variants[c.baseline].translation) return;
  std::vector<std::string> better, worse, unclear;
  const double base = c.variants[c.baseline].translation->bleu.score.score;
  for (size_t v = 0; v < c.variants.size(); ++v) {
    if (v == c.baseline || !c.variants[v].translation) continue;
    const ResampledMetric& bleu = c.variants[v].translation->bleu;
    const double change = bleu.score.score - base;
    const std::string text = cat(c.name(v), " (", change > 0 ? "+" : "", format_number(change, 2), ")");
    (!bleu.beyond ? unclear : change > 0 ? better : worse).push_back(text);
  }
  const std::string than = cat(" BLEU than ", c.name(c.baseline), " (", format_number(base, 3),
                               "), beyond the noise of the sentences, not that of seeds: ");
  if (!better.empty()) out.push_back("Higher" + than + joined(better) + ".");
  if (!worse.empty()) out.push_back("Lower" + than + joined(worse) + ".");
  if (!unclear.empty())
    out.push_back(cat("BLEU not to be told apart from that of ", c.name(c.baseline), " (", format_number(base, 3),
                      ") on these sentences: ", joined(unclear), "."));
}

std::string place_of(const Comparison& c, const SpeedDifference& d) {
  if (d.cell < 0) return "training";
  if (d.what == "translation") return search_name(c.speed.searches[size_t(d.cell)]);
  const Cell& cell = c.speed.cells[size_t(d.cell)];
  return cat(d.what == "prefill" ? "prefill" : "decoding", " at ", format_integer(cell.prompt), " tokens x ",
             cell.batch);
}

void speed(const Comparison& c, std::vector<std::string>& out) {
  if (!c.speed.measured()) return;
  int64_t beyond = 0;
  for (size_t v = 0; v < c.variants.size(); ++v)
    for (const char* what : {"training", "prefill", "decode", "translation"}) {
      const SpeedDifference *fastest = nullptr, *slowest = nullptr;
      for (const SpeedDifference& d : c.speeds) {
        if (d.a != v || d.what != what || !d.beyond) continue;
        ++beyond;
        if (d.ratio < 1 && (!fastest || d.ratio < fastest->ratio)) fastest = &d;
        if (d.ratio > 1 && (!slowest || d.ratio > slowest->ratio)) slowest = &d;
      }
      if (fastest)
        out.push_back(cat(c.name(v), " is up to ", times(1 / fastest->ratio, "faster than ", "as fast as "),
                          c.name(c.baseline), " in ", place_of(c, *fastest), "."));
      if (slowest)
        out.push_back(cat(c.name(v), " takes up to ", times(slowest->ratio, "more time than ", "the time of "),
                          c.name(c.baseline), " in ", place_of(c, *slowest), "."));
    }
  if (!beyond) out.push_back("No difference in speed is beyond the noise of this machine.");
}

void crossovers(const Comparison& c, std::vector<std::string>& out) {
  for (const Crossover& x : c.crossovers) {
    if (is_crowded(c) && x.winner != c.baseline && x.loser != c.baseline) continue;
    const bool length = x.along == "context length";
    const std::string where =
        x.exact  ? cat("from ", format_integer(int64_t(x.at)), " tokens on", c.translates() ? " of either side" : "")
        : length ? cat("from about ", format_integer(std::llround(x.at)), " tokens on (batch ", x.fixed, ")")
                 : cat("from about ", format_number(x.at, 2), " sequences on (", format_integer(x.fixed), " tokens)");
    const std::string what = x.what == "cache"     ? " keeps a smaller decode state than "
                             : x.what == "prefill" ? " reads prompts faster than "
                                                   : " decodes faster than ";
    out.push_back(cat(c.name(x.winner), what, c.name(x.loser), " ", where, "."));
  }
}

}  // namespace

std::vector<std::string> say(const Comparison& c) {
  std::vector<std::string> out;
  if (c.status != Progress::complete) out.push_back("The comparison was stopped; these are the results so far.");
  quality(c, out);
  translations(c, out);
  crossovers(c, out);
  speed(c, out);
  return out;
}

}  // namespace lithe::compare
