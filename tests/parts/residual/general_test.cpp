#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/parts/residual/residual_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

struct Block {
  explicit Block(const std::string& options, const std::string& type = "general",
                 const std::string& norm_options = "{}", int64_t layers = 0) {
    bench.context().layers = layers;
    norm = bench.make<Norm>("layer", {.hidden_size = kResidualWidth}, norm_options, "norm");
    part =
        bench.make<Residual>(type, {.hidden_size = kResidualWidth, .norm = norm.get(), .dropout = &dropout}, options);
  }
  Tensor operator()(const Tensor& x) const { return part->forward(Var(x), generic_branch).value(); }
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

// oracle: block.general_norm
TEST(GeneralNorm, IsPostNormOrThePrintedPreNormAtTheCorners) {
  EXPECT_EQ(kit::bit_difference(Block("{beta: 1, gamma: 0}")(residual_rows()), Block("{}", "post")(residual_rows())),
            "");
  EXPECT_EQ(
      kit::bit_difference(Block("{beta: 0, gamma: 1}")(residual_rows()), Block("{}", "res_post")(residual_rows())), "");
  EXPECT_GT(kit::largest_difference(Block("{beta: 0, gamma: 1}")(residual_rows()), Block("{}", "pre")(residual_rows())),
            0.1);
}

// oracle: block.general_norm
TEST(GeneralNorm, WithoutFTheNormIgnoresBeta) {
  const auto nothing = [](const Var& at, int64_t) { return scale(at, 0); };
  const auto of = [&](const std::string& options) {
    return Block(options, "general", "{eps: 0}").part->forward(Var(residual_rows()), nothing).value();
  };
  EXPECT_LE(kit::largest_difference(of("{beta: 0.3, gamma: 0.7}"), of("{beta: 5, gamma: 0.7}")), 1e-14);
}

// oracle: block.general_norm
TEST(GeneralNorm, LearnedFactorsStartWhereFixedOnesAre) {
  const Tensor fixed = Block("{beta: 0.4, gamma: 0.7}")(residual_rows());
  for (const auto& [learn, count] :
       {std::pair<std::string, int64_t>{"scalar", 2}, {"per_channel", 2 * kResidualWidth}}) {
    Block block("{beta: 0.4, gamma: 0.7, learn: " + learn + "}");
    EXPECT_EQ(block.bench.parameters().count(), count + 2 * kResidualWidth) << learn;
    EXPECT_LE(kit::largest_difference(block(residual_rows()), fixed), 1e-14) << learn;
  }
  // A gate without weights is one half everywhere.
  Block gate("{learn: gate}");
  EXPECT_EQ(gate.bench.parameters().count(),
            2 * (kResidualWidth * kResidualWidth + kResidualWidth) + 2 * kResidualWidth);
  for (const char* name : {"part.beta.weight", "part.gamma.weight"})
    kit::assign(gate.bench[name], std::vector<double>(kResidualWidth * kResidualWidth, 0));
  EXPECT_LE(kit::largest_difference(gate(residual_rows()), Block("{beta: 0.5, gamma: 0.5}")(residual_rows())), 1e-14);
}

// oracle: block.general_norm
TEST(GeneralNorm, DeepNormScalesTheInputByTheDepth) {
  EXPECT_EQ(kit::bit_difference(Block("{preset: deepnorm}", "general", "{}", 8)(residual_rows()),
                                Block("{beta: 2}")(residual_rows())),
            "");  // 16^(1/4)
  EXPECT_EQ(kit::coded_error_of([] { Block("{preset: deepnorm, beta: 2}"); }),
            "2 general: preset deepnorm sets beta, gamma and learn; leave them out, or the preset");
}

}  // namespace
}  // namespace lithe
