#include "lithe/bench/bench.h"

namespace lithe::bench {

const std::vector<std::string> kSections{"ceilings", "kernels", "train", "prefill", "decode", "encode"};

std::string precision_text(const Options& options) {
  return options.precision.empty() ? "that of each recipe, kernels in f32 and bf16" : options.precision;
}

Result run(const std::vector<Subject>& subjects, const Options& asked) {
  Options options = asked;
  options.fixed_length = options.length > 0;
  // One length for all, or their measurements could not be compared.
  for (const Subject& subject : subjects)
    if (!options.fixed_length && (!options.length || subject.sequence_length < options.length))
      options.length = subject.sequence_length;
  std::set<std::string> sections = options.only;
  if (sections.empty()) {
    sections = {kSections.begin(), kSections.end()};
    if (!subjects.empty()) sections.erase("kernels");
  }
  Result result = empty_result(precision_text(options));
  result.rounds = options.rounds;
  const Ceilings ceilings;
  std::vector<Case> cases;
  if (sections.count("kernels"))
    cases = kernel_cases(options.precision.empty() ? std::vector<DType>{DType::f32, DType::bf16}
                                                   : std::vector<DType>{dtype_named(options.precision)},
                         ceilings);
  for (const Subject& subject : subjects) {
    std::vector<Case> more = model_cases(subject, options, sections, ceilings, result.skipped);
    for (Case& c : more) {
      c.control = subjects.size() > 1 && &subject == &subjects[0];
      cases.push_back(std::move(c));
    }
  }
  measure(std::move(cases), ceilings, options.rounds, options.seconds, sections.count("ceilings") > 0, result);
  return result;
}

}  // namespace lithe::bench
