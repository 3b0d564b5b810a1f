#include "lithe/train/sharded_weights.h"

#include "lithe/base/part_options.h"
#include "lithe/model/layer_of.h"
#include "lithe/nn/in_turns.h"

namespace lithe {
namespace {

// Shape and type of what a forward pass reads; of masters in bf16 and f32 those that are split.
Var left_behind(const Parameter& p) {
  const Tensor rounded = p.storage().rounded;
  const Tensor& read = rounded.defined() ? rounded : p.master.value();
  return Var(Tensor::outline(read.shape(), read.dtype()), p.master.ref());
}

void check_divisible(const ModelConfig& config, const TrainConfig& train) {
  check_usage(config.is_one_plain_stack(), "train",
              "parallel.weights sharded is for one plain stack of layers that share no parameters; leave model.share, "
              "encoders and model.stack out, or set it to whole");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    for (const SubLayerConfig& sub : config.layer(i).sub_layers)
      check_usage(!shared_by_layers(sub.part), "train",
                  "parallel.weights sharded has the weights of one layer at a time, and mixer ", sub.part.type,
                  " with share: layers reads those of the first; choose another share, or set weights to whole");
  check_usage(train.objective.type != "distillation", "train",
              "parallel.weights sharded is for one model, and objective distillation runs a teacher; set it to whole");
}

}  // namespace

// spec: hpc.parallel | training | weights of layers shared out among ranks (ZeRO-3): each keeps its part, and has those
// of a layer while it runs | TB 6.4.9
std::unique_ptr<Model> make_model(const ModelConfig& config, const ModelOptions& options, const TrainConfig& train,
                                  int rank, int ranks) {
  if (train.parallel.weights != "sharded" || ranks == 1) return std::make_unique<Model>(config, options);
  check_divisible(config, train);
  std::set<std::string> elsewhere;
  {
    ModelOptions shapes = options;
    shapes.device = Device::meta;
    Model outline(config, shapes);
    const RankSum plan(nullptr, rank, ranks, {&outline.parameters()}, train.parallel);
    for (const Parameter& p : outline.parameters().all())
      if (plan.apart(p) && plan.mover_of(p) != rank) elsewhere.insert(p.name);
  }
  if (options.device == Device::meta) ledger(Device::meta).reset_peak();
  struct Kept {
    Parameter* parameter;
    Var master;
    std::shared_ptr<View> view;
    std::shared_ptr<MovingMeans> means;
  };
  std::vector<Kept> kept;
  std::unique_ptr<Model> model;
  {
    ParametersInTurns turns([&](const std::vector<Parameter*>& made) {
      for (Parameter* p : made) {
        if (elsewhere.count(p->name))
          kept.push_back({p, left_behind(*p), nullptr, nullptr});
        else
          kept.push_back({p, p->master, p->view, p->means});
      }
    });
    model = std::make_unique<Model>(config, options);
    turns.finish();
  }
  for (Kept& of : kept) {
    of.parameter->master = std::move(of.master);
    of.parameter->view = std::move(of.view);
    of.parameter->means = std::move(of.means);
  }
  return model;
}

std::unique_ptr<ShardedWeights> ShardedWeights::of(Model& model, const Parameters& of_objective, const RankSum& ranks) {
  if (!ranks.shares_weights()) return nullptr;
  check_usage(of_objective.all().empty(), "train",
              "parallel.weights sharded is for objectives without parameters of their own, as clm; set it to whole");
  return std::make_unique<ShardedWeights>(model, ranks);
}

ShardedWeights::ShardedWeights(Model& model, const RankSum& ranks)
    : ranks_(ranks),
      of_layer_(size_t(model.config().num_hidden_layers)),
      here_(size_t(model.config().num_hidden_layers)) {
  for (Parameter& p : model.parameters().all())
    if (ranks.apart(p)) of_layer_.at(size_t(layer_of(p.name))).push_back(&p);
}

void ShardedWeights::need(int64_t layer) {
  const auto at = size_t(layer);
  if (here_.at(at)) return;
  here_[at] = true;
  const MemoryScope memory(MemoryClass::weights);
  for (Parameter* p : of_layer_[at])
    if (ranks_.mover_of(*p) != ranks_.rank())
      p->master = Var(empty(p->master.shape(), p->master.dtype(), p->master.ref()->device), p->master.ref());
  ranks_.bring(of_layer_[at]);
}

void ShardedWeights::done(int64_t layer) {
  const auto at = size_t(layer);
  if (!here_.at(at)) return;
  here_[at] = false;
  for (Parameter* p : of_layer_[at])
    if (ranks_.mover_of(*p) != ranks_.rank()) p->master = left_behind(*p);
}

void save_weights(const Model& model, const RankSum& ranks, const Path& file) {
  if (!ranks.shares_weights()) return save_weights(model, file);
  const MemoryScope scratch(MemoryClass::workspace);  // of split numbers, which are joined
  std::map<std::string, PlacedTensor> all;
  for (const Parameter& p : model.parameters().all()) {
    const int at = ranks.apart(p) ? ranks.mover_of(p) : 0;
    const DType dtype = p.master.dtype() == DType::bf16 ? DType::f32 : p.master.dtype();
    all[p.name] = {{p.master.shape(), dtype, [&p] { return p.numbers(); }}, at};
  }
  with_all_tensors(ranks.ranks(), all, [&](const auto& whole) {
    stream_safetensors(file, whole, {{"format", "lithe"}});
  });
}

}  // namespace lithe
