#include <algorithm>
#include <cmath>
#include <utility>

#include "lithe/kernels/kernel.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

// Loss and gradients as tensors, to compare bits.
std::map<std::string, Tensor> training_step(Model& model, const kit::Batch& batch) {
  std::map<std::string, Tensor> out;
  for (Parameter& p : model.parameters().all())
    if (p.master.ref()) p.master.ref()->grad = Tensor();
  Tape tape;
  const Var loss = kit::loss(model, batch, kit::labels_for(model, batch), 0.1, 0.1);
  out["loss"] = clone(loss.value());
  tape.backward(loss);
  for (const Parameter& p : model.parameters().all())
    if (p.master.grad().defined()) out[p.name] = clone(p.master.grad());
  return out;
}

struct RestoreKernels {
  kernels::Isa isa = kernels::usable_isa();
  bool reference = kernels::reference_only();
  ~RestoreKernels() {
    kernels::limit_isa(isa);
    kernels::force_reference(reference);
  }
};

// Eight draws know only roughly how far rounding moves a number, and may all choose alike in a part that chooses by
// comparing numbers. Where a result is beyond the bound, more draws are let in. They run with the kernels of the first
// ones: what is tried must not widen its own bound.
void add_draws(kit::Bounded& bound, const std::function<kit::Results(double, uint64_t)>& moved, double relative,
               const RestoreKernels& first) {
  const RestoreKernels restore;
  kernels::limit_isa(first.isa);
  kernels::force_reference(first.reference);
  for (uint64_t draw = 1001; draw <= 1064; ++draw) {
    const kit::Results at = moved(relative, draw);
    for (const auto& [name, exact] : bound.exact) {
      std::vector<double>& mine = bound.bound.at(name);
      double squares = 0;
      for (size_t i = 0; i < exact.size(); ++i) squares += std::pow(at.at(name)[i] - exact[i], 2);
      const double rms = exact.empty() ? 0 : std::sqrt(squares / double(exact.size()));
      for (size_t i = 0; i < exact.size(); ++i)
        mine[i] = std::max(mine[i], 4 * (std::abs(at.at(name)[i] - exact[i]) + rms));
    }
  }
}

// A softmax feels neither what all keys of a text share nor a key that stands alone, as some windows and blocks of
// the small sources do: such gradients are sums of numbers as large as other gradients that cancel, wholly or nearly,
// and what rounding leaves of them no jitter shows.
void let_cancel(kit::Bounded& bound, const PartCase& c, double relative) {
  const bool sees_few = c.cross && (c.slot == "field" || c.slot == "memory" || c.name == "select_kv" ||
                                    c.name == "linear_attention");  // a source of one row
  if (c.name != "conv_kv" && c.name != "multi_scale" && !sees_few) return;
  const bool mixes = c.cross && c.name == "local_prior";  // two distributions, which a width moves against each other
  double largest = 0;
  for (const auto& [name, exact] : bound.exact)
    for (const double g : exact)
      if (name.starts_with("gradient")) largest = std::max(largest, std::abs(g));
  for (auto& [name, bounds] : bound.bound)
    for (double& most : bounds)
      if (name.starts_with("gradient")) most += (mixes ? 8 : 4) * relative * largest;
}

}  // namespace

std::string check_determinism(const PartCase& c) {
  for (DType compute : {DType::f32, DType::bf16})
    for (double dropout : {0.0, 0.3}) {
      ModelConfig config = config_of(c);
      config.hidden_dropout = dropout;
      const auto build = [&] {
        auto model = std::make_unique<Model>(config, ModelOptions{.compute = compute, .trainable = true});
        kit::randomise(model->parameters(), 1);
        return model;
      };
      const auto model = build();
      const kit::Batch batch = kit::random_batch({5, 1, 7}, config, 6);
      const std::string how = cat(" in ", compute, dropout > 0 ? " with dropout" : "");
      const auto first = training_step(*model, batch);
      if (const std::string why = difference(first, training_step(*model, batch)); !why.empty())
        return "second run" + how + ": " + why;
      if (const std::string why = difference(first, training_step(*build(), batch)); !why.empty())
        return "second model" + how + ": " + why;
      model->set_recompute(true);
      if (const std::string why = difference(first, training_step(*model, batch)); !why.empty())
        return "recomputation" + how + ": " + why;
    }
  return "";
}

std::string check_kernels(const PartCase& c, DType compute) {
  const auto exact = build(c, DType::f64, DType::f64);
  const kit::Batch batch = kit::random_batch({5, 1, 7}, exact->config(), 6);
  const auto moved = [&](double relative, uint64_t seed) {
    const auto model = build(c, DType::f64, DType::f64);
    kit::jitter(model->parameters(), relative, seed);
    kit::Batch near = batch;
    near.jitter = relative, near.jitter_seed = seed;
    return kit::run_training(*model, near, 0.1);
  };
  const double relative =
      kit::rounding(compute, 32 * std::max<int64_t>(exact->config().token_width, 1));  // a code's bits are summed
  kit::Bounded bound = kit::rounding_bound(moved, relative);
  let_cancel(bound, c, relative);
  const RestoreKernels restore;
  bool widened = false;
  const auto compare = [&](const kit::Results& got) {
    const std::string why = kit::compare(got, bound);
    if (why.empty() || std::exchange(widened, true)) return why;
    add_draws(bound, moved, relative, restore);
    return kit::compare(got, bound);
  };
  const auto model = build(c, DType::f32, compute);
  kernels::force_reference(true);
  if (const std::string why = compare(kit::run_training(*model, batch, 0.1)); !why.empty()) return "reference: " + why;
  kernels::force_reference(false);
  std::vector<kernels::Isa> sets = kernels::built_isas();
  std::erase_if(sets, [](kernels::Isa isa) { return !kernels::can_run(isa); });
  if (restore.isa == kernels::Isa::amx_emulated) sets.insert(sets.begin(), restore.isa);
  for (const kernels::Isa isa : sets) {
    kernels::limit_isa(isa);
    if (const std::string why = compare(kit::run_training(*model, batch, 0.1)); !why.empty())
      return cat(kernels::name_of(isa), ": ", why);
  }
  return "";
}

}  // namespace lithe::conformance
