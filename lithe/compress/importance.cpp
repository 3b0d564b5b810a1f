#include "lithe/compress/importance.h"

#include <cmath>
#include <map>

#include "lithe/base/stop.h"
#include "lithe/eval/held_out.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

bool of_sub_layer(const Model& model, const std::string& name, const PruneGroup& group, int64_t unit) {
  const bool encoder = group.path.starts_with("encoder.");
  const ModelConfig config = encoder ? model.config().encoder_config() : model.config();
  const int64_t layer = std::stoll(group.path.substr(group.path.rfind('.') + 1));
  const std::string at = group.path + "." + config.layer(layer).sub_layers[size_t(unit)].name;
  return name.starts_with(at + ".") || name.starts_with(at + "_norm.");
}

}  // namespace

// spec: prune.norm | compression | units scored by the norm of their numbers | TB 6.4.7(2)
Importance norm_importance(Model& model, const std::vector<PruneGroup>& groups, NormOf norm) {
  Importance out;
  for (const PruneGroup& group : groups) {
    std::vector<double> scores(size_t(group.count), 0);
    for (const Parameter& p : model.parameters().all()) {
      if (norm == NormOf::output && !p.joins) continue;
      if (!group.path.empty() && !p.name.starts_with(group.path)) continue;
      const Tensor numbers = p.numbers();
      for (int64_t i = 0; i < group.count; ++i) {
        std::optional<Slice> slice = elements_of(p, group, i);
        if (group.unit == PruneUnit::sub_layers && of_sub_layer(model, p.name, group, i)) slice = Slice::of(p.axes, {});
        if (!slice) continue;
        const Tensor part = slice->taken(numbers);
        for (int64_t e = 0; e < part.numel(); ++e) {
          const double x = value_at(part, e);
          scores[size_t(i)] += norm == NormOf::l1 ? std::abs(x) : x * x;
        }
      }
    }
    for (double& score : scores) score = norm == NormOf::l1 ? score : std::sqrt(score);
    out.push_back(std::move(scores));
  }
  return out;
}

// spec: prune.grad | compression | units scored by the loss's slope for a factor on each | TB 6.4.7(2)
Importance gradient_importance(Model& model, const TrainedObjective& objective, const TrainConfig& config,
                               const std::vector<PruneGroup>& groups, const std::vector<DeviceBatch>& batches,
                               bool per_group) {
  Importance out;
  for (const PruneGroup& group : groups) out.emplace_back(size_t(group.count), 0.0);
  check_usage(!batches.empty(), "prune",
              "gradients need a text; the run's own data are not there: give --set data.files=[FILE]");
  for (const DeviceBatch& batch : batches) {
    check_not_stopped("prune", "nothing was written");
    run_micro_batch(model, objective, batch, {.labelled = batch.labelled}, config);
    for (size_t g = 0; g < groups.size(); ++g)
      for (int64_t i = 0; i < groups[g].count; ++i) {
        double sum = 0;
        for (Parameter* p : joining(model, groups[g], i)) {
          const Tensor gradient = p->master.grad();
          if (!gradient.defined()) continue;
          const auto of_unit = elements_of(*p, groups[g], i);
          const Slice slice = of_unit ? *of_unit : Slice::of(p->axes, {});
          const Tensor x = slice.taken(p->numbers()), d = slice.taken(gradient);
          for (int64_t e = 0; e < x.numel(); ++e) sum += value_at(x, e) * value_at(d, e);
        }
        out[g][size_t(i)] += std::abs(sum) / double(batches.size());
      }
    take_gradients(model, objective);
  }
  for (std::vector<double>& scores : out) {
    double squares = 0;
    for (const double score : scores) squares += score * score;
    for (double& score : scores) score = per_group && squares > 0 ? score / std::sqrt(squares) : score;
  }
  return out;
}

Importance activation_importance(Model& model, const Objective& objective, const std::vector<PruneGroup>& groups,
                                 const std::vector<DeviceBatch>& batches) {
  check_usage(!batches.empty(), "prune",
              "activations need a text; the run's own data are not there: give --set data.files=[FILE]");
  std::map<const void*, std::vector<double>> squares;  // by weight: of each input, over all rows
  int64_t rows = 0;
  const ProductObserver observer([&](const Tensor& x, const Var& w, const Tensor&, const Tensor&) {
    std::vector<double>& sums = squares[w.value().raw()];
    sums.resize(size_t(x.cols()));
    for (int64_t e = 0; e < x.numel(); ++e) sums[size_t(e % x.cols())] += value_at(x, e) * value_at(x, e);
  });
  for (const DeviceBatch& batch : batches) {
    check_not_stopped("prune", "nothing was written");
    evaluate_batch(model, objective, batch);
    rows += batch.input.rows();
  }
  // Of each weight: the mean square of what it adds.
  const auto squares_added = [&](const Parameter& p) {
    const Tensor numbers = p.numbers();
    const auto found = squares.find(p.var().value().raw());
    check_usage(found != squares.end() && int64_t(found->second.size()) == numbers.rows(), "prune",
                "--by activation looks at products with one matrix, and '", p.name,
                "' is read by another operation; give --by gradient");
    Tensor out = zeros(numbers.shape(), DType::f64);
    for (int64_t e = 0; e < numbers.numel(); ++e) {
      const double w = value_at(numbers, e), mean = found->second[size_t(e / numbers.cols())] / double(rows);
      set_value(out, e, w * w * mean);
    }
    return out;
  };
  std::map<const Parameter*, Tensor> added;
  Importance out;
  for (const PruneGroup& group : groups) {
    std::vector<double>& scores = out.emplace_back(size_t(group.count), 0.0);
    for (int64_t i = 0; i < group.count; ++i) {
      for (const Parameter* p : joining(model, group, i)) {
        if (p->numbers().shape().rank() != 2) continue;  // biases
        if (!added.contains(p)) added[p] = squares_added(*p);
        const auto of_unit = elements_of(*p, group, i);
        const Tensor part = (of_unit ? *of_unit : Slice::of(p->axes, {})).taken(added[p]);
        for (int64_t e = 0; e < part.numel(); ++e) scores[size_t(i)] += value_at(part, e);
      }
      scores[size_t(i)] = std::sqrt(scores[size_t(i)]);
    }
  }
  return out;
}

MeanLoss mean_loss(const Model& model, const Objective& objective, const std::vector<DeviceBatch>& batches) {
  MeanLoss out;
  std::vector<double> means;
  double total = 0;
  for (const DeviceBatch& batch : batches) {
    const LossSums sums = evaluate_batch(model, objective, batch);
    total += sums.nll;
    out.labels += sums.labels;
    means.push_back(sums.mean_nll());
  }
  out.mean = total / double(std::max<int64_t>(out.labels, 1));
  double squares = 0;
  for (const double mean : means) squares += (mean - out.mean) * (mean - out.mean);
  const auto n = double(means.size());
  out.error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  return out;
}

}  // namespace lithe
