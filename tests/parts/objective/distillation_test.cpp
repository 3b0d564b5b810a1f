#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/parts/objective_kit.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

const std::string kSmall =
    "{vocab_size: 257, hidden_size: 6, num_hidden_layers: 2, max_position_embeddings: 16, num_labels: 3, position: "
    "sinusoidal, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 7}}";
const std::string kLarge =
    "{vocab_size: 257, hidden_size: 8, num_hidden_layers: 4, max_position_embeddings: 16, num_labels: 3, position: "
    "sinusoidal, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 7}}";

// A teacher on disk and a student in memory.
struct Taught {
  explicit Taught(const std::string& options, const std::string& more = "", const std::string& large = kLarge,
                  const std::string& small = kSmall)
      : teacher(kit::model_config(large, more), {.dtype = DType::f64, .compute = DType::f64}),
        model(kit::model_config(small, more), kit::kTrainable) {
    kit::randomise(teacher.parameters(), 7);
    const Path directory = scratch.path() / "teacher";
    make_directory(directory);
    save_config(teacher.config(), directory / "config.json");
    save_weights(teacher, directory / "model.safetensors");
    own.context().trainable = true;
    objective = own.make<Objective>(
        "distillation", {.model = &model},
        "{teacher: " + directory.string() + ", teacher_precision: f64" + (options.empty() ? "" : ", " + options) + "}",
        "objective.d");
    kit::randomise(model.parameters(), 3);
    kit::randomise(own.parameters(), 5);
  }
  Var loss(const kit::Batch& batch, const Tensor& labels = {}) const {
    Pass pass;
    objective->want(model, pass);
    const ModelInput input{batch.ids, batch.sequences};
    const Rows rows = model.run(input, pass);
    return objective->loss({model, rows, pass, input},
                           {.labels = labels.defined() ? labels : kit::labels_for(model, batch)}, {.scale = 1.0 / 8});
  }
  void expect_gradients() const {
    const auto f = [&](const std::vector<Var>&) { return std::vector{loss(two())}; };
    std::string where;
    EXPECT_LT(kit::gradient_error(const_cast<Model&>(model).parameters(), f, {}, &where), 1e-6) << where;
    if (own_parameters().all().empty()) return;
    EXPECT_LT(kit::gradient_error(const_cast<kit::Bench&>(own).parameters(), f, {}, &where), 1e-6) << where;
  }
  const Parameters& own_parameters() const { return const_cast<kit::Bench&>(own).parameters(); }
  static const kit::Batch& two() {
    static const kit::Batch batch = kit::random_batch({5, 3}, 257, 4);
    return batch;
  }
  kit::Scratch scratch;
  Model teacher, model;
  kit::Bench own;
  std::unique_ptr<Objective> objective;
};

double logit_loss(const Model& model, const Model& teacher, const kit::Batch& batch, const Tensor& labels) {
  const NoGrad none;
  const auto run = [&](const Model& m) {
    Pass pass;
    return m.logits(m.run({batch.ids, batch.sequences}, pass)).value();
  };
  const Tensor x = run(model), y = run(teacher);
  double loss = 0;
  for (int64_t n = 0; n < x.rows(); ++n) {
    if (value_at(labels, n) < 0) continue;
    double mine = 0, theirs = 0;
    for (int64_t v = 0; v < x.cols(); ++v)
      mine += std::exp(value_at(x, n * x.cols() + v)), theirs += std::exp(value_at(y, n * x.cols() + v));
    for (int64_t v = 0; v < x.cols(); ++v)
      loss -= std::exp(value_at(y, n * x.cols() + v)) / theirs * (value_at(x, n * x.cols() + v) - std::log(mine));
  }
  return loss;
}

// oracle: kd.word
TEST(Distillation, ByWordItIsTheCrossEntropyWithTheTeacher) {
  const Taught taught("");
  const Tensor labels = kit::labels_for(taught.model, Taught::two());
  EXPECT_NEAR(value_at(taught.loss(Taught::two()).value(), 0),
              logit_loss(taught.model, taught.teacher, Taught::two(), labels) / 8, 1e-10);
  EXPECT_EQ(taught.objective->left_for_others(), 0);
  EXPECT_EQ(taught.own_parameters().count(), 0);
  taught.expect_gradients();
}

TEST(Distillation, ByWordOfSequencesAndTokens) {
  for (const char* more :
       {"architecture: encoder, head: classify, tie_word_embeddings: false",
        "architecture: encoder, head: tag, tie_word_embeddings: false", "architecture: encoder, head: mlm"}) {
    SCOPED_TRACE(more);
    Taught("loss: kl, temperature: 2, mixing: 0.5", more).expect_gradients();
  }
}

// oracle: kd.hidden
TEST(Distillation, RowsAreLearnedByAMap) {
  const Taught taught("mixing: 0, hidden_weight: 2");
  EXPECT_EQ(taught.objective->left_for_others(), 1);
  EXPECT_EQ(taught.own_parameters().count(), 2 * 6 * 8);
  double wanted = 0;
  for (int64_t layer = 0; layer < 2; ++layer) {  // 1 of 2 is 2 of 4, 2 is 4
    const auto rows = [&](const Model& m, int64_t l) {
      Pass pass;
      pass.want({Tap::Kind::rows, l});
      m.run({Taught::two().ids, Taught::two().sequences}, pass);
      return pass.get({Tap::Kind::rows, l});
    };
    const Tensor map = taught.own_parameters().all()[size_t(layer)].master.value();
    const Tensor x = linear(rows(taught.model, layer), Var(map)).value(),
                 y = rows(taught.teacher, 2 * layer + 1).value();
    for (int64_t i = 0; i < x.numel(); ++i) wanted += std::pow(value_at(x, i) - value_at(y, i), 2) / 8;
  }
  int64_t labelled = 0;
  const Tensor labels = kit::labels_for(taught.model, Taught::two());
  for (int64_t i = 0; i < 8; ++i) labelled += value_at(labels, i) >= 0;
  EXPECT_NEAR(value_at(taught.loss(Taught::two()).value(), 0), 2 * wanted * double(labelled) / 8, 1e-9);
  taught.expect_gradients();
}

TEST(Distillation, OfItselfThereIsNothingToLearn) {
  Taught same(
      "mixing: 0, hidden_weight: 1, relation_weight: 1, relations: [distance, gram, queries, values, queries_keys], "
      "relation_heads: 2",
      "", kSmall);
  for (Parameter& p : same.model.parameters().all()) p.assign(same.teacher.parameters().find(p.name)->master.value());
  EXPECT_EQ(same.own_parameters().count(), 0);
  EXPECT_NEAR(value_at(same.loss(Taught::two()).value(), 0), 0, 1e-12);
}

TEST(Distillation, Relations) {
  for (const char* relation : {"distance", "gram", "queries", "keys", "values", "queries_keys"})
    Taught(cat("mixing: 0, relation_weight: 3, relation_heads: 2, relations: [", relation, "]")).expect_gradients();
  Taught("mixing: 0.3, relation_weight: 1, relations: [angle, distance], relation_rows: tokens, relation_samples: 4")
      .expect_gradients();
}

// The product of a query with its key is that of its head, though several heads share a key.
TEST(Distillation, SharedKeysStandForEachHead) {
  const auto shared = [](std::string model) {
    const std::string heads = "num_attention_heads: 2";
    return model.replace(model.find(heads), heads.size(), heads + ", heads: mqa");
  };
  const std::string options = "mixing: 0, relation_weight: 3, relation_heads: 2, relations: [queries_keys]";
  Taught(options, "", kLarge, shared(kSmall)).expect_gradients();
  Taught same(options, "", shared(kSmall), shared(kSmall));
  for (Parameter& p : same.model.parameters().all()) p.assign(same.teacher.parameters().find(p.name)->master.value());
  EXPECT_NEAR(value_at(same.loss(Taught::two()).value(), 0), 0, 1e-12);
}

TEST(Distillation, ATeacherOfAnotherMixer) {
  const std::string state_space =
      "{vocab_size: 257, hidden_size: 6, num_hidden_layers: 2, max_position_embeddings: 16, position: none, mixer: "
      "{type: linear_attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 7}}";
  Taught("hidden_weight: 1, relation_weight: 1", "", kLarge, state_space).expect_gradients();
}

TEST(Distillation, ACacheKeepsTheLargestPredictions) {
  const kit::Scratch scratch;
  const std::string file = (scratch.path() / "cache.bin").string();
  const Taught plain("top_k: 9"), cached("top_k: 9, cache: " + file);
  const double wanted = value_at(plain.loss(Taught::two()).value(), 0);
  EXPECT_NEAR(value_at(cached.loss(Taught::two()).value(), 0), wanted, 1e-5);  // kept as f32
  const auto size = std::filesystem::file_size(file);
  const double first = value_at(cached.loss(Taught::two()).value(), 0);
  EXPECT_EQ(value_at(cached.loss(Taught::two()).value(), 0), first);
  EXPECT_EQ(std::filesystem::file_size(file), size);
  cached.expect_gradients();
}

// The teacher reads all rows, the student's compressor leaves some: each text has one row of classes of both.
TEST(Distillation, ShortenedTextsLearnTheirClasses) {
  std::string shorter = kSmall;
  shorter.insert(1, "layers: {whole: {}, fewer: {compressor: {type: select, rows: 2}}}, layer_types: [whole, fewer], ");
  const Taught taught("temperature: 2", "architecture: encoder, head: classify", kLarge, shorter);
  EXPECT_GT(value_at(taught.loss(Taught::two()).value(), 0), 0);
  taught.expect_gradients();
}

TEST(Distillation, ClassesInAnotherOrderAreRefused) {
  const kit::Scratch scratch;
  ModelConfig model = kit::model_config(kSmall, "architecture: encoder, head: classify");
  const Model teacher(model, {});
  model.label_names = {"good", "bad", "none"};
  save_config(model, scratch.path() / "config.json");
  save_weights(teacher, scratch.path() / "model.safetensors");
  const auto objective =
      make_objective({"distillation", parse_yaml("{teacher: " + scratch.path().string() + "}", "distillation")});
  const auto tokenizer = kit::pieces();
  const auto refused = [&](bool named) {
    return kit::error_of([&] {
      objective->prepare({.tokenizer = *tokenizer, .labels = {"bad", "good", "none"}, .learnt = false, .named = named},
                         model);
    });
  };
  EXPECT_NE(refused(true).find("are bad, good, none, and the teacher's are good, bad, none"), std::string::npos);
  EXPECT_EQ(refused(false), "no error");
}

TEST(Distillation, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& options, const std::string& more = "", const std::string& large = kLarge) {
    return kit::coded_error_of([&] { Taught(options, more, large).loss(Taught::two()); });
  };
  EXPECT_NE(refused("mixing: 0").find("nothing is learned"), std::string::npos);
  EXPECT_NE(refused("cache: x").find("give top_k"), std::string::npos);
  EXPECT_NE(refused("hidden_weight: 1, hidden_layers: ['3:1']").find("there are 2 layers"), std::string::npos);
  EXPECT_NE(refused("hidden_weight: 1, hidden_layers: ['3']").find("a colon"), std::string::npos);
  EXPECT_NE(refused("relation_weight: 1, relations: [size]").find("relations"), std::string::npos);
  EXPECT_NE(refused("relation_weight: 1, relations: [keys], relation_heads: 5").find("do not divide"),
            std::string::npos);
  EXPECT_NE(refused("", "head: span, architecture: encoder").find("has others"), std::string::npos);
  std::string other = kLarge;
  other.replace(other.find("257"), 3, "300");
  EXPECT_NE(refused("", "", other).find("predicts one of 257"), std::string::npos);
  ModelConfig model = kit::model_config(kSmall);
  const auto tokenizer = kit::pieces();
  EXPECT_NE(kit::coded_error_of([&] {
              kit::objective("distillation")->prepare({.tokenizer = *tokenizer}, model);
            }).find("needs a teacher"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
