// What kind of model it is: what its rows see, and what it reads.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace lithe {

enum class Architecture { decoder, encoder, encoder_decoder };

/// Rows see those behind them: what is predicted of one may rest on its whole sequence.
constexpr bool sees_ahead(Architecture architecture) { return architecture == Architecture::encoder; }
/// A source comes with the text, and an encoder of the model's own reads it.
constexpr bool reads_source(Architecture architecture) { return architecture == Architecture::encoder_decoder; }

/// As recipes and config.json name it.
const std::string& name_of(Architecture architecture);
/// All names, in the enumeration's order.
const std::vector<std::string>& architecture_names();
inline std::ostream& operator<<(std::ostream& out, Architecture a) { return out << name_of(a); }

}  // namespace lithe
