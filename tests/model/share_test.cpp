// Layers that have their parameters, or their attention maps, in common.
#include <gtest/gtest.h>

#include "lithe/model/model.h"
#include "lithe/model/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

ModelConfig share_config(const std::string& more = "") {
  return kit::model_config(
      "{hidden_size: 8, num_hidden_layers: 4, vocab_size: 11, max_position_embeddings: 20, position: rotary, mixer: "
      "{type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}}",
      more);
}

std::unique_ptr<Model> randomised(const ModelConfig& c) {
  auto model = std::make_unique<Model>(c, kit::kTrainable);
  kit::randomise(model->parameters(), 3);
  return model;
}

template <class F>
void expect_usage(F&& f, const std::string& why) {
  const std::string error = kit::coded_error_of(f);
  EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error << "\n" << why;
}

// "layers.3.ffn.up.weight" as 3 and "ffn.up.weight"; -1 elsewhere.
std::pair<int64_t, std::string> split(const std::string& name) {
  if (!name.starts_with("layers.")) return {-1, name};
  const size_t dot = name.find('.', 7);
  return {std::stoll(name.substr(7, dot - 7)), name.substr(dot + 1)};
}

// The name that holds the value of an untied model's parameter.
std::string owner_of(const Model& tied, const std::string& name) {
  if (const_cast<Model&>(tied).parameters().find(name)) return name;  // NOLINT: reading
  const auto [layer, rest] = split(name);
  const ModelConfig& c = tied.config();
  return cat("layers.", c.share.owner(layer, c.num_hidden_layers), ".", rest);
}

const std::vector<std::pair<std::string, std::vector<int64_t>>> kSharings{
    {"share: {layers: all}", {0, 0, 0, 0}},
    {"share: {layers: cycle, distinct: 2}", {0, 1, 0, 1}},
    {"share: {layers: cycle, distinct: 3}", {0, 1, 2, 0}},
    {"share: {layers: sequence, distinct: 2}", {0, 0, 2, 2}},
    {"share: {layers: sequence, distinct: 3}", {0, 0, 2, 3}},
    {"share: {layers: groups, groups: [7, 3, 3, 7]}", {0, 1, 1, 0}}};

TEST(Share, GroupsAreAsTheNameSays) {
  for (const auto& [more, owners] : kSharings)
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(share_config(more).share.owner(i, 4), owners[size_t(i)]) << more << " " << i;
}

// oracle: share.layers
// oracle: reg.share_sublayers
TEST(Share, IsTheUntiedModelWithCopiedWeightsAndSummedGradients) {
  for (const std::string parts : {"layer", "mixer", "ffn"})
    for (const std::string residual : {"pre", "rezero", "post"})
      for (const bool again : {false, true}) {
        for (const auto& [share, owners] : kSharings) {
          std::string more = share;
          more.insert(more.size() - 1, ", parts: " + parts);
          const auto tied = randomised(share_config(more + ", residual: " + residual));
          Model untied(share_config("residual: " + residual), kit::kTrainable);
          for (Parameter& p : untied.parameters().all())
            copy_into(p.master.value(), tied->parameters().find(owner_of(*tied, p.name))->master.value());
          EXPECT_LT(tied->parameters().count(), untied.parameters().count());
          tied->set_recompute(again), untied.set_recompute(again);
          const kit::Batch batch = kit::random_batch({5, 7}, 11, 4);
          kit::Results a = kit::run_training(*tied, batch), b = kit::run_training(untied, batch), sums;
          for (const auto& [name, values] : b) {
            // Gradients stand under the names of parameters; sums are those of all uses.
            const std::string prefix = name.substr(0, name.find("layers."));
            const bool of_layer = name.find("layers.") != std::string::npos;
            const std::string to = of_layer ? prefix + owner_of(*tied, name.substr(prefix.size())) : name;
            std::vector<double>& sum = sums[to];
            sum.resize(values.size());
            for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
          }
          ASSERT_EQ(a.size(), sums.size());
          for (const auto& [name, values] : a)
            for (size_t i = 0; i < values.size(); ++i)
              ASSERT_NEAR(values[i], sums.at(name)[i], 1e-11 * (1 + std::abs(values[i]))) << more << " " << name;
        }
      }
}

// oracle: share.layers
// oracle: reg.share_sublayers
TEST(Share, CountsOfSharedPartsDoNotDependOnTheDepth) {
  const auto count = [](const std::string& more) {
    return Model(share_config(more), kit::kTrainable).parameters().count();
  };
  EXPECT_EQ(count("share: {layers: all}"), count("num_hidden_layers: 1"));
  EXPECT_EQ(count("share: {layers: all}, num_hidden_layers: 9"), count("num_hidden_layers: 1"));
  EXPECT_EQ(count("share: {layers: cycle, distinct: 2}, num_hidden_layers: 7"), count("num_hidden_layers: 2"));
  const int64_t ffn = 2 * 8 * 6 + 6 + 8, four = count(""), shared = count("share: {layers: all, parts: ffn}");
  EXPECT_EQ(four - shared, 3 * ffn);
}

// States stay those of the layers: token by token is the whole sequence.
// oracle: share.layers
TEST(Share, LayersKeepStatesOfTheirOwn) {
  const auto model = randomised(share_config("share: {layers: all}"));
  const NoGrad no_grad;
  const kit::Batch batch = kit::random_batch({6}, 11, 4);
  const Tensor whole = kit::forward(*model, batch.ids, batch.sequences).value();
  const auto state = model->make_state(1, 6);
  for (int64_t t = 0; t < 6; ++t) {
    const Tensor row =
        kit::forward(*model, batch.ids.slice(t, t + 1), model->continue_sequences(*state, {1}), state.get()).value();
    for (int64_t c = 0; c < 8; ++c) EXPECT_NEAR(value_at(row, c), value_at(whole, t * 8 + c), 1e-12);
  }
  EXPECT_EQ(state->bytes(), 4 * 6 * 2 * 8 * 8);  // layers, tokens, keys and values, channels, f64
}

TEST(Share, FilesHoldATensorOnce) {
  const auto model = randomised(share_config("share: {layers: cycle, distinct: 2}"));
  const kit::Scratch scratch;
  const Path file = scratch.path() / "model.safetensors";
  save_weights(*model, file);
  const SafetensorsFile stored(file);
  for (const auto& [name, entry] : stored.entries()) EXPECT_LT(split(name).first, 2) << name;
  Model again(model->config(), kit::kTrainable);
  load_weights(again, file);
  const kit::Batch batch = kit::random_batch({5}, 11, 4);
  EXPECT_EQ(kit::bit_difference(kit::forward(again, batch).value(), kit::forward(*model, batch).value()), "");
}

TEST(Share, DropoutIsOfEachLayer) {
  // A layer that adds its dropped rows: equal masks in all layers would give a multiple of one mask.
  const auto model = randomised(share_config("share: {layers: all}, hidden_dropout: 0.5"));
  const Tape tape;
  const kit::Batch batch = kit::random_batch({5}, 11, 4);
  Pass pass;
  pass.want(Tap::Kind::rows);
  model->run({batch.ids, batch.sequences}, pass);
  const Tensor one = pass.get({Tap::Kind::rows, 0}).value(), two = pass.get({Tap::Kind::rows, 1}).value();
  EXPECT_NE(kit::bit_difference(one, two), "");
}

TEST(Share, RefusesWhatDoesNotFit) {
  expect_usage([] { share_config("share: {layers: cycle}").validate(); }, "distinct");
  expect_usage([] { share_config("share: {layers: cycle, distinct: 5}").validate(); }, "num_hidden_layers 4");
  expect_usage([] { share_config("share: {layers: all, distinct: 2}").validate(); }, "leave it out");
  expect_usage([] { share_config("share: {layers: groups, groups: [0, 1]}").validate(); }, "2 numbers");
  const char* hybrid =
      "mixers: {a: {type: attention, num_attention_heads: 2}, b: mlp}, layer_types: [a, b, a, b], share: ";
  expect_usage([&] { Model(share_config(cat(hybrid, "{layers: all}")), kit::kTrainable); }, "layers 1 and 2");
  Model(share_config(cat(hybrid, "{layers: cycle, distinct: 2}")), kit::kTrainable);
  Model(share_config(cat(hybrid, "{layers: all, parts: ffn}")), kit::kTrainable);
}

// ---- maps

constexpr const char* kMaps =
    "layers: {own: {}, again: {mixer: {type: attention, num_attention_heads: 2, map: below}}}, layer_types: ";

// Fields that look at the rows which the lender read.
constexpr const char* kByRows =
    "mixer: {type: attention, num_attention_heads: 2, field: {type: local_prior, use: mix, width: predicted, share: "
    "gate}}";
constexpr const char* kByScores =
    "mixer: {type: attention, num_attention_heads: 2, field: {type: topk_importance, keys: 2, score: row}}";

// A borrower is attention with the lender's map: queries and keys are not its own, values are.
// oracle: share.attn_map
TEST(SharedMap, IsTheMapOfTheLayerBelow) {
  for (const std::string more :
       {"", "position: alibi", "architecture: encoder, head: mlm",
        "mixer: {type: attention, num_attention_heads: 2, field: {type: local, window: 3}}", kByRows, kByScores}) {
    const auto model = randomised(share_config(cat(kMaps, "[own, again, own, again]", more.empty() ? "" : ", ", more)));
    const Tensor ids = kit::random_batch({7}, 11, 4).ids;
    const std::vector<MixerMaps> maps = kit::maps(*model, ids);
    ASSERT_EQ(maps.size(), 4u);
    EXPECT_EQ(kit::bit_difference(maps[0].weights, maps[1].weights), "") << more;
    EXPECT_EQ(kit::bit_difference(maps[2].weights, maps[3].weights), "") << more;
    EXPECT_NE(kit::bit_difference(maps[0].weights, maps[2].weights), "") << more;
  }
}

// What a field adds to the loss is added by the lender, once.
TEST(SharedMap, HasTheLossesOfTheLenderOnce) {
  const std::string field =
      "mixer: {type: attention, num_attention_heads: 2, field: {type: local, form: adaptive, window: 5, span_penalty: "
      "0.5}}";
  std::vector<double> losses;
  for (const std::string& layers :
       {std::string("num_hidden_layers: 1, "), cat("num_hidden_layers: 3, ", kMaps, "[own, again, again], ")}) {
    const auto model = randomised(share_config(layers + field));
    const kit::Batch batch = kit::random_batch({7}, 11, 4);
    const Tape tape;
    Pass pass;
    model->run({batch.ids, batch.sequences}, pass);
    losses.push_back(value_at(pass.losses().at("span_penalty").value(), 0));
  }
  EXPECT_GT(losses[0], 0);
  EXPECT_EQ(losses[0], losses[1]);
}

// oracle: share.attn_map
TEST(SharedMap, LeavesOutQueriesAndKeys) {
  const int64_t own = Model(share_config(), kit::kTrainable).parameters().count(),
                shared =
                    Model(share_config(cat(kMaps, "[own, again, again, again]")), kit::kTrainable).parameters().count(),
                contexts =
                    Model(share_config("layers: {own: {}, again: {mixer: {type: attention, num_attention_heads: 2, "
                                       "map: below_context}}}, layer_types: [own, again, again, again]"),
                          kit::kTrainable)
                        .parameters()
                        .count();
  EXPECT_EQ(own - shared, 3 * 2 * 8 * 8);
  EXPECT_EQ(own - contexts, 3 * 3 * 8 * 8);
}

// oracle: share.attn_map
TEST(SharedMap, HasTheGradientsOfItsDefinition) {
  for (const std::string map : {"below", "below_context"})
    for (const bool again : {false, true}) {
      const auto model =
          randomised(share_config("num_hidden_layers: 3, layers: {own: {}, again: {mixer: {type: attention, "
                                  "num_attention_heads: 2, map: " +
                                  map + "}}}, layer_types: [own, again, again]"));
      model->set_recompute(again);
      const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
      std::string where;
      const double error = kit::gradient_error(
          model->parameters(), [&](const std::vector<Var>&) { return std::vector<Var>{kit::forward(*model, batch)}; },
          {}, &where);
      EXPECT_LE(error, 1e-6) << map << " " << where;
    }
}

// oracle: share.attn_map
TEST(SharedMap, IsLinearInItsValues) {
  const auto model = randomised(share_config(
      "num_hidden_layers: 2, norm: none, layers: {own: {}, again: {sub_layers: [mixer], mixer: {type: attention, "
      "num_attention_heads: 2, map: below}}}, layer_types: [own, again]"));
  const kit::Batch batch = kit::random_batch({6}, 11, 4);
  const auto added = [&] {
    Pass pass;
    pass.want(Tap::Kind::rows);
    const Tensor y = model->run({batch.ids, batch.sequences}, pass).x.value(),
                 x = pass.get({Tap::Kind::rows, 0}).value();
    std::vector<double> out;
    for (int64_t i = 0; i < y.numel(); ++i) out.push_back(value_at(y, i) - value_at(x, i));
    return out;
  };
  const std::vector<double> once = added();
  const Tensor v = model->parameters().find("layers.1.mixer.heads.v.weight")->master.value();
  for (int64_t i = 0; i < v.numel(); ++i) set_value(v, i, 3 * value_at(v, i));
  const std::vector<double> thrice = added();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(thrice[i], 3 * once[i], 1e-12 * (1 + std::abs(once[i])));
}

// oracle: share.attn_map
TEST(SharedMap, DecodesWithTheLendersKeys) {
  for (const std::string more :
       {"", "mixer: {type: attention, num_attention_heads: 2, field: {type: local, window: 3}}", "position: alibi",
        kByRows, kByScores}) {
    const auto model = randomised(share_config(cat(kMaps, "[own, again, again, own]", more.empty() ? "" : ", ", more)));
    const NoGrad no_grad;
    const kit::Batch batch = kit::random_batch({9}, 11, 4);
    const Tensor whole = kit::forward(*model, batch.ids, batch.sequences).value();
    const auto state = model->make_state(1, 9);
    for (int64_t t = 0; t < 9;) {
      const int64_t n = t == 0 ? 4 : 1;
      const Tensor rows =
          kit::forward(*model, batch.ids.slice(t, t + n), model->continue_sequences(*state, {n}), state.get()).value();
      for (int64_t i = 0; i < n * 8; ++i) EXPECT_NEAR(value_at(rows, i), value_at(whole, t * 8 + i), 1e-12) << more;
      t += n;
    }
    EXPECT_EQ(state->bytes(), model->state_bytes({9})) << more;
    EXPECT_TRUE(!more.empty() || state->bytes() == (2 + 1 + 1 + 2) * 9 * 8 * 8) << state->bytes();
    // Two continuations of one text, the first of them taken back by a token.
    const auto saved = state->save();
    const auto other = model->make_state(1, 9);
    other->restore(saved);
    if (!other->truncates()) {  // a window that lets each row go
      EXPECT_THROW(other->truncate(0, 8), Error);
      continue;
    }
    other->truncate(0, 8);
    const Tensor row =
        kit::forward(*model, batch.ids.slice(8, 9), model->continue_sequences(*other, {1}), other.get()).value();
    for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(value_at(row, i), value_at(whole, 64 + i), 1e-12) << more;
  }
}

TEST(SharedMap, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& more, const std::string& why) {
    expect_usage([&] { Model(share_config(more), kit::kTrainable); }, why);
  };
  refused(cat(kMaps, "[again, own, again, own]"), "layer below");
  refused(
      "layers: {own: {}, again: {mixer: {type: attention, num_attention_heads: 4, map: below}}}, layer_types: [own, "
      "again, again, own]",
      "needs its heads");
  refused(cat(kMaps, "[own, again, own, again], residual: rk2"), "several times");
  refused(cat(kMaps, "[own, again, own, again], stack: {type: reversible, streams: duplicate}"), "reversible");
  refused(
      "layers: {own: {}, again: {mixer: {type: attention, num_attention_heads: 2, map: below, heads: el_att}}}, "
      "layer_types: [own, again, own, again]",
      "values alone");
}

}  // namespace
}  // namespace lithe
