// `lithe eval --exits`: the table of a model's early exits, as text, as JSON and as a page.
#pragma once

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/eval/exit_table.h"

namespace lithe {

/// Lines for a terminal.
std::string exit_table_text(const ExitTable& table);
Json exit_table_json(const ExitTable& table);
/// A page with the chart of quality against layers and against milliseconds, and the table.
std::string exit_table_page(const ExitTable& table, const std::string& title);

}  // namespace lithe
