// Words with one wrong letter, for measuring how much a model depends on spelling.
#pragma once

#include <string>
#include <string_view>

#include "lithe/base/random.h"
#include "lithe/data/examples.h"

namespace lithe {

/// `text` with each word of at least four ASCII letters changed with probability `rate` in one place behind its first
/// letter: two neighbours swapped, one left out, doubled, or replaced by another letter, each equally often. Other text
/// stays as it is. A pure function of (text, rate, seed).
std::string misspell(std::string_view text, double rate, uint64_t seed);

/// The same for the texts, pairs and words of an example. Not for spans, whose answers would move.
void misspell(Example& example, double rate, uint64_t seed);

}  // namespace lithe
