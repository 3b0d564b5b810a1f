#include "lithe/model/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

int64_t count_of_small(const std::string& yaml) {
  return Model(kit::model_config("{max_position_embeddings: 16, " + yaml + "}"), kit::kMeta).parameters().count();
}

ModelConfig tiny(const std::string& more = "") {
  return kit::model_config(
      "{vocab_size: 7, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 12, mixer: {type: attention, "
      "num_attention_heads: 2}}",
      more);
}

// oracle: arch.decoder_only
TEST(Model, CountsTheTextbooksParameters) {
  // L = 6, d = 512, d_ff = 2048: 3,150,336 a layer, 18,902,016 together.
  const std::string base =
      "vocab_size: 1, hidden_size: 512, position: none, norm: layer, residual: post, ffn: {type: relu, "
      "intermediate_size: 2048}";
  const int64_t none = count_of_small(base + ", num_hidden_layers: 0");
  EXPECT_EQ(none, 512);  // the table of one entry
  EXPECT_EQ(count_of_small(base + ", num_hidden_layers: 1") - none, 3'150'336);
  EXPECT_EQ(count_of_small(base + ", num_hidden_layers: 6") - none, 18'902'016);
  // A BERT layer, with all biases.
  const std::string bert =
      "vocab_size: 1, hidden_size: 768, position: none, norm: layer, residual: post, ffn: {type: gelu, "
      "intermediate_size: 3072}, mixer: {type: attention, num_attention_heads: 12, attention_bias: true, output_bias: "
      "true}";
  EXPECT_EQ(count_of_small(bert + ", num_hidden_layers: 1") - count_of_small(bert + ", num_hidden_layers: 0"),
            7'087'872);
}

// oracle: app.lm
TEST(Model, CountsALanguageModelsParameters) {
  // L (4 d^2 + 2 d d_ff + 5 d + d_ff) + V d (+ V d untied) + 2 d of the final norm.
  for (const auto& [L, d, d_ff, V] : {std::array<int64_t, 4>{2, 16, 40, 23}, {3, 24, 7, 5}, {1, 8, 32, 100}})
    for (bool tied : {true, false}) {
      const std::string yaml =
          cat("vocab_size: ", V, ", hidden_size: ", d, ", num_hidden_layers: ", L,
              ", position: none, norm: layer, residual: pre, ffn: {type: relu, intermediate_size: ", d_ff,
              "}, tie_word_embeddings: ", tied ? "true" : "false");
      EXPECT_EQ(count_of_small(yaml), L * (4 * d * d + 2 * d * d_ff + 5 * d + d_ff) + V * d * (tied ? 1 : 2) + 2 * d);
    }
}

TEST(Model, AUniformModelsPerplexityIsItsVocabulary) {
  Model model(tiny("tie_word_embeddings: false"), {});
  kit::assign(model.parameters().find("head.weight")->master.value(), std::vector<double>(56, 0));
  const kit::Batch batch = kit::random_batch({5, 9}, 7, 1);
  LossSums sums;
  kit::loss(model, batch.ids, batch.labels, batch.sequences, 0, 1, &sums);
  EXPECT_EQ(sums.labels, 12);
  EXPECT_NEAR(std::exp(sums.nll / double(sums.labels)), 7.0, 7 * 0x1p-22);
}

TEST(Model, PerplexityDoesNotDependOnHowABatchIsSplit) {
  const Model model(tiny(), {});
  const kit::Batch batch = kit::random_batch({5, 1, 9, 3}, 7, 1);
  LossSums together, sum;
  const Tensor rows = empty({18}, DType::f32);
  kit::loss(model, batch.ids, batch.labels, batch.sequences, 0, 1, &together, rows);
  for (int64_t b = 0; b < 4; ++b) {
    const kit::Batch one = kit::alone(batch, b);
    LossSums mine;
    const Tensor alone = empty({one.ids.numel()}, DType::f32);
    kit::loss(model, one.ids, one.labels, one.sequences, 0, 1, &mine, alone);
    EXPECT_EQ(kit::bit_difference(alone, clone(rows.slice(batch.sequences.offset(b), batch.sequences.offset(b + 1)))),
              "")
        << b;
    sum.nll += mine.nll;
    sum.labels += mine.labels;
  }
  EXPECT_EQ(sum.labels, together.labels);
  EXPECT_NEAR(sum.nll, together.nll, 1e-14 * together.nll);  // the same numbers, added in double in another grouping
}

TEST(Model, MemorisesASequence) {
  set_threads(1);
  Model model(tiny(), {.trainable = true});
  const kit::Batch batch = kit::random_batch({12}, 7, 3);
  std::vector<Tensor> m, v;
  for (const Parameter& p : model.parameters().all())
    m.push_back(zeros(p.master.shape(), DType::f32)), v.push_back(zeros(p.master.shape(), DType::f32));
  double perplexity = 0;
  for (int step = 1; step <= 200; ++step) {
    LossSums sums;
    {
      Tape tape;
      tape.backward(kit::loss(model, batch.ids, batch.labels, batch.sequences, 0, 1.0 / 11, &sums));
    }
    perplexity = std::exp(sums.nll / 11);
    if (step == 1) {
      EXPECT_GT(perplexity, 5);
    }
    size_t i = 0;
    for (Parameter& p : model.parameters().all()) {
      kernels::adamw({.param = p.master.value(),
                      .gradient = p.master.grad(),
                      .m = m[i],
                      .v = v[i],
                      .lr = 0.02,
                      .step = step,
                      .clear = true});
      ++i;
    }
  }
  EXPECT_LT(perplexity, 1.01);
  set_threads(usable_threads());
}

// Row t of a sequence is row t of every longer one.
TEST(Model, PrefixesHaveTheSameRows) {
  const ModelOptions exact{.dtype = DType::f64, .compute = DType::f64};
  Model model(tiny(), exact);
  kit::randomise(model.parameters(), 2);
  const Tensor ids = kit::random_ids(12, 7, 4);
  const Tensor whole = kit::logits(model, ids, Sequences::single(12)).value();
  for (int64_t n : {1, 5, 11})
    EXPECT_EQ(kit::close(kit::logits(model, clone(ids.slice(0, n)), Sequences::single(n)).value(),
                         clone(whole.slice(0, n)), 64),
              "")
        << n;
}

TEST(Model, LossIsTheHeadsLossOfTheRows) {
  const Model model(tiny(), {.dtype = DType::f64, .compute = DType::f64});
  const kit::Batch batch = kit::random_batch({4, 6}, 7, 1);
  LossSums a, b;
  kit::loss(model, batch.ids, batch.labels, batch.sequences, 0.1, 1, &a);
  cross_entropy(kit::logits(model, batch.ids, batch.sequences), batch.labels, 0.1, 1, &b);
  EXPECT_NEAR(a.loss, b.loss, 1e-13);
  EXPECT_NEAR(a.nll, b.nll, 1e-13);
}

TEST(Model, DropoutActsWhileTrainingOnlyAndFollowsTheStep) {
  Model model(tiny("hidden_dropout: 0.4"), {.trainable = true});
  const kit::Batch batch = kit::random_batch({8}, 7, 1);
  const auto rows = [&] { return kit::forward(model, batch.ids, batch.sequences).value(); };
  const Tensor evaluated = rows();
  EXPECT_EQ(kit::bit_difference(rows(), evaluated), "");
  const Tape tape;
  step_context() = {1, 1};
  const Tensor first = rows();
  EXPECT_EQ(kit::bit_difference(rows(), first), "");
  EXPECT_NE(kit::bit_difference(evaluated, first), "");
  step_context() = {1, 2};
  EXPECT_NE(kit::bit_difference(rows(), first), "");
  step_context() = {};
}

TEST(Model, WiringsEndWithANormOrNot) {
  for (const auto& [residual, ends] :
       {std::pair<std::string, bool>{"pre", true}, {"post", false}, {"res_post", true}}) {
    Model model(tiny("residual: " + residual), kit::kMeta);
    EXPECT_EQ(model.parameters().find("final_norm.weight") != nullptr, ends) << residual;
  }
}

TEST(Model, WithoutLayersTheHeadReadsTheEmbedding) {
  Model model(kit::model_config("{vocab_size: 7, hidden_size: 8, num_hidden_layers: 0, max_position_embeddings: 4, "
                                "position: none, residual: post}"),
              {.dtype = DType::f64, .compute = DType::f64});
  const Tensor table = model.parameters().find("embedding.weight")->master.value();
  EXPECT_EQ(kit::bit_difference(kit::forward(model, kit::ids_of({6, 2}), Sequences::single(2)).value(),
                                kit::rows_of(table, {6, 2})),
            "");
}

TEST(Model, SaysWhatDoesNotFit) {
  const Model model(tiny("position: learned"), {});
  EXPECT_EQ(kit::error_of([&] {
              kit::forward(model, kit::ids_of({1, 2}), Sequences::single(3));
            }),
            "model: tokens of 1 ints for sequences of 3 rows must be [3], got [2]");
  EXPECT_EQ(kit::error_of([&] {
              kit::forward(model, kit::ids_of({1, 7}), Sequences::single(2));
            }),
            "embed: id 7 at row 1 is outside the table of 7 rows");
  EXPECT_EQ(kit::error_of([&] { kit::forward(model, kit::random_ids(13, 7, 1), Sequences::single(13)); }),
            "model: a sequence of 13 tokens is longer than max_position_embeddings 12; shorten it, or train with more "
            "positions");
  const auto state = model.make_state(2, 4);
  EXPECT_EQ(kit::error_of([&] { model.continue_sequences(*state, {1}); }),
            "model: the state has 2 sequences, got counts for 1");
  EXPECT_EQ(kit::error_of([&] { state->truncate(0, 1); }), "state: cannot truncate sequence 0 to 1 tokens");
  EXPECT_EQ(kit::error_of([&] { state->reorder({2}); }), "state: reorder from sequence 2 of 2");
}

TEST(Model, TheLongestSequenceIsWhatPositionsAndMixersAllow) {
  const auto config = [](const std::string& more) {
    return kit::model_config("{vocab_size: 7, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 12, " +
                             more + "}");
  };
  EXPECT_EQ(Model(tiny("position: rotary"), {}).position_limit(), 0);
  EXPECT_EQ(Model(tiny("position: learned"), {}).position_limit(), 12);
  Model linear(config("position: none, mixer: linear"), {});
  EXPECT_EQ(linear.position_limit(), 12);
  linear.skip({0, 1}, true);
  EXPECT_EQ(linear.position_limit(), 0);
  const std::string fixed = "position: rotary, mixer: {type: fixed_seq_qk, num_attention_heads: 2, reference_ids: ";
  EXPECT_EQ(Model(config(fixed + "[]}"), {}).position_limit(), 0);
  EXPECT_EQ(Model(config(fixed + "[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0]}"), {}).position_limit(), 13);
  // Refused before anything has values.
  EXPECT_EQ(kit::error_of([&] { Model(config(fixed + "[1, 2]}"), kit::kMeta); }),
            "model: reference_ids has 2 tokens, 12 are needed; give at least max_position_embeddings "
            "(data.sequence_length where that is 0) of them");
  EXPECT_EQ(kit::error_of([&] { Model(config(fixed + "[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 7]}"), kit::kMeta); }),
            "model: reference_ids has token 7, the vocabulary's are 0 to 6");
}

class ModelFiles : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path file_ = scratch_.path() / "model.safetensors";
  std::string loading(const std::map<std::string, Tensor>& tensors, Model& model) {
    write_safetensors(file_, tensors, {});
    return kit::error_of([&] { load_weights(model, file_); });
  }
};

TEST_F(ModelFiles, WeightsOfAnotherModelAreRefusedByName) {
  Model model(tiny(), {});
  std::map<std::string, Tensor> tensors;
  for (const Parameter& p : model.parameters().all()) tensors[p.name] = p.master.value();
  EXPECT_EQ(loading(tensors, model), "no error");
  auto wrong = tensors;
  wrong["layers.2.mixer_norm.weight"] = kit::normal({8}, DType::f32, 1);
  EXPECT_EQ(loading(wrong, model), "load: '" + file_.string() +
                                       "' has a tensor 'layers.2.mixer_norm.weight' that this model does not; its "
                                       "config.json must be the one the weights were saved with");
  wrong = tensors;
  wrong.erase("final_norm.weight");
  EXPECT_EQ(loading(wrong, model),
            "load: '" + file_.string() +
                "' has no tensor 'final_norm.weight' [8]; its config.json must be the one the weights were saved with");
  wrong = tensors;
  wrong["embedding.weight"] = kit::normal({8, 8}, DType::f32, 1);
  EXPECT_EQ(loading(wrong, model),
            "load: '" + file_.string() + "': tensor 'embedding.weight' is [8,8], the model needs [7,8]");
}

TEST_F(ModelFiles, ARefusedFileChangesNothing) {
  Model model(tiny(), {});
  std::map<std::string, Tensor> before, tensors;
  for (const Parameter& p : model.parameters().all()) {
    before[p.name] = clone(p.master.value());
    tensors[p.name] = kit::normal(p.master.shape(), DType::f32, 9);
  }
  tensors["layers.1.mixer_norm.weight"] = kit::normal({9}, DType::f32, 1);
  EXPECT_NE(loading(tensors, model), "no error");
  for (const Parameter& p : model.parameters().all())
    EXPECT_EQ(kit::bit_difference(p.master.value(), before[p.name]), "") << p.name;
}

TEST_F(ModelFiles, LoadingRefreshesTheBf16Copies) {
  Model model(tiny(), {.compute = DType::bf16, .seed = 1}), other(tiny(), {.compute = DType::bf16, .seed = 2});
  save_weights(model, file_);
  load_weights(other, file_);
  const Tensor ids = kit::random_ids(6, 7, 1);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, ids, Sequences::single(6)).value(),
                                kit::forward(other, ids, Sequences::single(6)).value()),
            "");
}

}  // namespace
}  // namespace lithe
