#include "lithe/compress/exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/compress/densify.h"
#include "lithe/model/safetensors.h"
#include "tests/compress/compress_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

struct Trained {
  explicit Trained(const std::string& more = "") : config(kit::model_config(kSmall, more)) {
    Model model(config, {});
    kit::randomise(model.parameters(), 3);
    for (const Parameter& p : model.parameters().all()) parameters[p.name] = p.master.value();
  }
  ModelConfig config;
  std::map<std::string, Tensor> parameters;
};

// The result with its weights, as a file has them.
struct Made : Exchanged {
  std::map<std::string, Tensor> parameters;
};

Made exchanged(const ModelConfig& config, const std::map<std::string, Tensor>& parameters,
               const std::vector<std::string>& set, uint64_t seed = 1, const Tensor& ids = {}) {
  std::map<std::string, PendingTensor> all;
  for (const auto& [name, value] : parameters) all[name] = pending(value);
  Made out{exchange_parts(config, all, set, seed, ids), {}};
  const kit::Scratch scratch;
  write_exchanged(out, scratch.path() / "model.safetensors");
  const SafetensorsFile file(scratch.path() / "model.safetensors");
  for (const auto& [name, entry] : file.entries())
    file.read(name, out.parameters[name] = empty(entry.shape, entry.dtype));
  return out;
}

int64_t count(const Exchanged& e) { return e.parameters_kept + e.parameters_fitted + e.parameters_initialised; }

TEST(Exchange, NothingChangedKeepsEverything) {
  const Trained trained;
  const Made e = exchanged(trained.config, trained.parameters, {"model.mixer.output.type=dense"});
  EXPECT_EQ(e.kept.size(), trained.parameters.size());
  EXPECT_TRUE(e.fitted.empty() && e.initialised.empty() && e.left.empty());
}

TEST(Exchange, HeadsThatMergeOthersAreTheirMean) {
  const Trained trained;
  const Made e =
      exchanged(trained.config, trained.parameters, {"model.mixer.heads={type: gqa, num_key_value_heads: 2}"});
  EXPECT_EQ(e.fitted.size(), 4u);  // keys and values of two layers
  EXPECT_EQ(e.kept.size(), trained.parameters.size() - 4);
  const Tensor &before = trained.parameters.at("layers.1.mixer.heads.k.weight"),
               &after = e.parameters.at("layers.1.mixer.heads.k.weight");
  EXPECT_EQ(after.shape(), (Shape{16, 8}));
  // Row 2, head 1, channel 3: heads 2 and 3 of the old ones.
  EXPECT_NEAR(value_at(after, 2 * 8 + 7), (value_at(before, 2 * 16 + 11) + value_at(before, 2 * 16 + 15)) / 2, 1e-7);
  // And back: each head stands twice, so that the function is the merged one's.
  const Made back = exchanged(e.config, e.parameters, {"model.mixer.heads=mha"});
  const kit::Batch batch = kit::random_batch({6}, 11, 4);
  const NoGrad no_grad;
  const auto run = [&](const ModelConfig& config, const std::map<std::string, Tensor>& parameters) {
    return kit::forward(*exact_model(config, parameters), batch.ids, batch.sequences).value();
  };
  EXPECT_EQ(kit::close(run(back.config, back.parameters), run(e.config, e.parameters), 1000), "");
}

// A Hadamard output that was folded into a matrix is found again exactly: least squares of what fits has no error.
TEST(Exchange, AHadamardOutputIsFoundInItsMatrix) {
  const Trained trained("mixer: {type: attention, num_attention_heads: 4, output: hadamard}");
  const Densified d = densify(trained.config, trained.parameters);
  const Made e = exchanged(d.config, d.parameters, {"model.mixer.output.type=hadamard"});
  EXPECT_EQ(e.fitted.size(), 4u);
  EXPECT_EQ(e.left.size(), 4u);  // the matrices and biases of two layers
  for (const char* name : {"layers.0.mixer.output.alpha", "layers.1.mixer.output.beta"})
    EXPECT_EQ(kit::close(e.parameters.at(name), trained.parameters.at(name), 64), "") << name;
}

TEST(Exchange, SeedsAndEmbeddingsAreFoundInTheHeadsTheyMade) {
  const Trained trained("mixer: {type: attention, num_attention_heads: 4, heads: mhe_mul}");
  const Densified d = densify(trained.config, trained.parameters);
  const Made e = exchanged(d.config, d.parameters, {"model.mixer.heads=mhe_mul", "model.mixer.attention_bias=false"});
  // Up to one factor a channel, which seed and embeddings share out between them.
  const Densified again = densify(e.config, e.parameters);
  for (const char* map : {"q", "k", "v"})
    EXPECT_EQ(kit::close(again.parameters.at(cat("layers.0.mixer.heads.", map, ".weight")),
                         d.parameters.at(cat("layers.0.mixer.heads.", map, ".weight")), 256),
              "")
        << map;
}

// How far the predictions are from the old model's, of tokens that no fit has seen: mean Kullback-Leibler divergence.
double divergence(const Trained& old, const Made& e) {
  const NoGrad no_grad;
  const kit::Batch batch = kit::random_batch({20, 20, 20, 20}, 11, 77);
  const auto predictions = [&](const ModelConfig& config, const std::map<std::string, Tensor>& parameters) {
    const auto model = exact_model(config, parameters);
    return kit::logits(*model, batch.ids, batch.sequences).value();
  };
  const Tensor was = predictions(old.config, old.parameters), is = predictions(e.config, e.parameters);
  double sum = 0;
  for (int64_t i = 0; i < was.rows(); ++i) {
    double of_was = 0, of_is = 0;
    for (int64_t c = 0; c < 11; ++c)
      of_was += std::exp(value_at(was, i * 11 + c)), of_is += std::exp(value_at(is, i * 11 + c));
    for (int64_t c = 0; c < 11; ++c) {
      const double x = value_at(was, i * 11 + c), y = value_at(is, i * 11 + c);
      sum += std::exp(x) / of_was * ((x - std::log(of_was)) - (y - std::log(of_is)));
    }
  }
  return sum / double(was.rows());
}

struct Exchanging {
  std::string name, more;
  std::vector<std::string> set;
};
class FitToText : public testing::TestWithParam<Exchanging> {};

TEST_P(FitToText, BringsPredictionsNearerRightAfterTheExchange) {
  const Trained trained(GetParam().more);
  const Tensor ids = kit::random_batch({600}, 11, 5).ids;
  const Made plain = exchanged(trained.config, trained.parameters, GetParam().set),
             fit = exchanged(trained.config, trained.parameters, GetParam().set, 1, ids);
  EXPECT_LT(divergence(trained, fit), divergence(trained, plain));
  EXPECT_EQ(count(fit), count(plain));
}

const std::vector<Exchanging> kExchanges{
    {"hadamard", "", {"model.mixer.output.type=hadamard"}},
    {"gqa", "", {"model.mixer.heads={type: gqa, num_key_value_heads: 2}"}},
    {"mqa", "", {"model.mixer.heads.type=mqa"}},
    {"mhe_mul", "", {"model.mixer.heads.type=mhe_mul"}},
    {"mhe_add", "", {"model.mixer.heads.type=mhe_add"}},
    {"mhe_mul_of_gqa",
     "mixer: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}, attention_bias: "
     "true, output_bias: true}",
     {"model.mixer.heads.type=mhe_mul"}},
    {"mhe_add_with_hadamard",
     "mixer: {type: attention, num_attention_heads: 4, attention_bias: true}",
     {"model.mixer.heads.type=mhe_add", "model.mixer.output.type=hadamard"}}};
INSTANTIATE_TEST_SUITE_P(, FitToText, testing::ValuesIn(kExchanges), [](const auto& info) { return info.param.name; });

// Where every head sees a token alone, values take over what the matrix did: all but the hundredth that they are drawn
// back. Heads that share values take over less.
TEST(Exchange, ValuesDoWhatTheFixedMatrixCannot) {
  const std::pair<const char*, double> cases[] = {{"mha", 0.01}, {"{type: gqa, num_key_value_heads: 2}", 0.8}};
  const std::vector<std::string> set{"model.mixer.output.type=hadamard"};
  for (const auto& [heads, most] : cases) {
    const Trained trained(cat("mixer: {type: attention, num_attention_heads: 4, field: {type: local, window: 1}, ",
                              "heads: ", heads, ", attention_bias: true, output_bias: true}"));
    const Tensor ids = kit::random_batch({600}, 11, 5).ids;
    const Made plain = exchanged(trained.config, trained.parameters, set),
               fit = exchanged(trained.config, trained.parameters, set, 1, ids);
    EXPECT_LT(divergence(trained, fit), most * divergence(trained, plain)) << heads;
    EXPECT_EQ(fit.fitted.size(), 6u) << heads;  // values, scales and shifts of two layers
    EXPECT_EQ(count(fit), count(plain));
  }
}

// What the new parts can say exactly is found: the fit of a Hadamard output, and seeds of heads that had one.
TEST(Exchange, AFitToTextFindsWhatIsExact) {
  const Trained trained("mixer: {type: attention, num_attention_heads: 4, heads: mhe_mul, output: hadamard}");
  const Densified d = densify(trained.config, trained.parameters);
  const Tensor ids = kit::random_batch({600}, 11, 5).ids;
  const Made e = exchanged(
      d.config, d.parameters,
      {"model.mixer.heads=mhe_mul", "model.mixer.attention_bias=false", "model.mixer.output.type=hadamard"}, 1, ids);
  const kit::Batch batch = kit::random_batch({6}, 11, 4);
  const NoGrad no_grad;
  const Tensor was = kit::forward(*exact_model(trained.config, trained.parameters), batch.ids, batch.sequences).value(),
               is = kit::forward(*exact_model(e.config, e.parameters), batch.ids, batch.sequences).value();
  double most = 0, apart = 0;
  for (int64_t i = 0; i < was.numel(); ++i) {
    most = std::max(most, std::abs(value_at(was, i)));
    apart = std::max(apart, std::abs(value_at(was, i) - value_at(is, i)));
  }
  EXPECT_LT(apart, 1e-4 * most);  // sums of 600 rows in f32
}

// A layer whose mixer stays as it was keeps its weights whatever the text says.
TEST(Exchange, AFitToTextLeavesOtherLayersAlone) {
  const Trained trained;
  const Tensor ids = kit::random_batch({100}, 11, 5).ids;
  const Made e = exchanged(trained.config, trained.parameters,
                           {"model.ffn.type=gelu", "model.mixer.field={type: local, window: 3}"}, 1, ids);
  EXPECT_TRUE(e.fitted.empty());
  EXPECT_EQ(kit::bit_difference(e.parameters.at("layers.0.mixer.output.weight"),
                                trained.parameters.at("layers.0.mixer.output.weight")),
            "");
}

TEST(Exchange, OtherPartsBeginAnewAndAreListed) {
  const Trained trained;
  const Made e = exchanged(trained.config, trained.parameters, {"model.ffn.type=gelu", "model.norm=layer"});
  EXPECT_EQ(e.left.size(), 2u * 3);             // gate, up and down of the old width
  EXPECT_EQ(e.initialised.size(), 2u * 4 + 5);  // up, down and their biases; biases of the norms
  EXPECT_EQ(kit::bit_difference(e.parameters.at("embedding.weight"), trained.parameters.at("embedding.weight")), "");
  Model made(e.config, {});
  EXPECT_EQ(count(e), made.parameters().count());
}

TEST(Exchange, WrongOverridesAreRefused) {
  const Trained trained;
  const auto error = [&](const std::string& set) {
    return kit::coded_error_of([&] { exchanged(trained.config, trained.parameters, {set}); });
  };
  EXPECT_NE(error("train.seed=1").find("must be model.KEY=VALUE"), std::string::npos);
  EXPECT_NE(error("model.mixer.output.type=hadamrd").find("hadamard"), std::string::npos);
  EXPECT_NE(error("model.mixer.outputs=1").find("outputs"), std::string::npos);
}

}  // namespace
}  // namespace lithe
