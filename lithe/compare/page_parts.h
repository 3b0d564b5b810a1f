// What the files of a comparison's page share: cells, and the parts that only pages of translations have.
#pragma once

#include "lithe/compare/result.h"
#include "lithe/report/page.h"

namespace lithe::compare {

/// A dash for what is not finite.
report::Cell number_cell(double value, int digits = 4);
report::Cell quantity_cell(double value, report::Quantity kind);
/// "mha (baseline) (1 diverged)".
std::string name_in_table(const Comparison& c, size_t variant);

/// The section with the scores of the translations.
void add_translations(report::Page& page, const Comparison& c);
/// Tables of what a token of either side keeps, and of how fast sentences are translated.
void add_translation_memory(report::Page& page, const Comparison& c);
void add_translation_speed(report::Page& page, const Comparison& c);

}  // namespace lithe::compare
