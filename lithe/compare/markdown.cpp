#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/compare/result.h"
#include "lithe/report/format.h"

namespace lithe::compare {
namespace {

using report::format;
using report::format_integer;
using report::format_number;
using report::Quantity;

std::string number(double value, int digits = 4) { return std::isfinite(value) ? format_number(value, digits) : "–"; }

std::string text_with_deviation(double value, double deviation, int64_t runs, int digits = 5) {
  if (!std::isfinite(value)) return "–";
  return runs > 1 ? number(value, digits) + " ± " + number(deviation, 2) : number(value, digits);
}

// Text of the user's inside a cell.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : report::clean_text(text))
    out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out;
}

class Markdown {
 public:
  void line(const std::string& text = "") { text_ += text + "\n"; }
  void row(const std::vector<std::string>& cells) {
    for (const std::string& c : cells) text_ += "| " + cell(c) + " ";
    text_ += "|\n";
  }
  /// The first column is text, the others are numbers.
  void head(const std::vector<std::string>& names) {
    row(names);
    for (size_t i = 0; i < names.size(); ++i) text_ += i ? "|---:" : "|---";
    text_ += "|\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void quality(Markdown& out, const Comparison& c) {
  out.line("## Quality and cost\n");
  out.head({"variant", "loss", score_name(c.experiment.score), "PRR %", "PEoP", "PEoP (mixer)", "parameters", "mixer",
            "training FLOPs", "peak memory"});
  for (const VariantResult& r : c.variants)
    out.row({r.variant.name, text_with_deviation(r.loss, r.loss_deviation, r.finished()),
             text_with_deviation(r.score, r.score_deviation, r.finished()),
             text_with_deviation(r.prr, r.prr_deviation, r.finished(), 4), number(r.peop, 3), number(r.peop_mixer, 3),
             format_integer(r.variant.plan.parameters), format_integer(r.mixer_parameters),
             format(r.variant.training_flops(), Quantity::count),
             format(double(r.variant.plan.memory.peak), Quantity::bytes)});
  out.line(cat("\nLoss in nats per token; ± is one standard deviation over the seeds. PRR is relative to ",
               c.name(c.baseline), ", PEoP to ", c.name(c.peop_baseline),
               " (by all parameters, and by those of the mixers).\n"));
}

void translations(Markdown& out, const Comparison& c) {
  if (!c.translates()) return;
  out.line("## Translations\n");
  out.head({"variant", "BLEU", "95 % interval", "p", "p (corrected)", "chrF", "95 % interval", "p", "p (corrected)",
            "perplexity", "state bytes a target token", "a source token", "planned memory", "measured"});
  for (const VariantResult& r : c.variants) {
    std::vector<std::string> row{r.variant.name};
    for (const auto metric : {&TranslationResult::bleu, &TranslationResult::chrf}) {
      const ResampledMetric none{.score = {NAN, NAN, NAN, NAN}}, &m = r.translation ? (*r.translation).*metric : none;
      row.insert(row.end(), {number(m.score.score), number(m.score.low, 3) + " … " + number(m.score.high, 3),
                             number(m.p, 2), number(m.corrected, 2) + (m.beyond ? " *" : "")});
    }
    row.insert(row.end(), {number(std::exp(r.loss)), format_integer(r.target_state), format_integer(r.source_state),
                           format(double(r.variant.plan.memory.peak), Quantity::bytes),
                           r.measured_peak() ? format(double(r.measured_peak()), Quantity::bytes) : "–"});
    out.row(row);
  }
  out.line(cat("\nOf ", c.held_out, "; scores are means over the seeds. Intervals and p (of the difference from ",
               c.name(c.baseline),
               ", paired bootstrap) know the noise of the sentences, not that of seeds; "
               "* marks what is beyond it.\n"));
}

void differences(Markdown& out, const Comparison& c) {
  if (c.losses.empty()) return;
  const std::string level = format_number(100 * c.experiment.confidence, 4);
  out.line("## Differences in loss\n");
  out.head({"pair", "difference", level + " % interval", "p (corrected)", "beyond noise"});
  for (const LossDifference& d : c.losses) {
    const double half = d.both.half_width(c.experiment.confidence);
    out.row({c.name(d.a) + " − " + c.name(d.b), number(d.both.value, 3),
             std::isfinite(half) ? number(d.both.value - half, 3) + " … " + number(d.both.value + half, 3) : "unknown",
             number(d.p, 2),
             d.beyond                           ? "yes"
             : d.beyond_text && d.seeds.df <= 0 ? "one seed"
                                                : "no"});
  }
  out.line();
}

void speed(Markdown& out, const Comparison& c) {
  const Speed& s = c.speed;
  if (!s.measured()) return;
  out.line("## Speed\n");
  out.line(cat("Medians of ", s.rounds.size(),
               " interleaved rounds. The same model measured against itself typically differed by ",
               number(100 * std::expm1(s.floor[0]), 2), " % in training",
               c.translates() ? cat(" and ", number(100 * std::expm1(s.floor[3]), 2), " % in translating")
                              : cat(", ", number(100 * std::expm1(s.floor[1]), 2), " % in prefill and ",
                                    number(100 * std::expm1(s.floor[2]), 2), " % in decoding"),
               " (at worst ", number(100 * std::expm1(*std::max_element(s.worst.begin(), s.worst.end())), 2),
               " %); no difference smaller than its own there counts. * marks differences from ", c.name(c.baseline),
               " beyond the noise.\n"));
  const auto mark = [&](size_t v, const char* what, int64_t cell) {
    for (const SpeedDifference& d : c.speeds)
      if (d.a == v && d.what == what && d.cell == cell && d.beyond) return " *";
    return "";
  };
  if (c.experiment.measure.train_steps) {
    out.head({"variant", "training tokens/s"});
    for (size_t v = 0; v < c.variants.size(); ++v)
      out.row({c.name(v), number(c.variants[v].variant.step_tokens / s.spread(v, "training", -1).median) +
                              mark(v, "training", -1)});
    out.line();
  }
  if (c.translates()) {
    out.head({"variant", "beams", "sentences/s", "target tokens/s", "tokens a sentence"});
    for (size_t k = 0; k < s.searches.size(); ++k)
      for (size_t v = 0; v < c.variants.size(); ++v) {
        const double seconds = s.spread(v, "translation", int64_t(k)).median, tokens = double(s.translated[v][k]),
                     sentences = double(s.sentences);
        out.row({c.name(v), format_integer(s.searches[k]),
                 number(sentences / seconds) + mark(v, "translation", int64_t(k)), number(tokens / seconds),
                 number(tokens / sentences, 3)});
      }
    return out.line();
  }
  out.head({"variant", "prompt", "batch", "prefill ms", "decode tokens/s", "state bytes", "peak memory"});
  for (size_t k = 0; k < s.cells.size(); ++k)
    for (size_t v = 0; v < c.variants.size(); ++v) {
      const Cell& cell = s.cells[k];
      const CellCost& cost = s.costs[v][k];
      const std::vector<std::string> place{c.name(v), format_integer(cell.prompt), format_integer(cell.batch)};
      if (!cost.refused.empty())
        out.row({place[0], place[1], place[2], "–", "–", "–", cost.refused});
      else
        out.row({place[0], place[1], place[2],
                 number(1e3 * s.spread(v, "prefill", int64_t(k)).median) + mark(v, "prefill", int64_t(k)),
                 number(double(cell.batch) / s.spread(v, "decode", int64_t(k)).median) + mark(v, "decode", int64_t(k)),
                 format_integer(cost.state_bytes), format(double(cost.peak_bytes), Quantity::bytes)});
    }
  out.line();
}

void background(Markdown& out, const Comparison& c) {
  out.line("## What differs\n");
  out.head({"variant", "key", "baseline", "value", "by"});
  for (const VariantResult& r : c.variants)
    for (const Change& change : r.variant.changes)
      out.row({r.variant.name, change.key, change.baseline.empty() ? "–" : change.baseline,
               change.own.empty() ? "–" : change.own, change.solved ? "budget" : "declared"});
  out.line(cat("\nEverything else is the same: data, order of the data, tokenizer, held-out text (", c.held_out,
               "), seeds, and the initial values of parameters of equal name and shape:\n"));
  out.head({"variant", "shared start", "steps", "budget"});
  for (const VariantResult& r : c.variants)
    out.row({r.variant.name, number(100 * double(r.start.shared) / double(std::max<int64_t>(1, r.start.all)), 3) + " %",
             format_integer(r.variant.steps),
             r.variant.share.target > 0 ? number(100 * r.variant.share.amount / r.variant.share.target, 4) + " % of " +
                                              format_number(r.variant.share.target, 4) + " " + c.experiment.budget.match
                                        : "none"});
  out.line();
  for (const auto& [name, value] : c.environment) out.line(cat("- ", name, ": ", cell(value)));
}

}  // namespace

std::string to_markdown(const Comparison& c) {
  Markdown out;
  out.line("# " + cell(c.experiment.name) + "\n");
  for (const std::string& sentence : c.sentences) out.line("- " + sentence);
  out.line();
  quality(out, c);
  translations(out, c);
  differences(out, c);
  speed(out, c);
  background(out, c);
  return out.take();
}

}  // namespace lithe::compare
