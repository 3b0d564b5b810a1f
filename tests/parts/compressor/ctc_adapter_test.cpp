#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/ctc.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Rows whose head says these classes, of three labels and the blank, 3: the head is the identity.
struct Adapter {
  explicit Adapter(const std::string& options)
      : part(bench.make<Compressor>("ctc_adapter", {.hidden_size = 4, .causal = false},
                                    "{num_labels: 3, adapter: false" + options + "}")) {
    fill_zero(bench["part.ctc.weight"]);
    fill_zero(bench["part.ctc.bias"]);
    for (int64_t i = 0; i < 4; ++i) set_value(bench["part.ctc.weight"], 5 * i, 1);
  }
  Compressor::Shorter operator()(const std::vector<int>& classes, const std::vector<int64_t>& offsets) const {
    return part->forward({rows(classes), Sequences(offsets)}, Pass::nowhere());
  }
  static Tensor rows(const std::vector<int>& classes) {
    const Tensor out = zeros({int64_t(classes.size()), 4}, DType::f64);
    for (size_t i = 0; i < classes.size(); ++i) set_value(out, int64_t(4 * i) + classes[i], double(i + 1));
    return out;
  }
  kit::Bench bench;
  std::unique_ptr<Compressor> part;
};

// oracle: app.st_decoupled
TEST(CtcAdapter, ParametersAreThoseOfTheSpecification) {
  for (const int64_t d : {5, 8, 12})
    for (const int64_t labels : {3, 30}) {
      kit::Bench bench;
      bench.make<Compressor>("ctc_adapter", {.hidden_size = d, .causal = false}, cat("{num_labels: ", labels, "}"));
      EXPECT_EQ(bench.parameters().count(), d * d + d + d * (labels + 1) + labels + 1);
    }
}

// oracle: app.st_decoupled
TEST(CtcAdapter, WithoutBlanksAndRepetitionsNothingShrinks) {
  const std::vector<int> classes{0, 1, 0, 2, 1, 1};
  for (const std::string shrink : {"none", "drop", "merge", "drop_merge"}) {
    const auto y = Adapter(", shrink: " + shrink)(classes, {0, 5, 6});
    EXPECT_EQ(y.rows.sequences.offsets(), (std::vector<int64_t>{0, 5, 6})) << shrink;
    EXPECT_EQ(kit::bit_difference(y.rows.x.value(), Adapter::rows(classes)), "") << shrink;
    EXPECT_EQ(y.row_of, (std::vector<int64_t>{0, 1, 2, 3, 4, 5})) << shrink;
  }
}

// oracle: app.st_decoupled
TEST(CtcAdapter, BlanksAreDroppedAndRepetitionsMerged) {
  const std::vector<int> classes{0, 0, 3, 1, 3, 3, /**/ 3, 3, /**/ 2, 3, 2};
  const std::vector<int64_t> offsets{0, 6, 8, 11};
  const Tensor x = Adapter::rows(classes);
  const auto drop = Adapter(", shrink: drop")(classes, offsets), merge = Adapter(", shrink: merge")(classes, offsets),
             both = Adapter(", shrink: drop_merge")(classes, offsets);
  EXPECT_EQ(drop.rows.sequences.offsets(), (std::vector<int64_t>{0, 3, 4, 6}));  // a sequence of blanks keeps one row
  EXPECT_EQ(kit::bit_difference(drop.rows.x.value(), kit::rows_of(x, {0, 1, 3, 6, 8, 10})), "");
  EXPECT_EQ(drop.row_of, (std::vector<int64_t>{0, 1, -1, 2, -1, -1, 3, -1, 4, -1, 5}));
  EXPECT_EQ(merge.rows.sequences.offsets(), (std::vector<int64_t>{0, 4, 5, 8}));
  EXPECT_EQ(value_at(merge.rows.x.value(), 0), 1.5);          // of 1 and 2
  EXPECT_EQ(value_at(merge.rows.x.value(), 3 * 4 + 3), 5.5);  // of 5 and 6
  EXPECT_EQ(both.rows.sequences.offsets(), (std::vector<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(both.row_of, (std::vector<int64_t>{0, 0, -1, 1, -1, -1, 2, -1, 3, -1, 4}));
  EXPECT_EQ(value_at(both.rows.x.value(), 0), 1.5);
}

TEST(CtcAdapter, AThresholdSaysWhatABlankIs) {
  // The blank has e^1 / (3 + e^1) = 0.475 of row 0, and more of later rows.
  const std::vector<int> blanks{3, 3, 3};
  EXPECT_EQ(Adapter(", shrink: drop, blank_threshold: 0.47")(blanks, {0, 3}).row_of, (std::vector<int64_t>{0, -1, -1}));
  EXPECT_EQ(Adapter(", shrink: drop, blank_threshold: 0.48")(blanks, {0, 3}).row_of, (std::vector<int64_t>{0, -1, -1}));
  EXPECT_EQ(Adapter(", shrink: drop, blank_threshold: 0.99")(blanks, {0, 3}).row_of, (std::vector<int64_t>{0, 1, 2}));
}

constexpr const char* kSpoken =
    "{architecture: encoder, hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, "
    "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
    "intermediate_size: 6}, head: classify, layers: {speech: {}, text: {compressor: {type: ctc_adapter, num_labels: 4";

std::unique_ptr<Model> spoken_model(const std::string& options) {
  auto model = std::make_unique<Model>(kit::model_config(cat(kSpoken, options, "}}}, layer_types: [speech, text]}")),
                                       kit::kTrainable);
  kit::randomise(model->parameters(), 3);
  return model;
}

ModelInput with_transcript() {
  ModelInput out{kit::ids_of({1, 5, 3, 7, 2, 9, 4, 4}), Sequences({0, 5, 8})};
  out.columns["transcript"] = kit::ids_of({2, 0, -1, -1, -1, 3, -1, -1});
  return out;
}

// oracle: app.st_decoupled
TEST(CtcAdapter, LambdaTimesTheLossOfTheTranscriptIsAdded) {
  const auto losses = [](const std::string& options, bool* gradient) {
    const auto model = spoken_model(options);
    Tape tape;
    Pass pass;
    const Var x = model->run(with_transcript(), pass, nullptr).x;
    tape.backward(Model::with_losses(sum(x), pass, 1));
    *gradient = model->parameters().find("layers.1.compressor.ctc.weight")->master.grad().defined();
    return pass.losses().count("ctc") ? value_at(pass.losses().at("ctc").value(), 0) : 0;
  };
  bool one = false, third = false, none = true;
  const double whole = losses(", loss_coef: 1", &one);
  EXPECT_GT(whole, 0);
  EXPECT_NEAR(losses("", &third), 0.3 * whole, 1e-12);
  EXPECT_EQ(losses(", loss_coef: 0", &none), 0);
  EXPECT_TRUE(one);
  EXPECT_TRUE(third);
  EXPECT_FALSE(none);
}

// Without map and shrinking the text layers read the speech layers' rows: one encoder.
// oracle: app.st_decoupled
TEST(CtcAdapter, WithoutMapAndShrinkingIsOneEncoder) {
  const auto model = spoken_model(", adapter: false");
  Model plain(kit::model_config(std::string(kSpoken).substr(0, std::string(kSpoken).find(", layers:")) + "}"),
              kit::kTrainable);
  for (Parameter& p : plain.parameters().all())
    copy_into(p.master.value(), model->parameters().find(p.name)->master.value());
  const kit::Batch batch = kit::random_batch({7, 1, 4}, plain.config(), 5);
  EXPECT_EQ(kit::bit_difference(kit::run(*model, batch.ids, batch.sequences).x.value(),
                                kit::run(plain, batch.ids, batch.sequences).x.value()),
            "");
}

TEST(CtcAdapter, HasGradientsOfItsLoss) {
  for (const bool recompute : {false, true}) {
    const auto model = spoken_model(", loss_coef: 1");
    model->set_recompute(recompute);
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  model->parameters(),
                  [&](const std::vector<Var>&) {
                    Pass pass;
                    const Var x = model->run(with_transcript(), pass, nullptr).x;
                    return std::vector<Var>{x, pass.losses().at("ctc")};
                  },
                  {}, &where),
              1e-6)
        << where;
  }
}

TEST(CtcAdapter, ALabelBeyondTheHeadIsRefused) {
  const auto model = spoken_model("");
  ModelInput input = with_transcript();
  input.columns["transcript"] = kit::ids_of({9, 0, -1, -1, -1, 3, -1, -1});
  EXPECT_NE(kit::error_of([&] {
              Tape tape;
              Pass pass;
              model->run(input, pass, nullptr);
            }).find("not below num_labels 4"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
