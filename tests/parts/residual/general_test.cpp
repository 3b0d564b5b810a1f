#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 5;

struct Block {
  explicit Block(const std::string& options, const std::string& type = "general",
                 const std::string& norm_options = "{}", int64_t layers = 0) {
    bench.context().layers = layers;
    norm = bench.make<Norm>("layer", {.hidden_size = D}, norm_options, "norm");
    part = bench.make<Residual>(type, {.hidden_size = D, .norm = norm.get(), .dropout = &dropout}, options);
  }
  Tensor operator()(const Tensor& x) const {
    return part
        ->forward(Var(x),
                  [](const Var& at, int64_t) {
                    return activate(kernels::Activation::silu, linear(at, Var(kit::normal({D, D}, DType::f64, 8))));
                  })
        .value();
  }
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

const Tensor& input() {
  static const Tensor x = kit::normal({3, D}, DType::f64, 1);
  return x;
}

// oracle: block.general_norm
TEST(GeneralNorm, IsPostNormOrThePrintedPreNormAtTheCorners) {
  EXPECT_EQ(kit::bit_difference(Block("{beta: 1, gamma: 0}")(input()), Block("{}", "post")(input())), "");
  EXPECT_EQ(kit::bit_difference(Block("{beta: 0, gamma: 1}")(input()), Block("{}", "res_post")(input())), "");
  EXPECT_GT(kit::largest_difference(Block("{beta: 0, gamma: 1}")(input()), Block("{}", "pre")(input())), 0.1);
}

// oracle: block.general_norm
TEST(GeneralNorm, WithoutFTheNormIgnoresBeta) {
  const auto nothing = [](const Var& at, int64_t) { return scale(at, 0); };
  const auto of = [&](const std::string& options) {
    return Block(options, "general", "{eps: 0}").part->forward(Var(input()), nothing).value();
  };
  EXPECT_LE(kit::largest_difference(of("{beta: 0.3, gamma: 0.7}"), of("{beta: 5, gamma: 0.7}")), 1e-14);
}

// oracle: block.general_norm
TEST(GeneralNorm, LearnedFactorsStartWhereFixedOnesAre) {
  const Tensor fixed = Block("{beta: 0.4, gamma: 0.7}")(input());
  for (const auto& [learn, count] : {std::pair<std::string, int64_t>{"scalar", 2}, {"per_channel", 2 * D}}) {
    Block block("{beta: 0.4, gamma: 0.7, learn: " + learn + "}");
    EXPECT_EQ(block.bench.parameters().count(), count + 2 * D) << learn;
    EXPECT_LE(kit::largest_difference(block(input()), fixed), 1e-14) << learn;
  }
  // A gate without weights is one half everywhere.
  Block gate("{learn: gate}");
  EXPECT_EQ(gate.bench.parameters().count(), 2 * (D * D + D) + 2 * D);
  for (const char* name : {"part.beta.weight", "part.gamma.weight"})
    kit::assign(gate.bench[name], std::vector<double>(D * D, 0));
  EXPECT_LE(kit::largest_difference(gate(input()), Block("{beta: 0.5, gamma: 0.5}")(input())), 1e-14);
}

// oracle: block.general_norm
TEST(GeneralNorm, DeepNormScalesTheInputByTheDepth) {
  EXPECT_EQ(kit::bit_difference(Block("{preset: deepnorm}", "general", "{}", 8)(input()), Block("{beta: 2}")(input())),
            "");  // 16^(1/4)
  EXPECT_EQ(kit::coded_error_of([] { Block("{preset: deepnorm, beta: 2}"); }),
            "2 general: preset deepnorm sets beta, gamma and learn; leave them out, or the preset");
}

}  // namespace
}  // namespace lithe
