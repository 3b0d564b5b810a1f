#include "lithe/train/step.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lithe/autograd/between.h"
#include "lithe/base/tree_sum.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/model/layer_of.h"
#include "lithe/model/layer_watch.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/gather.h"
#include "lithe/train/divided_step.h"

namespace lithe {
namespace {

double number_of(const Var& scalar) {
  double out = 0;
  if (!scalar.value().is_meta())
    dispatch_float(scalar.dtype(), [&]<class T>() { out = double(scalar.value().data<T>()[0]); });
  return out;
}

void add_to(Statistic& sum, const Statistic& more) {
  if (sum.sums.empty()) sum.sums.resize(more.sums.size(), 0);
  check(sum.sums.size() == more.sums.size(), "step", "a statistic of ", sum.sums.size(), " numbers was given ",
        more.sums.size());
  for (size_t i = 0; i < more.sums.size(); ++i) sum.sums[i] += more.sums[i];
  sum.weight += more.weight;
}

// A head tied to the table gives this row a gradient, too.
void clear_zero_rows(const Model& model) {
  for (const Parameter& p : model.parameters().all()) {
    if (p.zero_row < 0) continue;
    if (const Tensor gradient = p.master.grad(); gradient.defined() && !gradient.is_meta())
      fill_zero(gradient.slice(p.zero_row, p.zero_row + 1));
  }
}

}  // namespace

StepLosses& StepLosses::operator+=(const StepLosses& other) {
  objective += other.objective;
  for (const auto& [name, value] : other.auxiliary) auxiliary[name] += value;
  for (const auto& [key, statistic] : other.statistics) add_to(statistics[key], statistic);
  return *this;
}

Gradients take_gradients(const Model& model, const TrainedObjective& objective) {
  Gradients out;
  for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
    for (const Parameter& p : parameters->all()) {
      const GradRef& slot = p.master.ref();
      out.of.push_back(slot ? std::exchange(slot->grad, Tensor()) : Tensor());
      if (!p.means) continue;
      MovingMeans::Gathered gathered = p.means->take();
      out.of.push_back(std::move(gathered.sums));
      out.of.push_back(std::move(gathered.counts));
    }
  return out;
}

void put_gradients(const Model& model, const TrainedObjective& objective, Gradients gradients) {
  size_t i = 0;
  for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
    for (const Parameter& p : parameters->all()) {
      Tensor gradient = std::move(gradients.of[i++]);
      if (p.master.ref()) p.master.ref()->grad = std::move(gradient);
      if (!p.means) continue;
      p.means->put({std::move(gradients.of[i]), std::move(gradients.of[i + 1])});
      i += 2;
    }
}

int64_t labels_of(const std::vector<DeviceBatch>& micro_batches) {
  int64_t labelled = 0;
  for (const DeviceBatch& batch : micro_batches) labelled += batch.labelled;
  return labelled;
}

MicroBatchRun::MicroBatchRun(const Model& model, const TrainedObjective& objective, const DeviceBatch& batch,
                             const MicroBatchPlace& place, const TrainConfig& config, CarriedState* carried)
    : batch_(batch),
      context_{uint64_t(config.seed), uint64_t(place.step) * uint64_t(place.of) + uint64_t(place.index)},
      carried_(carried) {
  step_context() = context_;
  const double scale = place.loss_scale / double(std::max<int64_t>(place.labelled, 1)),
               share = place.loss_scale / double(place.of);
  Pass pass;  // rows live on only where the tape keeps them
  objective.want(model, pass);
  pass.want_statistics();
  DecodeState* state = carried ? &carried->enter(batch) : nullptr;
  const ModelInput& whole = batch.input;
  const Rows rows = model.run(state ? batch.continuing(model, *state) : whole, pass, state);
  const Var of_objective = objective.loss(
      {model, rows, pass, whole}, batch.targets,
      {.smoothing = config.label_smoothing, .scale = scale, .sums = &losses_.objective, .parts = &losses_.auxiliary});
  if (place.loss_scale != 1)
    for (auto& [name, value] : losses_.auxiliary) value /= place.loss_scale;
  for (const auto& [name, value] : pass.losses()) losses_.auxiliary[name] += number_of(value) / double(place.of);
  for (const auto& [key, statistic] : pass.statistics())
    losses_.statistics[key].add(statistic.means(), statistic.weight);
  loss_ = Model::with_losses(of_objective, pass, share);
}

StepLosses MicroBatchRun::backward() {
  step_context() = context_;
  tape_.backward(loss_);
  loss_ = Var();
  if (carried_) carried_->leave(batch_);
  return std::move(losses_);
}

StepLosses run_micro_batch(const Model& model, const TrainedObjective& objective, const DeviceBatch& batch,
                           const MicroBatchPlace& place, const TrainConfig& config, CarriedState* carried) {
  return MicroBatchRun(model, objective, batch, place, config, carried).backward();
}

std::string packed(const StepLosses& losses) {
  std::string out;
  const auto put = [&](const auto& value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto put_text = [&](const std::string& text) {
    put(uint64_t(text.size()));
    out += text;
  };
  put(losses.objective);
  put(uint64_t(losses.auxiliary.size()));
  for (const auto& [name, value] : losses.auxiliary) put_text(name), put(value);
  put(uint64_t(losses.statistics.size()));
  for (const auto& [key, statistic] : losses.statistics) {
    put_text(key.first);
    put(key.second);
    put(uint64_t(statistic.sums.size()));
    for (const double sum : statistic.sums) put(sum);
    put(statistic.weight);
  }
  return out;
}

StepLosses unpacked(std::string_view& from) {
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, from.data(), sizeof value);
    from.remove_prefix(sizeof value);
    return value;
  };
  const auto get_text = [&] {
    const auto size = size_t(get(uint64_t()));
    std::string text(from.substr(0, size));
    from.remove_prefix(size);
    return text;
  };
  StepLosses out;
  out.objective = get(LossSums());
  for (uint64_t left = get(uint64_t()); left > 0; --left) {
    const std::string name = get_text();
    out.auxiliary[name] = get(double());
  }
  for (uint64_t left = get(uint64_t()); left > 0; --left) {
    const std::string name = get_text();
    Statistic& statistic = out.statistics[{name, get(int64_t())}];
    statistic.sums.resize(size_t(get(uint64_t())));
    for (double& sum : statistic.sums) sum = get(double());
    statistic.weight = get(double());
  }
  return out;
}

namespace {

// Those of all micro-batches, in their order.
std::vector<StepLosses> of_all_ranks(std::vector<StepLosses> own, const RankSum* ranks) {
  if (!ranks || !ranks->ranks() || ranks->size() == 1) return own;
  std::string mine;
  for (const StepLosses& losses : own) mine += packed(losses);
  std::vector<StepLosses> out;
  for (const std::string& bytes : gather_bytes(*ranks->ranks(), mine))
    for (std::string_view rest = bytes; !rest.empty();) out.push_back(unpacked(rest));
  return out;
}

}  // namespace

namespace {

// The places in Gradients of what is final when the backward pass has done with a layer, and of what only its end makes
// final.
struct GradientGroups {
  std::vector<std::vector<size_t>> of_layer;
  std::vector<size_t> others;
  std::vector<GradRef> slots;  // by place; null: of means

  // Whether nothing else than its layer reads a parameter of one.
  static bool layers_are_apart(const Model& model, const TrainedObjective& objective) {
    return model.config().is_one_plain_stack() && objective.parameters().all().empty();
  }

  // `by_layer` false: all at the end. So they are, too, where something else than its layer may read a parameter.
  GradientGroups(const Model& model, const TrainedObjective& objective, bool by_layer) {
    if (by_layer && layers_are_apart(model, objective)) of_layer.resize(size_t(model.config().num_hidden_layers));
    for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
      for (const Parameter& p : parameters->all()) {
        const auto layer = size_t(layer_of(p.name));
        (layer < of_layer.size() && !p.means ? of_layer[layer] : others).push_back(slots.size());
        slots.push_back(p.master.ref());
        for (int of_means = 0; p.means && of_means < 2; ++of_means) {
          others.push_back(slots.size());
          slots.emplace_back();
        }
      }
  }

  // Gradients of layers go on their way while `micro_batch` makes those of the layers below.
  void run(RankSum::Ascent& ascent, const std::function<void()>& micro_batch) const {
    if (of_layer.empty()) return micro_batch();
    size_t passed = 0;
    {
      const LayerWatch watch([&](int64_t layer) {
        ++passed;
        Gradients leaf;
        leaf.of.resize(slots.size());
        for (const size_t i : of_layer.at(size_t(layer)))
          if (slots[i]) leaf.of[i] = std::exchange(slots[i]->grad, Tensor());
        ascent.begin(of_layer[size_t(layer)], std::move(leaf));
      });
      const BetweenOperations between([&] { ascent.poke(); });
      micro_batch();
    }
    check(passed == of_layer.size(), "step", passed, " of ", of_layer.size(), " layers were passed");
    for (const std::vector<size_t>& of : of_layer)
      for (const size_t i : of)
        check(!slots[i] || !slots[i]->grad.defined(), "step", "a gradient came after its layer");
  }
};

}  // namespace

StepLosses accumulate_gradients(const Model& model, const TrainedObjective& objective, const StepBatches& batches,
                                const TrainConfig& config, int64_t step, CarriedState* carried, double loss_scale,
                                const RankSum* ranks, const InBackward* in_backward) {
  if (!config.optimizer_in_backward) in_backward = nullptr;
  check_usage(!in_backward || (!model.division() && (!ranks || ranks->size() == 1) &&
                               GradientGroups::layers_are_apart(model, objective)),
              "train",
              "optimizer_in_backward is for one process, and for one plain stack of layers that share nothing, with an "
              "objective without parameters; leave it out");
  if (model.division()) {
    StepLosses divided = divided_gradients(model, objective, batches, config, step, loss_scale);
    clear_zero_rows(model);
    return divided;
  }
  check_usage(
      !ranks || !ranks->shares_weights() || (batches.count % ranks->size() == 0 && ranks->joins_last(batches.count)),
      "train",
      "with parallel.weights sharded all ranks run the same layers at the same time; set "
      "gradient_accumulation_steps to the number of ranks (",
      ranks ? ranks->size() : 1, ") times a power of two, got ", batches.count);
  const int64_t first = batches.first, last = first + int64_t(batches.own.size());
  std::vector<StepLosses> own;
  const auto run = [&](int64_t index) {
    own.push_back(run_micro_batch(
        model, objective, batches.own[size_t(index - first)],
        {.step = step, .index = index, .of = batches.count, .labelled = batches.labelled, .loss_scale = loss_scale},
        config, carried));
  };
  // TreeSum's tree, of which other ranks run other subtrees.
  const auto sum_of = [&](const auto& self, int64_t begin, int64_t end) -> Gradients {
    if (end <= first || begin >= last) return {};
    if (end - begin == 1) {
      run(begin);
      return take_gradients(model, objective);
    }
    const int64_t middle = tree_middle(begin, end);
    Gradients left = self(self, begin, middle), right = self(self, middle, end);
    if (begin < first || end > last)
      return ranks->join(std::move(left), std::move(right), begin, middle, end, batches.count);
    return std::move(left += std::move(right));
  };
  Gradients whole;
  if (ranks && ranks->size() > 1) {
    // All but the last one of this rank, on the way down to it.
    std::vector<RankSum::Node> path;
    for (int64_t begin = 0, end = batches.count; end - begin > 1;) {
      const int64_t middle = tree_middle(begin, end);
      const bool right = last > middle;
      path.push_back({begin, middle, end, right ? sum_of(sum_of, begin, middle) : Gradients()});
      (right ? begin : end) = middle;
    }
    RankSum::Ascent ascent(*ranks, std::move(path), batches.count);
    const GradientGroups groups(model, objective, ranks->joins_last(batches.count));
    groups.run(ascent, [&] { run(last - 1); });
    ascent.begin(groups.others, take_gradients(model, objective));
    whole = ascent.end();
  } else {
    std::optional<LayerWatch> watch;
    if (in_backward)
      watch.emplace([&](int64_t layer) {
        in_backward->optimizer.step_layer(layer, in_backward->step, in_backward->learning_rate);
      });
    whole = sum_of(sum_of, 0, batches.count);
  }
  put_gradients(model, objective, std::move(whole));
  clear_zero_rows(model);
  TreeSum<StepLosses> losses;
  for (StepLosses& of : of_all_ranks(std::move(own), ranks)) losses.add(std::move(of));
  return losses.take();
}

namespace {

StepBatches all_here(const std::vector<DeviceBatch>& micro_batches) {
  return {.own = micro_batches, .count = int64_t(micro_batches.size()), .labelled = labels_of(micro_batches)};
}

}  // namespace

StepLosses accumulate_gradients(const Model& model, const TrainedObjective& objective,
                                const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                                CarriedState* carried, double loss_scale) {
  return accumulate_gradients(model, objective, all_here(micro_batches), config, step, carried, loss_scale);
}

void take_step(const Model& model, const TrainedObjective& objective, AdamW& optimizer,
               const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
               double learning_rate) {
  const InBackward in_backward{optimizer, step, learning_rate};
  accumulate_gradients(model, objective, all_here(micro_batches), config, step, nullptr, 1, nullptr, &in_backward);
  optimizer.step(step, learning_rate, optimizer.gradient_norm());
}

}  // namespace lithe
