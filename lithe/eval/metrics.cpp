#include "lithe/eval/metrics.h"

#include <limits>

#include "lithe/base/error.h"

namespace lithe {

// spec: metric.prr | metric | performance retention ratio against a reference model, direct and inverse | TH 3.4.6
double prr(double score, double reference, Better better) {
  check(reference > 0, "prr", "the reference score must be above 0, got ", reference);
  const double ratio = score / reference;
  return 100 * (better == Better::higher ? ratio : 2 - ratio);
}

// spec: metric.peop | metric | performance elasticity of parameters against a base model | TH 3.4.6
double peop(double score, double base_score, double parameters, double base_parameters, Better better) {
  check(base_score > 0 && base_parameters > 0, "peop", "the base's score and parameters must be above 0, got ",
        base_score, " and ", base_parameters);
  if (parameters == base_parameters) return std::numeric_limits<double>::quiet_NaN();
  const double elasticity = (score / base_score - 1) / (parameters / base_parameters - 1);
  return better == Better::higher ? elasticity : -elasticity;
}

// spec: metric.embedding_efficiency | metric | PRR, PCR, share of embeddings, speed-up | TH Eq 2.4-2.8
double pcr(double parameters, double base_parameters) {
  check(parameters >= 0 && base_parameters > 0, "pcr", "parameters must be 0 or more and the base's above 0, got ",
        parameters, " and ", base_parameters);
  return 100 * (1 - parameters / base_parameters);
}

double poep(double embedding_parameters, double parameters) {
  check(parameters > 0 && embedding_parameters >= 0 && embedding_parameters <= parameters, "poep",
        "the embeddings' parameters must be 0 or more and among all, got ", embedding_parameters, " of ", parameters);
  return 100 * embedding_parameters / parameters;
}

double speed_up(double time, double base_time) {
  check(time > 0 && base_time > 0, "speed_up", "both times must be above 0, got ", time, " and the base's ", base_time);
  return base_time / time;
}

}  // namespace lithe
