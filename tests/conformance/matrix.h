// Heads x position x field or memory x output x architecture: every pair of options in one small model at least, and
// each of these against the same model whose heads are written out as mha.
#pragma once

#include <array>
#include <optional>

#include "tests/conformance/cases.h"

namespace lithe::conformance {

/// One choice of each factor, as YAML.
struct Combination {
  enum Factor { heads, place, position, output, architecture, kFactors };
  std::array<std::string, kFactors> of;
  bool operator==(const Combination&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Combination& c);

/// The choices of a factor: every registered part with its default options and each of its samples.
const std::vector<std::string>& choices(Combination::Factor factor);

/// Combinations that have every pair of choices which some combination can have, and the pairs that none was found to
/// have, each with what the last one tried said.
struct Covering {
  std::vector<Combination> combinations;
  std::map<std::string, std::string> refused;
};
const Covering& covering();

ModelConfig config_of(const Combination& c);
/// Empty where the model can be built.
std::string refusal(const Combination& c);

/// A model with heads mha that computes the same, and its parameters as functions of those of the first; none where
/// these heads are no linear maps of rows, or where the rest of the model is not of single query heads.
struct WrittenOut {
  ModelConfig config;
  std::function<void(const Parameters& from, Parameters& to)> copy;
};
std::optional<WrittenOut> written_out(const Combination& c);

/// Rows, loss, and the slope of every parameter are those of the model that is written out.
std::string check_written_out(const Combination& c);
/// Rows of one sequence have the same bits alone and among others.
std::string check_rows_alone(const Combination& c);
/// A decoder's rows one after another are those of the whole, of the model that is written out where there is one.
std::string check_rows_decoded(const Combination& c);
/// A training step on meta, as a plan takes it.
std::string check_planned(const Combination& c);

}  // namespace lithe::conformance
