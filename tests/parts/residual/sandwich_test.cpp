#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Sandwich {
  Sandwich()
      : norm(bench.make<Norm>("rms", {.hidden_size = 2}, "{eps: 0}", "norm")),
        part(bench.make<Residual>("sandwich", {.hidden_size = 2, .norm = norm.get(), .dropout = &dropout},
                                  "{norm: {type: rms, eps: 0}}")) {}
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

TEST(SandwichResidual, NormsWhatFReadsAndWhatItGives) {
  Sandwich sandwich;
  kit::assign(sandwich.bench["part.norm.weight"], {2, 10});
  // norm(3, 4) = (3, 4) / sqrt(12.5); F adds nothing but a factor, which the second norm takes out again.
  const Var y = sandwich.part->forward(Var(kit::tensor_f64({1, 2}, {3, 4})), [](const Var& x, int64_t) {
    EXPECT_EQ(kit::close_to_printed(x.value(), {0.848528137, 1.131370850}, 8), "");
    return scale(x, 5);
  });
  EXPECT_EQ(kit::close_to_printed(y.value(), {3 + 2 * 0.848528137, 4 + 10 * 1.131370850}, 8), "");
  EXPECT_TRUE(sandwich.part->final_norm());
  EXPECT_EQ(sandwich.bench.parameters().count(), 4);
}

TEST(SandwichResidual, AModelHasOneNormMoreForEachSubLayer) {
  const std::string base =
      "{vocab_size: 7, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 6, position: none}";
  Model pre(kit::model_config(base), {}), sandwich(kit::model_config(base, "residual: sandwich"), {});
  EXPECT_EQ(sandwich.parameters().count() - pre.parameters().count(), 2 * 2 * 8);
  EXPECT_TRUE(sandwich.parameters().find("layers.1.ffn_residual.norm.weight"));
}

}  // namespace
}  // namespace lithe
