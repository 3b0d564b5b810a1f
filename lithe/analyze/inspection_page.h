// The page and the tables of `lithe inspect`.
#pragma once

#include <string>

#include "lithe/analyze/inspection.h"
#include "lithe/base/json.h"

namespace lithe::analyze {

/// Which pictures a page has, from 0. Empty: all; `means` draws the mean over heads in place of the heads.
struct Pictures {
  std::vector<int64_t> layers, heads;
  bool means = false;
};

/// A self-contained HTML page: indicators over depth, their table, maps side by side, logits.
std::string inspection_page(const Inspection& inspection, const Pictures& pictures);
/// A table for the terminal, one row a layer.
std::string inspection_table(const Inspection& inspection);
/// Indicators and logits of every layer; with `maps` the weights of the pictures' layers and heads.
Json inspection_json(const Inspection& inspection, const Pictures& pictures, bool maps);

}  // namespace lithe::analyze
