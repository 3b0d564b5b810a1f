// Word and character error rates of texts against references, and how sure they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// The least insertions, deletions and substitutions of units that make one text of the other, and the reference's
/// units.
struct Edits {
  int64_t edits = 0, units = 0;
};
/// Units are words between white space, or characters: code points, of white space one between words.
Edits word_edits(std::string_view reference, std::string_view hypothesis);
Edits character_edits(std::string_view reference, std::string_view hypothesis);

struct ErrorRate {
  double rate = 0;           // edits by units, of all texts together; 0 without units and edits
  double low = 0, high = 0;  // 95 % of the resamples of texts lie between
  int64_t edits = 0, units = 0;
};
/// Draws as many texts as there are, with replacement, `samples` times. Resample s is a pure function of (seed, s).
ErrorRate error_rate(const std::vector<Edits>& texts, int64_t samples = 1000, uint64_t seed = 12345);

}  // namespace lithe
