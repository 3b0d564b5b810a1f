#include "lithe/compress/prune_run.h"

#include <cmath>

#include "lithe/compress/prune_model.h"
#include "lithe/eval/held_out.h"
#include "lithe/ops/weight_product.h"
#include "tests/compress/compress_kit.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

const std::string kLayers =
    "{vocab_size: 11, hidden_size: 16, num_hidden_layers: 3, max_position_embeddings: 20, token_width: 1, mixer: "
    "{type: attention, num_attention_heads: 4}, ffn: {type: swiglu, intermediate_size: 12}}";

std::unique_ptr<Model> model_of(const std::string& more = "") {
  auto model = std::make_unique<Model>(kit::model_config(kLayers, more), kit::kExact);
  kit::randomise(model->parameters(), 3);
  return model;
}

Tensor logits_of(const Model& model) {
  const NoGrad none;
  kit::Batch batch = kit::random_batch({6, 4}, model.config(), 4);
  if (reads_source(model.config().architecture)) kit::add_sources(batch, model.config(), 7);
  Pass pass;
  return model.logits(model.run(kit::input_of(batch), pass)).value();
}

// Deleted is as masked, and through a file again.
void expect_as_masked(const std::string& more, const PruneKept& kept) {
  SCOPED_TRACE(more);
  const auto model = model_of(more);
  const auto smaller = prune(*model, kept);
  mask(*model, kept);
  EXPECT_LT(smaller->parameters().count(), model->parameters().count());
  EXPECT_EQ(kit::close(logits_of(*smaller), logits_of(*model), 1e5), "");
  const kit::Scratch scratch;
  save_config(smaller->config(), scratch.path() / "config.json");
  save_weights(*smaller, scratch.path() / "model.safetensors");
  Model again(load_config(scratch.path() / "config.json"), kit::kExact);
  load_weights(again, scratch.path() / "model.safetensors");
  EXPECT_EQ(kit::close(logits_of(again), logits_of(*smaller), 0), "");
}

using Kept = std::vector<int64_t>;
const std::pair<std::string, PruneUnit> kHeads0{"layers.0.mixer", PruneUnit::heads},
    kHeads2{"layers.2.mixer", PruneUnit::heads}, kFfn1{"layers.1.ffn", PruneUnit::ffn};

// oracle: prune.structured
TEST(Prune, DeletedHeadsAndUnitsAreMaskedOnes) {
  const PruneKept kept{{kHeads0, Kept{1, 3}}, {kHeads2, Kept{0, 1, 2}}, {kFfn1, Kept{0, 4, 5, 11}}};
  for (const char* more :
       {"", "mixer: {type: attention, num_attention_heads: 4, heads: mqa}",
        "mixer: {type: attention, num_attention_heads: 4, heads: mhe_add}",
        "mixer: {type: attention, num_attention_heads: 4, heads: mhe_mul}",
        "mixer: {type: attention, num_attention_heads: 4, attention_bias: true, output_bias: true}, position: rotary",
        "ffn: {type: gelu, intermediate_size: 12}, residual: post", "architecture: encoder, head: mlm"})
    expect_as_masked(more, kept);
  PruneKept of_both{{{"encoder.layers.1.mixer", PruneUnit::heads}, Kept{2}},
                    {{"decoder.layers.0.cross", PruneUnit::heads}, Kept{0, 3}}};
  for (const auto& [key, indices] : kept) of_both[{"decoder." + key.first, key.second}] = indices;
  expect_as_masked("architecture: encoder_decoder, encoder: {num_hidden_layers: 2}", of_both);
  expect_as_masked("mixer: {type: attention, num_attention_heads: 8, heads: {type: gqa, num_key_value_heads: 4}}",
                   kept);
}

TEST(Prune, AHeadHasFourTimesItsMatrices) {
  const auto model = model_of();
  const auto one_less = prune(*model, {{kHeads0, Kept{0, 1, 2}}});
  EXPECT_EQ(model->parameters().count() - one_less->parameters().count(), 4 * 16 * 4);
  EXPECT_EQ(one_less->config().layer(0).mixer()->options.find("num_attention_heads")->text(), "3");
  EXPECT_EQ(one_less->config().layer(1).mixer()->options.find("num_attention_heads")->text(), "4");
}

TEST(Prune, EqualLayersStayOneDescription) {
  const auto model = model_of();
  PruneKept kept;
  for (int64_t l = 0; l < 3; ++l) kept[{cat("layers.", l, ".mixer"), PruneUnit::heads}] = {l, 3};
  const auto smaller = prune(*model, kept);
  EXPECT_TRUE(is_empty(smaller->config().layers));
  EXPECT_TRUE(smaller->config().layer_types.empty());
  EXPECT_EQ(smaller->config().mixer.options.find("num_attention_heads")->text(), "2");
  EXPECT_EQ(smaller->config().mixer.options.find("head_dim")->text(), "4");
}

TEST(Prune, LayersAndSubLayersGo) {
  const std::pair<std::string, PruneUnit> layers{"layers", PruneUnit::layers}, subs{"layers.1", PruneUnit::sub_layers};
  expect_as_masked("", {{layers, Kept{0, 2}}});
  expect_as_masked("", {{subs, Kept{1}}});
  expect_as_masked("", {{subs, Kept{0}}});
  expect_as_masked("architecture: encoder_decoder", {{{"encoder.layers", PruneUnit::layers}, Kept{1}},
                                                     {{"decoder.layers", PruneUnit::layers}, Kept{0, 2}}});
  EXPECT_NE(kit::coded_error_of([&] {
              prune(*model_of(), {{{"encoder.layers", PruneUnit::layers}, Kept{1}}});
            }).find("has no 'encoder.layers'"),
            std::string::npos);
  const auto model = model_of();  // all heads of a layer: the rows pass it
  expect_as_masked("", {{kHeads0, Kept{}}});
  EXPECT_EQ(prune(*model, {{kHeads0, Kept{}}})->config().layer(0).sub_layers.size(), 1u);
}

TEST(Prune, ExpertsGo) {
  const std::string moe = "ffn: {type: moe, num_experts: 4, num_experts_per_tok: 0, moe_intermediate_size: 6}";
  const auto model = model_of(moe);
  const auto smaller = prune(*model, {{{"layers.0.ffn", PruneUnit::experts}, Kept{1, 3}}});
  EXPECT_EQ(value_at(smaller->parameters().find("layers.0.ffn.experts.1.up.weight")->master.value(), 5),
            value_at(model->parameters().find("layers.0.ffn.experts.3.up.weight")->master.value(), 5));
  logits_of(*smaller);
}

TEST(Prune, ChannelsGo) {
  const auto model = model_of("norm: none, position: none");
  Kept channels;
  for (int64_t c = 0; c < 16; c += 2) channels.push_back(c);
  const auto smaller = prune(*model, {{{"hidden", PruneUnit::hidden}, channels}});
  EXPECT_EQ(smaller->config().hidden_size, 8);
  for (Parameter& p : model->parameters().all()) {
    const Tensor numbers = p.numbers();
    Slice::of(p.axes, {{Dimension::hidden, {16, channels}}}).mask(numbers);
    p.assign(numbers);
  }
  EXPECT_EQ(kit::close(logits_of(*smaller), logits_of(*model), 1e5), "");
}

TEST(Prune, HadamardHeadsStay) {
  const auto model = model_of("mixer: {type: attention, num_attention_heads: 4, output: hadamard}");
  std::vector<std::string> left;
  for (const PruneGroup& group : prune_groups(*model, {PruneUnit::heads, PruneUnit::ffn}, left))
    EXPECT_EQ(group.unit, PruneUnit::ffn);
  EXPECT_EQ(left.size(), 3u);
  EXPECT_NE(left[0].find("Hadamard"), std::string::npos);
}

// oracle: prune.norm
TEST(Prune, NormsRankUnits) {
  const auto model = model_of();
  std::vector<std::string> left;
  const auto groups = prune_groups(*model, {PruneUnit::heads, PruneUnit::ffn}, left);
  const Importance before = norm_importance(*model, groups, NormOf::l2);
  for (Parameter& p : model->parameters().all()) {
    const auto of_head = elements_of(p, groups[0], 2);
    if (!of_head) continue;
    const Tensor numbers = p.numbers();
    of_head->put(numbers, zeros(of_head->shape(), numbers.dtype()));
    p.assign(numbers);
  }
  const Importance after = norm_importance(*model, groups, NormOf::l2);
  EXPECT_EQ(after[0][2], 0);
  for (const int64_t other : {0, 1, 3}) EXPECT_NEAR(after[0][size_t(other)], before[0][size_t(other)], 1e-12);
  for (Parameter& p : model->parameters().all()) {
    const Tensor numbers = p.numbers();
    for (int64_t i = 0; i < numbers.numel(); ++i) set_value(numbers, i, 3 * value_at(numbers, i));
    p.assign(numbers);
  }
  const Importance scaled = norm_importance(*model, groups, NormOf::l1),
                   tripled = norm_importance(*model, groups, NormOf::l2);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < after[g].size(); ++i) EXPECT_NEAR(tripled[g][i], 3 * after[g][i], 1e-9);
  EXPECT_GT(scaled[1][0], tripled[1][0]);
}

// oracle: prune.grad
TEST(Prune, GradientsAreThoseOfAFactorOnTheUnit) {
  Model model(kit::model_config(kLayers), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({6, 4}, 11, 4);
  TrainConfig config;
  const TrainedObjective objective(config, model);
  std::vector<std::string> left;
  const auto groups = prune_groups(model, {PruneUnit::heads, PruneUnit::ffn, PruneUnit::layers}, left);
  DeviceBatch on_device{.input = {batch.ids, batch.sequences}, .targets = {.labels = batch.labels}};
  for (int64_t i = 0; i < batch.labels.numel(); ++i) on_device.labelled += value_at(batch.labels, i) >= 0;
  const Importance importance = gradient_importance(model, objective, config, groups, {on_device}, false);
  const auto loss_with = [&](const PruneGroup& group, int64_t unit, double factor) {
    std::vector<std::pair<Parameter*, Tensor>> before;
    for (Parameter* p : joining(model, group, unit)) {
      before.emplace_back(p, clone(p->numbers()));
      const auto elements = elements_of(*p, group, unit);
      const Slice slice = elements ? *elements : Slice::of(p->axes, {});
      const Tensor numbers = p->numbers(), part = slice.taken(numbers);
      for (int64_t e = 0; e < part.numel(); ++e) set_value(part, e, factor * value_at(part, e));
      slice.put(numbers, part);
    }
    const double loss = mean_loss(model, objective.main(), {on_device}).mean;
    for (auto& [p, numbers] : before) p->assign(numbers);
    return loss;
  };
  for (const size_t g : {size_t(0), size_t(1), groups.size() - 1})
    for (const int64_t unit : {0, 2}) {
      const double slope = (loss_with(groups[g], unit, 1 + 1e-5) - loss_with(groups[g], unit, 1 - 1e-5)) / 2e-5;
      EXPECT_NEAR(importance[g][size_t(unit)], std::abs(slope), 1e-6) << groups[g].name() << " " << unit;
    }
}

// A hidden unit's score is the norm of what its removal takes from its layer's output.
TEST(Prune, ActivationsAreWhatAUnitAddsToTheRows) {
  Model model(kit::model_config(kLayers), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({6, 4}, 11, 4);
  TrainConfig config;
  const TrainedObjective objective(config, model);
  std::vector<std::string> left;
  const auto groups = prune_groups(model, {PruneUnit::ffn}, left);
  DeviceBatch on_device{.input = {batch.ids, batch.sequences}, .targets = {.labels = batch.labels}};
  for (int64_t i = 0; i < batch.labels.numel(); ++i) on_device.labelled += value_at(batch.labels, i) >= 0;
  const Importance importance = activation_importance(model, objective.main(), groups, {on_device});
  ASSERT_FALSE(groups.empty());
  const PruneGroup& group = groups[0];
  Parameter* down = joining(model, group, 0)[0];
  const auto output = [&] {
    Tensor out;
    const ProductObserver observer([&](const Tensor&, const Var& w, const Tensor&, const Tensor& y) {
      if (w.value().raw() == down->var().value().raw()) out = clone(y);
    });
    evaluate_batch(model, objective.main(), on_device);
    return out;
  };
  const Tensor whole = output(), numbers = clone(down->numbers());
  for (const int64_t unit : {0, 3}) {
    const Tensor without = clone(numbers);
    const Slice slice = *elements_of(*down, group, unit);
    slice.put(without, zeros(slice.taken(without).shape(), without.dtype()));
    down->assign(without);
    const Tensor rest = output();
    down->assign(numbers);
    double squares = 0;
    for (int64_t e = 0; e < whole.numel(); ++e) squares += std::pow(value_at(whole, e) - value_at(rest, e), 2);
    EXPECT_NEAR(importance[0][size_t(unit)], std::sqrt(squares / double(whole.rows())), 1e-9) << unit;
  }
}

// oracle: prune.random
TEST(Prune, TheBudgetIsKept) {
  const auto model = model_of();
  std::vector<std::string> left;
  const auto groups = prune_groups(*model, {PruneUnit::heads, PruneUnit::ffn, PruneUnit::layers}, left);
  const Importance importance = norm_importance(*model, groups, NormOf::l2);
  const Model whole(model->config(), kit::kMeta);
  for (const char* budget : {"parameters", "flops", "memory"})
    for (const bool across : {false, true}) {
      PruneRequest request{.to = 0.6, .budget = budget, .across_model = across, .multiple = 1};
      const double target = 0.6 * budget_of(whole, budget);
      const PruneKept kept = choose_kept(model->config(), groups, importance, request, target);
      const double got = budget_of(Model(prune(*model, kept)->config(), kit::kMeta), budget);
      EXPECT_LE(got, target) << budget;
      EXPECT_GT(got, 0.5 * target) << budget;
    }
  EXPECT_NE(kit::coded_error_of([&] {
              choose_kept(model->config(), groups, importance, {.to = 0.01}, 10);
            }).find("take out more"),
            std::string::npos);
}

// What stays of these units under a budget of parameters.
std::unique_ptr<Model> within(const Model& model, const std::set<PruneUnit>& units, double to, double& target) {
  std::vector<std::string> left;
  const auto groups = prune_groups(model, units, left);
  Importance importance;
  for (const PruneGroup& group : groups)
    for (importance.emplace_back(); int64_t(importance.back().size()) < group.count;)
      importance.back().push_back(double(importance.back().size()));  // the last is the best
  target = to * double(model.parameters().count());
  return prune(model, choose_kept(model.config(), groups, importance, {.to = to, .multiple = 1}, target));
}

TEST(Prune, WhatACompressorReadsStays) {
  const auto model = model_of(
      "architecture: encoder, head: mlm, layers: {whole: {}, fewer: {compressor: {type: token_prune}}, back: "
      "{expander: {type: repeat}}}, layer_types: [whole, fewer, back]");
  std::vector<std::string> left;
  const auto groups = prune_groups(*model, {PruneUnit::sub_layers}, left);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].fixed, std::set<int64_t>{0});
  EXPECT_TRUE(groups[1].fixed.empty() && groups[2].fixed.empty());
  double target = 0;
  const auto smaller = within(*model, {PruneUnit::sub_layers}, 0.7, target);
  EXPECT_LE(double(smaller->parameters().count()), target);
  EXPECT_EQ(logits_of(*smaller).rows(), 10);
  EXPECT_NE(kit::coded_error_of([&] { prune_groups(*model, {PruneUnit::layers}, left); }).find("so that they stay"),
            std::string::npos);
}

TEST(Prune, WidthsThatAPartRefusesAreNoChoice) {
  double target = 0;
  for (const char* more :
       {"mixer: {type: selective_ssm, num_heads: 8}, position: none",
        "mixer: {type: attention, num_attention_heads: 4, output: hadamard}",
        "architecture: encoder, head: classify, num_labels: 2, layers: {whole: {}, few: {compressor: {type: latents, "
        "rows: 2, num_attention_heads: 4}}}, layer_types: [whole, few, whole]"}) {
    const auto none = model_of(more);
    const std::string refused = kit::coded_error_of([&] { within(*none, {PruneUnit::hidden}, 0.7, target); });
    EXPECT_NE(refused.find("a smaller one is refused: "), std::string::npos) << refused;
  }
}

TEST(Prune, KindsOfUnitsGetBackWhatFits) {
  const auto model = model_of();
  int64_t of_mixer = 0;
  for (const Parameter& p : model->parameters().all())
    if (p.name.starts_with("layers.0.mixer")) of_mixer += p.master.value().numel();
  for (const double to : {0.6, 0.7, 0.8}) {
    double target = 0;
    const auto smaller = within(*model, {PruneUnit::layers, PruneUnit::sub_layers}, to, target);
    EXPECT_LE(double(smaller->parameters().count()), target);
    EXPECT_GT(double(smaller->parameters().count() + of_mixer), target) << to;
  }
}

}  // namespace
}  // namespace lithe
