// Encoders: every token sees all of its sequence and nothing else; the heads over them, and their weights alone.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/model/safetensors.h"
#include "lithe/nn/registry.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

ModelConfig encoder(const std::string& more = "") {
  return kit::model_config(
      "{architecture: encoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 16, "
      "mixer: {type: attention, num_attention_heads: 2}}",
      more);
}

// oracle: arch.encoder
TEST(Encoder, CountsTheTextbooksParameters) {
  const auto count = [](int64_t layers) {
    return Model(kit::model_config(cat("{architecture: encoder, vocab_size: 1, hidden_size: 512, position: none, norm: "
                                       "layer, residual: post, max_position_embeddings: 16, ffn: {type: relu, "
                                       "intermediate_size: 2048}, num_hidden_layers: ",
                                       layers, "}")),
                 kit::kMeta)
        .parameters()
        .count();
  };
  EXPECT_EQ(count(1) - count(0), 3'150'336);
  EXPECT_EQ(count(6) - count(0), 18'902'016);
}

// oracle: arch.encoder_only
TEST(Encoder, CountsBertsParameters) {
  const auto count = [](int64_t layers, const std::string& head, int64_t labels = 0) {
    return Model(
               kit::model_config(cat("{architecture: encoder, vocab_size: 30522, hidden_size: 768, position: learned, "
                                     "norm: layer, residual: post, embedding_norm: true, max_position_embeddings: "
                                     "512, ffn: {type: gelu, intermediate_size: 3072}, mixer: {type: attention, "
                                     "num_attention_heads: 12, attention_bias: true, output_bias: true}, "
                                     "tie_word_embeddings: ",
                                     head == "mlm" ? "true" : "false", ", head: ", head, ", num_labels: ", labels,
                                     ", num_hidden_layers: ", layers, "}")),
               kit::kMeta)
        .parameters()
        .count();
  };
  EXPECT_EQ(count(1, "mlm") - count(0, "mlm"), 7'087'872);
  // Tables of words and positions, the embedding's norm, twelve layers.
  const int64_t bert = 30522 * 768 + 512 * 768 + 2 * 768 + 12 * 7'087'872;
  EXPECT_EQ(count(12, "classify", 2), bert + 590'592 + 1'538);
  EXPECT_EQ(count(12, "tag", 3), bert + 3 * 768 + 3);
  EXPECT_EQ(count(12, "span", 1), bert + 590'592 + 2 * 768);
  EXPECT_EQ(count(12, "mlm"), bert + 590'592 + 2 * 768 + 30522);  // what every library's BERT for masked words adds
}

TEST(Encoder, PermutedTokensGivePermutedRowsUnlessPositionsTellThemApart) {
  const std::vector<int64_t> order{3, 0, 4, 1, 2};
  const Tensor ids = kit::ids_of({7, 1, 9, 4, 2}), permuted = kit::ids_of({4, 7, 2, 1, 9});
  for (const auto& [position, equivariant] :
       {std::pair{"none", true}, {"learned", false}, {"sinusoidal", false}, {"rotary", false}}) {
    Model model(encoder(cat("position: ", position)), kit::kExact);
    kit::randomise(model.parameters(), 1);
    const Tensor x = kit::forward(model, ids, Sequences::single(5)).value(),
                 y = kit::forward(model, permuted, Sequences::single(5)).value();
    EXPECT_EQ(kit::close(y, kit::rows_of(x, order), 256).empty(), equivariant) << position;
  }
}

TEST(Encoder, WithoutLayersItIsItsInput) {
  Model model(kit::model_config("{architecture: encoder, vocab_size: 7, hidden_size: 8, num_hidden_layers: 0, "
                                "max_position_embeddings: 4, position: none, residual: post}"),
              kit::kExact);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, kit::ids_of({6, 2}), Sequences::single(2)).value(),
                                kit::rows_of(model.parameters().find("embedding.weight")->master.value(), {6, 2})),
            "");
}

// oracle: mask.padding
TEST(Encoder, SequencesNeverMeet) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Model model(encoder(), {.compute = dtype});
    kit::randomise(model.parameters(), 1);
    const kit::Batch batch = kit::random_batch({5, 1, 9, 2}, 11, 1);
    const Tensor rows = kit::forward(model, batch.ids, batch.sequences).value();
    for (int64_t b = 0; b < 4; ++b) {
      const kit::Batch one = kit::alone(batch, b);
      EXPECT_EQ(kit::bit_difference(kit::forward(model, one.ids, one.sequences).value(),
                                    clone(rows.slice(batch.sequences.offset(b), batch.sequences.offset(b + 1)))),
                "")
          << b;
    }
    // Other tokens in one sequence change that one alone.
    const Tensor other = clone(batch.ids);
    for (int64_t n = 6; n < 15; ++n) other.data<int32_t>()[n] = (other.data<int32_t>()[n] + 1 + int32_t(n)) % 11;
    std::vector<int64_t> changed;
    for (int64_t n = 6; n < 15; ++n) changed.push_back(n);
    EXPECT_EQ(kit::changed_rows(rows, kit::forward(model, other, batch.sequences).value()), changed);
  }
}

// A sequence without tokens, a block's row of nothing but padding, gives nothing and disturbs nothing.
TEST(Encoder, EmptySequencesDisturbNothing) {
  Model model(encoder(), {});
  kit::randomise(model.parameters(), 1);
  const Tensor ids = kit::ids_of({1, 2, 3, 4, 5});
  const Tensor want = kit::forward(model, ids, Sequences({0, 3, 5})).value();
  EXPECT_EQ(kit::bit_difference(kit::forward(model, ids, Sequences({0, 0, 3, 3, 5, 5})).value(), want), "");
  for (const double x : kit::values(want)) EXPECT_TRUE(std::isfinite(x));
}

// The counter-check: zero vectors inside a sequence are seen, with weight e^0.
TEST(Encoder, ZeroVectorsInsideASequenceAreSeen) {
  Model model(encoder("position: none"), kit::kExact);
  kit::randomise(model.parameters(), 1);
  const Tensor table = model.parameters().find("embedding.weight")->master.value();
  for (int64_t c = 0; c < 8; ++c) set_value(table, c, 0);
  const Tensor alone = kit::forward(model, kit::ids_of({1, 2, 3}), Sequences::single(3)).value(),
               padded = kit::forward(model, kit::ids_of({1, 2, 3, 0, 0}), Sequences::single(5)).value();
  EXPECT_EQ(kit::changed_rows(alone, clone(padded.slice(0, 3))), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Encoder, OnlyPredictedRowsAreLearntFrom) {
  for (const std::string head : {"mlm", "lm"}) {
    Model model(encoder("head: " + head), {.dtype = DType::f64, .compute = DType::f64, .trainable = true});
    kit::randomise(model.parameters(), 1);
    const Sequences sequences({0, 4, 9});
    const Tensor rows = kit::normal({9, 8}, DType::f64, 2);
    const std::vector<int64_t> predicted{1, 6, 7, 0, 0};  // the last two fill up
    const auto loss = [&](const Var& x, LossSums* sums) {
      return model.loss_of({x, sequences}, predicted,
                           {.labels = kit::ids_of({5, 0, 10, -1, -1}), .scale = 0.5, .sums = sums});
    };
    LossSums got, want, changed;
    const Var leaf = Var::leaf(clone(rows));
    {
      Tape tape;
      tape.backward(loss(leaf, &got));
    }
    for (int64_t n = 0; n < 9; ++n) {
      double norm = 0;
      for (int64_t c = 0; c < 8; ++c) norm += std::abs(value_at(leaf.grad(), n * 8 + c));
      EXPECT_EQ(norm != 0, n == 1 || n == 6 || n == 7) << head << n;
    }
    EXPECT_EQ(got.labels, 3);
    // The same as labels for all rows, most of them none.
    model.loss_of({Var(rows), sequences}, {},
                  {.labels = kit::ids_of({-1, 5, -1, -1, -1, -1, 0, 10, -1}), .sums = &want});
    EXPECT_NEAR(got.nll, want.nll, 64 * 0x1p-53 * want.nll);
    for (int64_t c = 0; c < 8; ++c) set_value(rows, 2 * 8 + c, 77);
    loss(Var(rows), &changed);
    EXPECT_EQ(changed.nll, got.nll);
  }
}

TEST(Encoder, TheEmbeddingsNormActsOnWhatLayersRead) {
  const auto config = [](bool normed) {
    return kit::model_config(
        cat("{architecture: encoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 0, "
            "max_position_embeddings: 16, position: learned, norm: layer, residual: post, "
            "embedding_norm: ",
            normed ? "true" : "false", "}"));
  };
  Model with(config(true), kit::kExact), without(config(false), kit::kExact);
  EXPECT_EQ(with.parameters().count(), without.parameters().count() + 2 * 8);
  kit::randomise(with.parameters(), 1);
  for (Parameter& p : without.parameters().all())
    kit::assign(p.master.value(), with.parameters().find(p.name)->master.value());
  const Tensor ids = kit::ids_of({3, 1, 4});
  kit::Bench bench;
  const auto norm = bench.make<Norm>("layer", {.hidden_size = 8});
  for (const char* name : {"weight", "bias"})
    kit::assign(bench[cat("part.", name)], with.parameters().find(cat("embedding_norm.", name))->master.value());
  EXPECT_EQ(kit::bit_difference(kit::forward(with, ids, Sequences::single(3)).value(),
                                norm->forward(kit::forward(without, ids, Sequences::single(3))).value()),
            "");
}

TEST(Encoder, LabelsAreCountedByTheHead) {
  const Sequences sequences({0, 4, 6, 9});
  const auto count = [&](const std::string& head) {
    const auto got =
        Model(encoder("num_labels: 5, tie_word_embeddings: false, head: " + head), kit::kMeta).label_count(sequences);
    return std::pair(got.labels, got.classes);
  };
  using Two = std::pair<int64_t, int64_t>;
  EXPECT_EQ(count("lm"), Two(9, 11));
  EXPECT_EQ(count("mlm"), Two(9, 11));
  EXPECT_EQ(count("tag"), Two(9, 5));
  EXPECT_EQ(count("classify"), Two(3, 5));
  EXPECT_EQ(count("{type: classify, problem_type: regression}"), Two(3, 0));
  EXPECT_EQ(count("span"), Two(6, 2));
}

TEST(Encoder, OnlyCausalLanguageModelsPredictTheNextToken) {
  const auto says = [](const std::string& more) {
    const Model model(kit::model_config(cat("{vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, "
                                            "max_position_embeddings: 16, num_labels: 3, mixer: {type: attention, "
                                            "num_attention_heads: 2}, ",
                                            more, "}")),
                      kit::kMeta);
    return kit::coded_error_of([&] { model.check_predicts_next("generate"); });
  };
  EXPECT_EQ(says("head: lm"), "no error");
  EXPECT_EQ(says("head: mlm"), "no error");
  EXPECT_EQ(says("architecture: encoder, head: mlm"),
            "2 generate: needs a model that predicts the next token: architecture decoder with head lm; this one is "
            "architecture encoder with head mlm");
  for (const char* head : {"tag", "classify", "span"})
    EXPECT_EQ(says(cat("tie_word_embeddings: false, head: ", head)).substr(0, 2), "2 ") << head;
}

// ---- weights without the head

class Backbone : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path file_ = scratch_.path() / "model.safetensors";
  static std::map<std::string, Tensor> values(const Model& model) {
    std::map<std::string, Tensor> out;
    for (const Parameter& p : model.parameters().all()) out[p.name] = clone(p.master.value());
    return out;
  }
};

TEST_F(Backbone, AllButTheHeadComesFromTheFile) {
  for (const std::string head : {"mlm", "{type: classify, dense: false}", "tag", "span"}) {
    Model trained(encoder("head: mlm"), {.seed = 1});
    kit::randomise(trained.parameters(), 1);
    save_weights(trained, file_);
    Model model(encoder("num_labels: 3, tie_word_embeddings: false, head: " + head), {.seed = 2});
    const auto before = values(model);
    load_backbone(model, file_);
    for (const Parameter& p : model.parameters().all()) {
      const bool of_head = p.name.starts_with("head.");
      EXPECT_EQ(kit::bit_difference(p.master.value(),
                                    of_head ? before.at(p.name) : trained.parameters().find(p.name)->master.value()),
                "")
          << head << " " << p.name;
    }
  }
}

// A model that goes on learning what it learned keeps its head; another head is new.
TEST_F(Backbone, AHeadWithTheSameTensorsComesAlongWhereItIsAsked) {
  const std::string untied = "tie_word_embeddings: false, head: ";
  Model trained(encoder(untied + "mlm"), {.seed = 1});
  kit::randomise(trained.parameters(), 1);
  save_weights(trained, file_);
  for (const std::string head : {"mlm", "{type: tag}, num_labels: 3"}) {
    Model model(encoder(untied + head), {.seed = 2});
    const auto before = values(model);
    load_backbone(model, file_, true);
    for (const Parameter& p : model.parameters().all()) {
      const bool stays = p.name.starts_with("head.") && head != "mlm";
      EXPECT_EQ(kit::bit_difference(p.master.value(),
                                    stays ? before.at(p.name) : trained.parameters().find(p.name)->master.value()),
                "")
          << head << " " << p.name;
    }
  }
}

TEST_F(Backbone, RefreshesTheBf16Copies) {
  Model trained(encoder("head: mlm"), {.compute = DType::bf16, .seed = 1}),
      model(encoder("head: tag, num_labels: 3"), {.compute = DType::bf16, .seed = 2});
  save_weights(trained, file_);
  load_backbone(model, file_);
  const Tensor ids = kit::random_ids(6, 11, 1);
  EXPECT_EQ(kit::bit_difference(kit::forward(trained, ids, Sequences::single(6)).value(),
                                kit::forward(model, ids, Sequences::single(6)).value()),
            "");
}

// An encoder by itself, and one inside of a translator, serve a translator's.
// oracle: app.enc_hybrid_decoder
TEST_F(Backbone, PartsComeFromOtherModelsByTheirNames) {
  const std::string both = "architecture: encoder_decoder, share_encoder_decoder_embeddings: false";
  for (const bool whole : {false, true}) {
    Model trained(whole ? encoder(both + ", head: lm") : encoder("head: mlm"), {.seed = 1});
    kit::randomise(trained.parameters(), 1);
    save_weights(trained, file_);
    Model model(encoder(both + ", head: lm"), {.seed = 2});
    const auto before = values(model);
    load_part(model, "encoder", file_);
    for (const Parameter& p : model.parameters().all()) {
      const bool taken = p.name.starts_with("encoder.");
      const std::string from = whole || !taken ? p.name : p.name.substr(8);
      EXPECT_EQ(kit::bit_difference(p.master.value(),
                                    taken ? trained.parameters().find(from)->master.value() : before.at(p.name)),
                "")
          << p.name;
    }
    const auto refusal = [&](const std::string& part, const std::string& more) {
      Model other(encoder(both + more), {.seed = 2});
      return kit::coded_error_of([&] { load_part(other, part, file_); });
    };
    EXPECT_NE(refusal("coder", "").find("no parameter of the model begins with 'coder.'"), std::string::npos);
    EXPECT_NE(refusal("encoder", ", encoder: {num_hidden_layers: 9}").find("has no tensor"), std::string::npos);
  }
}

TEST_F(Backbone, OfAnotherModelIsRefusedAndChangesNothing) {
  Model model(encoder("head: tag, num_labels: 3"), {.seed = 2});
  const auto before = values(model);
  const auto loading = [&](const std::function<void(std::map<std::string, Tensor>&)>& change) {
    Model trained(encoder("head: mlm"), {.seed = 1});
    auto tensors = values(trained);
    change(tensors);
    write_safetensors(file_, tensors, {});
    const std::string error = kit::coded_error_of([&] { load_backbone(model, file_); });
    for (const auto& [name, value] : values(model)) EXPECT_EQ(kit::bit_difference(value, before.at(name)), "") << name;
    return error;
  };
  EXPECT_NE(loading([](auto& t) { t.erase("embedding.weight"); }).find("has no tensor 'embedding.weight' [11,8]"),
            std::string::npos);
  EXPECT_NE(loading([](auto& t) {
              t["layers.2.mixer_norm.weight"] = kit::normal({8}, DType::f32, 1);
            }).find("has a tensor 'layers.2.mixer_norm.weight' that this model does not"),
            std::string::npos);
  EXPECT_NE(loading([](auto& t) {
              t["final_norm.weight"] = kit::normal({9}, DType::f32, 1);
            }).find("tensor 'final_norm.weight' is [9], the model needs [8]"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
