// A model in one process and the same divided among ranks that are threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/model/safetensors.h"
#include "lithe/parallel/local.h"
#include "lithe/parallel/operations.h"
#include "lithe/train/step.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"
#include "tests/support/text.h"

namespace lithe::kit {

template <class F>
void expect_error(F&& f, const std::string& part) {
  const std::string error = error_of(f);
  EXPECT_NE(error.find(part), error.npos) << error << " lacks '" << part << "'";
}

/// Texts of the clm objective, of lengths that differ.
inline std::vector<DeviceBatch> clm_batches(int64_t step, int64_t micro_batches, int64_t vocab,
                                            Device device = Device::cpu) {
  std::vector<DeviceBatch> out;
  for (int64_t i = 0; i < micro_batches; ++i) {
    lithe::Batch batch;
    batch.offsets = {0, 9 + i % 3, 16 + i % 3};
    uint64_t state = uint64_t(step * 131 + i * 17 + 1);
    for (int64_t t = 0; t < batch.offsets.back(); ++t) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      batch.tokens.push_back(int32_t((state >> 33) % uint64_t(vocab) / 3));
      batch.labels.push_back(int32_t((int64_t(batch.tokens.back()) * 7 + t) % vocab));
    }
    batch.labels[3] = -1;
    out.push_back(to_device(batch, device));
  }
  return out;
}

/// What some steps of training left.
struct Course {
  std::vector<double> losses, norms;
  std::map<std::string, Tensor> gradients, weights;  // of the first step; at the end
  double evaluated = 0;
};

inline std::map<std::string, Tensor> tensors_of(const Path& file) {
  const SafetensorsFile in(file);
  std::map<std::string, Tensor> out;
  for (const auto& [name, entry] : in.entries()) in.read(name, out[name] = empty(entry.shape, entry.dtype));
  return out;
}

inline std::map<std::string, Tensor> gradients_of(const Model& model) {
  std::map<std::string, PendingTensor> mine;
  for (const Parameter& p : model.parameters().all())
    if (p.master.grad().defined()) mine[p.name] = pending(clone(p.master.grad()));
  std::map<std::string, Tensor> out;
  const auto take = [&](const std::map<std::string, PendingTensor>& whole) {
    for (const auto& [name, tensor] : whole) out[name] = tensor.read();
  };
  if (model.division())
    model.division()->gather(mine, {""}, take);
  else
    take(mine);
  return out;
}

/// Trains a share, or the whole where no Layout is in use. The weights are in `file` at the end.
inline Course train_course(const ModelConfig& config, const TrainConfig& train, int64_t steps, int64_t micro_batches,
                           const Path& file) {
  Course out;
  Model model(config, {.dtype = train.parameter_dtype(), .compute = train.compute(), .seed = 5, .trainable = true});
  model.set_recompute(train.gradient_checkpointing);
  const TrainedObjective objective(train, model);
  AdamW optimizer(model.parameters(), train);
  for (int64_t step = 1; step <= steps; ++step) {
    const auto batches = clm_batches(step, micro_batches, config.vocab_size);
    const StepLosses losses = accumulate_gradients(model, objective, batches, train, step);
    if (step == 1) out.gradients = gradients_of(model);
    out.losses.push_back(losses.objective.loss / double(losses.objective.labels));
    for (const auto& [name, value] : losses.auxiliary) out.losses.push_back(value);
    out.norms.push_back(optimizer.gradient_norm(model.division()));
    optimizer.step(step, 3e-3, out.norms.back());
  }
  {
    const NoGrad no_grad;
    const DeviceBatch batch = clm_batches(99, 1, config.vocab_size)[0];
    Pass pass;
    const Rows rows = model.run(batch.input, pass);
    LossSums sums;
    model.loss_of(rows, {}, {.labels = batch.targets.labels, .sums = &sums});
    out.evaluated = sums.loss;
    if (model.logits(rows, {2}).value().numel() != config.vocab_size) out.evaluated = NAN;
  }
  save_weights(model, file);
  return out;
}

inline Course divided_course(const ModelConfig& config, const TrainConfig& train, int64_t steps, int64_t micro_batches,
                             const Path& file) {
  Course out;
  set_threads(1);
  const int ranks = int(train.parallel.model() * std::max<int64_t>(1, train.parallel.data));
  run_local_ranks(ranks, [&](Communicator& all) {
    const Layout layout(train.parallel, all);
    const Layout::Use use(&layout);
    Course course = train_course(config, train, steps, micro_batches, file);
    if (all.rank() == 0) out = std::move(course);
  });
  out.weights = tensors_of(file);
  return out;
}

/// The largest difference of two sets of tensors, relative to the norm of each.
inline double relative_difference(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& want,
                                  std::string* where) {
  double worst = 0;
  if (got.size() != want.size()) *where = cat("there are ", got.size(), " tensors and ", want.size());
  for (const auto& [name, tensor] : want) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.shape() != tensor.shape()) {
      *where = cat(name, " is missing or of another shape");
      return INFINITY;
    }
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      difference += std::pow(value_at(found->second, i) - value_at(tensor, i), 2);
      norm += std::pow(value_at(tensor, i), 2);
    }
    const double relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
    if (relative > worst) worst = relative, *where = name;
  }
  return worst;
}

/// One process and the ranks give the same losses, gradients, norms and weights within 1e-5, relative.
inline void expect_equal_courses(const std::string& model, const std::string& parallel, const std::string& more = "",
                                 int64_t steps = 50, int64_t micro_batches = 2, double tolerance = 1e-5) {
  SCOPED_TRACE(model + " " + parallel + " " + more);
  set_threads(1);
  const ModelConfig config = model_config(model);
  TrainConfig train;
  const Node keys = parse_yaml("{max_steps: 50" + (more.empty() ? "" : ", " + more) + "}", "test");
  read_fields(keys, "train", [&](Fields& f) { train.fields(f); });
  const Scratch scratch;
  const Course want = [&] {
    Course whole = train_course(config, train, steps, micro_batches, scratch.path() / "one.safetensors");
    whole.weights = tensors_of(scratch.path() / "one.safetensors");
    return whole;
  }();
  Node divided = keys;
  divided.set("parallel", parse_yaml(parallel, "test"));
  read_fields(divided, "train", [&](Fields& f) { train.fields(f); });
  const Course got = divided_course(config, train, steps, micro_batches, scratch.path() / "all.safetensors");
  std::string where;
  EXPECT_LE(relative_difference(got.gradients, want.gradients, &where), tolerance) << "gradient of " << where;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    ASSERT_NEAR(got.losses[i], want.losses[i], tolerance * std::abs(want.losses[i])) << "loss " << i;
  for (size_t i = 0; i < got.norms.size(); ++i)
    ASSERT_NEAR(got.norms[i], want.norms[i], (i ? 100 : 1) * tolerance * want.norms[i]) << "norm of step " << i + 1;
  EXPECT_NEAR(got.evaluated, want.evaluated, tolerance * want.evaluated);
  // Adam divides by the root of tiny second moments, which makes more of rounding.
  EXPECT_LE(relative_difference(got.weights, want.weights, &where), 100 * tolerance) << "weights of " << where;
}

}  // namespace lithe::kit
