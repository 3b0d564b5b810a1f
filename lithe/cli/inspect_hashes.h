// What `lithe inspect --hashes` shows: how n-grams and candidates share hashed rows and codes.
#pragma once

#include <string>
#include <vector>

namespace lithe {

/// Prints, for each run, every table that is read by hashes, and what the n-grams of the files make of it. Fails, as
/// wrong usage, on a run without one.
int inspect_hashes(const std::vector<std::string>& runs, const std::vector<std::string>& files, bool json);

}  // namespace lithe
