// What the files of a comparison's page share: cells, sections, and the parts that only pages of translations have.
#pragma once

#include "lithe/base/counted.h"
#include "lithe/compare/result.h"
#include "lithe/report/page.h"

namespace lithe::compare {

/// A dash for what is not finite.
report::Cell number_cell(double value, int digits = 4);
report::Cell quantity_cell(double value, report::Quantity kind);
/// "mha (baseline) (1 diverged)".
std::string name_in_table(const Comparison& c, size_t variant);
/// "0.9 ± 0.01"; the value alone when there was one run.
report::Cell with_deviation(double value, double deviation, int64_t runs, int digits = 4);
/// Seconds of the whole training by the interleaved timing, which other programs' load disturbs least.
double training_seconds(const Comparison& c, size_t variant);
/// Bytes of training, measured where they were.
double peak_of(const VariantResult& r);
/// Where the decode state that tiles and tables name stands, in cache_lengths and in words.
constexpr size_t kStateShown = 4;
std::string state_place(const Comparison& c);

/// The sections of every page.
void add_quality(report::Page& page, const Comparison& c);
void add_fronts(report::Page& page, const Comparison& c);
void add_learning(report::Page& page, const Comparison& c);
void add_memory(report::Page& page, const Comparison& c);
void add_speed(report::Page& page, const Comparison& c);
/// The section with the scores of the translations.
void add_translations(report::Page& page, const Comparison& c);
/// Tables of what a token of either side keeps, and of how fast sentences are translated.
void add_translation_memory(report::Page& page, const Comparison& c);
void add_translation_speed(report::Page& page, const Comparison& c);

}  // namespace lithe::compare
