// `lithe bench`: what the machine can do, what the kernels do with it, and how fast models train, read and write.
#pragma once

#include <set>

#include "lithe/base/token_code.h"
#include "lithe/bench/measure.h"
#include "lithe/model/config.h"
#include "lithe/recipe/train_config.h"

namespace lithe::bench {

/// What can be measured: ceilings, kernels, train, prefill, decode, encode.
extern const std::vector<std::string> kSections;

/// A model that is measured.
struct Subject {
  std::string name;
  ModelConfig model;  // complete
  TrainConfig train;
  int64_t sequence_length = 0;
  TokenCode code;  // of its tokens
  Path run;        // its weights; empty: as initialised
};

struct Options {
  std::set<std::string> only;  // of kSections; empty: ceilings and kernels, or with subjects all but kernels
  int64_t rounds = 7;
  double seconds = 0.05;  // of one measurement in a round, at least one run
  std::string precision;  // f32 or bf16; empty: kernels in both, models in their recipe's
  std::vector<int64_t> batches{1, 8};
  int64_t length = 0;         // tokens of a text; 0: the least sequence_length of the recipes
  bool fixed_length = false;  // set by run(): length was given
};

/// The precision that was asked for, in words.
std::string precision_text(const Options& options);

/// Measures; the first subject is what the others are compared with. What a model cannot do is left out, with the
/// reason in Result::skipped. A signal to stop ends it early (Result::complete).
Result run(const std::vector<Subject>& subjects, const Options& options);

/// The kernels in `dtypes`, on data that do not fit into caches where memory is what bounds them.
std::vector<Case> kernel_cases(const std::vector<DType>& dtypes, const Ceilings& ceilings);

/// The uses of a model that `options` asks for; appends to `skipped` why others are missing.
std::vector<Case> model_cases(const Subject& subject, const Options& options, const std::set<std::string>& sections,
                              const Ceilings& ceilings, std::vector<std::string>& skipped);

}  // namespace lithe::bench
