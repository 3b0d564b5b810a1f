#include "lithe/ops/hard_concrete.h"

#include "lithe/base/random.h"
#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

// oracle: prune.gates
TEST(HardConcrete, PublishedNumbers) {
  const HardConcrete form;
  for (const auto& [log_alpha, gate, open] :
       {std::tuple(0.0, 0.5, 0.831822), {2.0, 0.956956, 0.973367}, {-2.0, 0.043044, 0.400975}}) {
    EXPECT_NEAR(form.at_test(log_alpha), gate, 1e-6);
    EXPECT_NEAR(form.probability(log_alpha), open, 1e-6);
    const RandomKey key{.seed = 3, .purpose = purpose_of("test")};
    int64_t seen = 0;
    constexpr int64_t kDraws = 200000;
    for (int64_t i = 0; i < kDraws; ++i) seen += form.sampled(log_alpha, random_uniform(key, uint64_t(i))) > 0;
    EXPECT_NEAR(double(seen) / kDraws, open, 0.005);
  }
}

TEST(HardConcrete, Gradients) {
  const HardConcrete form;
  const Tensor log_alpha = kit::tensor_f64({4}, {0.3, -1, 2, 0.1}), w = random({3, 4}, 2);
  const std::vector<double> u{0.4, 0.7, 0.2, 0.55};
  const Tensor units = kit::ids_of({0, 0, 0, -1, 1, 1, 2, 2, 3, 3, 3, -1});
  kit::expect_gradients([&](const Vars& in) { return hard_concrete(form, in[0], u); }, {log_alpha});
  kit::expect_gradients([&](const Vars& in) { return hard_concrete(form, in[0], {}); }, {log_alpha});
  kit::expect_gradients([&](const Vars& in) { return gate_penalty(form, in[0], 0.7); }, {log_alpha});
  kit::expect_gradients([&](const Vars& in) { return gate_elements(in[0], in[1], units); }, {w, random({4}, 3)});
  EXPECT_NEAR(value_at(gate_penalty(form, Var(kit::tensor_f64({2}, {0, 2})), 2).value(), 0), 2 * (0.831822 + 0.973367),
              1e-5);
}

}  // namespace
}  // namespace lithe
