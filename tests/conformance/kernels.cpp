#include <algorithm>
#include <utility>

#include "lithe/kernels/kernel.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

// Loss and gradients as tensors, to compare bits.
std::map<std::string, Tensor> training_step(Model& model, const kit::Batch& batch) {
  std::map<std::string, Tensor> out;
  for (Parameter& p : model.parameters().all()) p.master.ref()->grad = Tensor();
  Tape tape;
  const Var loss = kit::loss(model, batch, kit::labels_for(model, batch), 0.1, 0.1);
  out["loss"] = clone(loss.value());
  tape.backward(loss);
  for (const Parameter& p : model.parameters().all())
    if (p.master.grad().defined()) out[p.name] = clone(p.master.grad());
  return out;
}

std::string difference(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  if (a.size() != b.size()) return "other parameters have gradients";
  for (const auto& [name, x] : a)
    if (const std::string difference = kit::bit_difference(x, b.at(name)); !difference.empty())
      return name + ": " + difference;
  return "";
}

struct RestoreKernels {
  kernels::Isa isa = kernels::usable_isa();
  bool reference = kernels::reference_only();
  ~RestoreKernels() {
    kernels::limit_isa(isa);
    kernels::force_reference(reference);
  }
};

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
  const auto bound_of = [&](uint64_t draws) {
    return kit::rounding_bound(
        [&](double relative, uint64_t seed) {
          const auto model = build(c, DType::f64, DType::f64);
          kit::jitter(model->parameters(), relative, seed + draws);
          kit::Batch moved = batch;
          moved.jitter = relative, moved.jitter_seed = seed + draws;
          return kit::run_training(*model, moved, 0.1);
        },
        kit::rounding(compute, 32 * std::max<int64_t>(exact->config().token_width, 1)));  // a code's bits are summed
  };
  kit::Bounded bound = bound_of(0);
  // A part that chooses by comparing numbers may choose otherwise after rounding, and few draws may all choose alike:
  // where they do not explain a result, more of them decide.
  bool widened = false;
  const auto compare = [&](const kit::Results& got) {
    const std::string why = kit::compare(got, bound);
    if (why.empty() || std::exchange(widened, true)) return why;
    for (uint64_t draws = 1000; draws <= 8000; draws += 1000)
      for (const auto& [name, more] : bound_of(draws).bound) {
        std::vector<double>& mine = bound.bound.at(name);
        for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], more[i]);
      }
    return kit::compare(got, bound);
  };
  const auto model = build(c, DType::f32, compute);
  const RestoreKernels restore;
  kernels::force_reference(true);
  if (const std::string why = compare(kit::run_training(*model, batch, 0.1)); !why.empty()) return "reference: " + why;
  kernels::force_reference(false);
  for (kernels::Isa isa : {kernels::Isa::generic, kernels::Isa::avx2, kernels::Isa::avx512, kernels::Isa::avx512bf16}) {
    if (isa > restore.isa) break;
    kernels::limit_isa(isa);
    if (const std::string why = compare(kit::run_training(*model, batch, 0.1)); !why.empty())
      return cat(kernels::name_of(isa), ": ", why);
  }
  return "";
}

}  // namespace lithe::conformance
