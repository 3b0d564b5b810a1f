#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/compare/page_parts.h"

namespace lithe::compare {

using report::format_number;
using report::IntervalChart;
using report::Page;
using report::Quantity;
using report::Table;

report::Cell number_cell(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  report::Cell cell(format_number(value, digits));
  cell.key = value;
  return cell;
}

report::Cell quantity_cell(double value, Quantity kind) {
  return std::isfinite(value) ? report::Cell(value, kind) : report::Cell("–");
}

std::string name_in_table(const Comparison& c, size_t v) {
  const VariantResult& r = c.variants[v];
  return r.variant.name + (v == c.baseline ? " (baseline)" : "") +
         (r.diverged() ? cat(" (", r.diverged(), " diverged)") : "");
}

void add_translations(Page& page, const Comparison& c) {
  page.section("Translations");
  IntervalChart charts[2];
  Table table{"Scores of the translations",
              {{"Variant"},
               {"BLEU", true},
               {"95 % interval"},
               {"p (corrected)", true},
               {"chrF", true},
               {"95 % interval"},
               {"p (corrected)", true},
               {"Perplexity", true}},
              {},
              {}};
  for (const VariantResult& r : c.variants) {
    if (!r.translation) continue;
    const ResampledMetric* metrics[2] = {&r.translation->bleu, &r.translation->chrf};
    std::vector<report::Cell> row{name_in_table(c, size_t(&r - c.variants.data()))};
    for (size_t i = 0; i < 2; ++i) {
      const ResampledMetric& m = *metrics[i];
      charts[i].rows.push_back({r.variant.name, m.score.score, m.score.low, m.score.high, m.beyond});
      row.push_back(number_cell(m.score.score));
      row.push_back(format_number(m.score.low, 3) + " – " + format_number(m.score.high, 3));
      row.push_back(number_cell(m.p, 2));
      if (std::isfinite(m.p)) row.back().text += " (" + format_number(m.corrected, 2) + ")";
    }
    row.push_back(number_cell(std::exp(r.loss)));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return page.paragraph("No training has finished.");
  for (size_t i = 0; i < 2; ++i) {
    charts[i].title = i == 0 ? "BLEU" : "chrF";
    charts[i].detail = "95 % of the resampled sentences; in colour what differs from " + c.name(c.baseline) + ".";
    charts[i].x.label = "0 to 100";
    const auto at = std::find_if(charts[i].rows.begin(), charts[i].rows.end(),
                                 [&](const report::Interval& row) { return row.label == c.name(c.baseline); });
    charts[i].origin = at == charts[i].rows.end() ? 0 : at->value;
  }
  page.charts(charts[0], charts[1]);
  page.table(table);
  page.paragraph(cat("Of ", c.held_out, ", ", c.variants[0].variant.recipe.translate.num_beams,
                     " beams; scores are means over the seeds. Intervals and p (of the difference from ",
                     c.name(c.baseline), ", by paired bootstrap) know the noise of the sentences, not that of seeds."));
}

void add_translation_memory(Page& page, const Comparison& c) {
  Table table{"Bytes",
              {{"Variant"},
               {"State of a target token", true},
               {"of a source token", true},
               {"Training, planned", true},
               {"measured", true}},
              {},
              {}};
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const VariantResult& r = c.variants[v];
    const double measured = r.measured_peak() ? double(r.measured_peak()) : NAN;
    table.rows.push_back({name_in_table(c, v), quantity_cell(double(r.target_state), Quantity::bytes),
                          quantity_cell(double(r.source_state), Quantity::bytes),
                          quantity_cell(double(r.variant.plan.memory.peak), Quantity::bytes),
                          quantity_cell(measured, Quantity::bytes)});
  }
  page.table(table);
  page.paragraph(
      "State is what decoding keeps of one more token of either side. The plan of training is for the largest batch "
      "that could come, and so a bound.");
}

void add_translation_speed(Page& page, const Comparison& c) {
  const Speed& s = c.speed;
  Table table{cat("Translating ", report::format_integer(s.sentences), " sentences"),
              {{"Variant"},
               {"Beams", true},
               {"Sentences/s", true},
               {"quartiles"},
               {"Target tokens/s", true},
               {"Tokens a sentence", true}},
              {},
              {}};
  for (size_t k = 0; k < s.searches.size(); ++k)
    for (size_t v = 0; v < c.variants.size(); ++v) {
      const auto time = s.spread(v, "translation", int64_t(k));
      const double sentences = double(s.sentences), tokens = double(s.translated[v][k]);
      table.rows.push_back({c.name(v), report::Cell::integer(s.searches[k]), number_cell(sentences / time.median),
                            format_number(sentences / time.high, 3) + " – " + format_number(sentences / time.low, 3),
                            number_cell(tokens / time.median), number_cell(tokens / sentences, 3)});
    }
  page.table(table);
}

}  // namespace lithe::compare
