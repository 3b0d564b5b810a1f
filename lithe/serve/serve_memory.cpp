#include "lithe/serve/serve_memory.h"

#include <algorithm>
#include <numeric>

#include "lithe/eval/token_likelihoods.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

constexpr int64_t kPage = 256;  // tokens: no cache has larger pages

// The highest total of tensors on the meta device while f runs, above what there is before.
template <class F>
int64_t peak_of(F&& f) {
  const int64_t before = ledger(Device::meta).current();
  ledger(Device::meta).reset_peak();
  f();
  return ledger(Device::meta).peak() - before;
}

std::string mebibytes(int64_t bytes) { return cat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

// One pass over sequences of `lengths`, of which the last rows are predicted, where any are.
void run_once(const Model& meta, const std::vector<int64_t>& lengths, int64_t predicted) {
  const NoGrad no_grad;
  std::vector<int64_t> offsets{0};
  for (const int64_t n : lengths) offsets.push_back(offsets.back() + n);
  std::vector<int64_t> wanted(size_t(std::min(predicted, offsets.back())));
  std::iota(wanted.begin(), wanted.end(), offsets.back() - int64_t(wanted.size()));
  Pass pass;
  const Rows rows =
      meta.run({empty({offsets.back()}, DType::i32, Device::meta), Sequences(offsets, {}, Device::meta)}, pass);
  if (predicted) cast(meta.logits(rows, wanted), DType::f32);
}

Model on_meta(const Model& model) {
  return {model.config(), {.device = Device::meta, .dtype = model.compute_dtype(), .compute = model.compute_dtype()}};
}

}  // namespace

int64_t encoding_work(const Model& model, int64_t tokens, int64_t rank) {
  const Model meta = on_meta(model);
  const std::vector<int64_t> lengths(size_t(kTextsOfAPass), tokens);
  return peak_of([&] { run_once(meta, lengths, 0); }) +
         kTextsOfAPass * (tokens * rank + model.config().hidden_size) * size_of(wide_of(model.compute_dtype()));
}

void check_encoding_fits(int64_t weights, int64_t work, int64_t bytes, const std::string& name) {
  if (weights + work > bytes)
    throw Error(
        "serve",
        cat("'", name, "' has ", mebibytes(std::max<int64_t>(bytes, 0)), ", it needs ", mebibytes(weights + work),
            ": weights ", mebibytes(weights), ", a pass ", mebibytes(work), "; raise --memory"),
        ExitCode::memory);
}

ServeMemory plan_serving(const Model& model, int64_t weights, const DecodeBudget& budget, int64_t drafted,
                         int64_t rank) {
  ServeMemory out{.weights = weights};
  const int64_t two = model.state_bytes({2 * kPage}, {}, budget.cache),
                one = model.state_bytes({kPage}, {}, budget.cache);
  out.token = (two - one + kPage - 1) / kPage;
  out.slot = std::max(one, kPage * out.token);  // and a page that is not full
  const Model meta = on_meta(model);
  const int64_t most = std::max<int64_t>(1, budget.longest - 1), piece = std::min(most, budget.prefill_tokens);
  std::vector<int64_t> step(size_t(budget.slots), 1 + drafted);
  step.push_back(piece);
  out.work = std::max(peak_of([&] { run_once(meta, {most}, kRowsOfLogits); }),
                      peak_of([&] { run_once(meta, step, budget.slots * (1 + drafted)); }));
  // The narrow rows of an update, one at a time.
  out.work += std::max(most, budget.slots * (1 + drafted) + piece) * rank * size_of(model.compute_dtype());
  return out;
}

DecodeBudget within_memory(const ServeMemory& plan, int64_t bytes, DecodeBudget budget, const std::string& name) {
  const int64_t fixed = plan.weights + plan.work + 2 * budget.prefix_bytes + budget.slots * plan.slot;
  const int64_t room = plan.token ? (bytes - fixed) / plan.token : bytes >= fixed ? budget.longest * budget.slots : 0;
  if (bytes < fixed || room < kPage)
    throw Error("serve",
                cat("'", name, "' has ", mebibytes(std::max<int64_t>(bytes, 0)), ", it needs ",
                    mebibytes(fixed + kPage * plan.token), ": weights ", mebibytes(plan.weights), ", a pass ",
                    mebibytes(plan.work), ", ", budget.slots, " slots ", mebibytes(budget.slots * plan.slot),
                    ", kept prompts ", mebibytes(2 * budget.prefix_bytes), ", and a page of tokens ",
                    mebibytes(kPage * plan.token), "; raise --memory, or lower --slots or --prefix-cache"),
                ExitCode::memory);
  budget.tokens = budget.tokens ? std::min(budget.tokens, room) : room;
  budget.longest = std::min(budget.longest, budget.tokens);
  return budget;
}

}  // namespace lithe
