// Architecture search: candidates of a recipe under budgets, trained and scored one after another (spec nas.search).
#pragma once

#include <cmath>

#include "lithe/base/fields.h"
#include "lithe/compare/progress.h"
#include "lithe/compare/search_grid.h"
#include "lithe/compare/side_by_side.h"

namespace lithe::compare {

/// A limit and how much an excess counts beside the loss: weight * max(0, amount / limit - 1).
struct SearchBudget {
  double parameters = 0, flops = 0, memory = 0, latency = 0;  // 0: no limit
  double weight = 1;
  int64_t prompt_length = 64;
  void fields(Fields& f);
};

struct SupernetConfig {
  int64_t steps = 0, candidates = 64;
  void fields(Fields& f);
};

/// The file that `lithe search` reads.
struct SearchFile {
  Path file;
  std::string recipe;                                                     // relative to the file
  std::vector<std::pair<std::string, Node>> set;                          // for all candidates
  std::vector<std::pair<std::string, std::vector<std::string>>> choices;  // key, and its values as YAML
  GridSearch how;
  bool train_beyond = false;
  SearchBudget budget;
  SupernetConfig supernet;
  int64_t training_seed = 1;
  std::string text;
};
SearchFile read_search(const Path& file);
/// The keys of such a file, for the documentation.
std::vector<FieldDoc> describe_search();

enum class CandidateStatus {
  open,     // nothing is decided yet
  refused,  // it cannot be built
  beyond,   // the budget: not trained
  shared,   // scored by the super-network alone
  finished,
  diverged
};
const char* name_of(CandidateStatus status);
inline std::ostream& operator<<(std::ostream& out, CandidateStatus status) { return out << name_of(status); }

struct Candidate {
  std::string name;  // "c-0-2-1": the number of the value of each choice
  Point point;
  std::vector<std::string> values;  // of the choices
  CandidateStatus status = CandidateStatus::open;
  std::string message;  // why
  int64_t parameters = 0;
  double flops = 0, memory = 0, latency = std::nan("");  // forward FLOPs a token, bytes, milliseconds a token
  double shared_loss = std::nan(""), loss = std::nan(""), objective = std::nan(""), seconds = 0;
  bool fits = false;  // all budgets
};

struct SearchResult {
  SearchFile search;
  Progress status = Progress::complete;
  std::vector<Candidate> candidates;  // trained, in the order of the search; then what the super-network alone scored
  std::string best;                   // name; empty: none
};

/// Runs the search in `out`, or goes on with one that was stopped there:
///   DIR/runs/<candidate>/seed-<n>/   a run directory, as `lithe compare` makes it
///   DIR/compare.yaml                 the best of them as an experiment: lithe compare DIR/compare.yaml --out DIR
///   DIR/search.{json,html}           what came of it
/// `launcher`: of candidates whose choice waits for no other's result; the search takes the same way. `only`: the name
/// of a candidate; trains and scores it, and no more.
SearchResult search(const Path& file, const Path& out, const Launcher& launcher = {}, const std::string& only = "");

std::string to_json_text(const SearchResult& result);
std::string to_page(const SearchResult& result);

}  // namespace lithe::compare
