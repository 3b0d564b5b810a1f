#include <cmath>

#include "tests/conformance/checks.h"

namespace lithe::conformance {

std::string check_gradients_alone(const PartCase& part, bool causal) {
  const auto alone = build_alone(part, causal);
  std::string where;
  const double error = kit::gradient_error(alone->bench->parameters(), alone->run, alone->inputs, &where);
  return error <= kGradientError ? "" : cat("relative error ", error, ": ", where);
}

std::string check_slopes(Parameters& parameters, const std::function<double()>& value,
                         const std::function<std::vector<double>(const Parameter&)>& gradient_of) {
  for (Parameter& p : parameters.all()) {
    const Tensor x = p.master.value(), old = clone(x);
    const std::vector<double> gradient = gradient_of(p);
    const Tensor direction = kit::normal(x.shape(), DType::f64, 9);
    double slope = 0, size = 0, length = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      slope += gradient[size_t(i)] * value_at(direction, i);
      size += gradient[size_t(i)] * gradient[size_t(i)];
      length += value_at(direction, i) * value_at(direction, i);
    }
    const auto moved = [&](double step) {
      for (int64_t i = 0; i < x.numel(); ++i)
        set_value(x, i, value_at(old, i) + step * value_at(direction, i) / std::sqrt(length));
      return value();
    };
    slope /= std::sqrt(length);
    double numeric = 0;
    const auto agrees = [&](double step) {
      numeric = (moved(step) - moved(-step)) / (2 * step);
      return std::abs(numeric - slope) <= kGradientError * std::max(1.0, std::sqrt(size));
    };
    // A kink (max(0, x) at 0) or a choice that changes may stand within a step. A wrong slope is wrong at each of them.
    const bool right = agrees(1e-5) || agrees(1e-6);
    copy_into(x, old);
    if (!right) return cat(p.name, ": slope ", slope, " along a random direction, differences ", numeric);
  }
  return "";
}

std::string check_gradients_in_model(const PartCase& c) {
  const auto model = build(c, DType::f64, DType::f64);
  const kit::Batch batch = kit::random_batch({4, 1, 6}, model->config(), 5);
  const kit::Results exact = kit::run_training(*model, batch, 0.1);
  const Tensor labels = kit::labels_for(*model, batch);
  LossSums sums;
  kit::loss(*model, batch, labels, 0.1, 1, &sums);
  const auto loss = [&] {
    const Rehearsal training;  // what is differentiated is the training pass, auxiliary losses included
    return value_at(kit::loss(*model, batch, labels, 0.1, 1 / double(sums.labels)).value(), 0);
  };
  return check_slopes(model->parameters(), loss, [&](const Parameter& p) { return exact.at("gradient of " + p.name); });
}

std::string check_no_idle_parameters(const PartCase& part) {
  std::map<std::string, bool> moves;
  for (const std::string& small : small_models()) {
    const PartCase c = placed(part, small);
    if (!refusal(c).empty()) continue;
    const auto model = build(c, DType::f64, DType::f64);
    const kit::Results results = kit::run_training(*model, kit::random_batch({4, 1, 6, 9, 12, 13}, model->config(), 5));
    for (const Parameter& p : model->parameters().all()) {
      if (p.means) continue;  // which move it
      for (double g : results.at("gradient of " + p.name)) moves[p.name] = moves[p.name] || std::abs(g) > 1e-12;
    }
  }
  for (const auto& [parameter, any] : moves)
    if (!any) return parameter + " has no gradient in any small model";
  return "";
}

}  // namespace lithe::conformance
