#include "lithe/ops/experts.h"

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

Tensor logits_of(std::vector<double> values) {
  const auto n = int64_t(values.size());
  return kit::tensor_f64({1, n}, values);
}

std::vector<double> gates_of(const Tensor& logits, int64_t chosen, bool renormalise) {
  const Routing routing = route(logits, chosen);
  const Tensor gates = expert_gates(Var(logits), routing, renormalise).value();
  std::vector<double> out(size_t(routing.experts), 0);
  for (size_t r = 0; r < routing.expert.size(); ++r) out[size_t(routing.expert[r])] = value_at(gates, int64_t(r));
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-7) << i;
}

// oracle: moe.topk
TEST(Experts, GatesAreThePrintedOnes) {
  const Tensor logits = logits_of({2, 1, 0});
  expect_near(gates_of(logits, 2, false), {0.665241, 0.244728, 0});
  expect_near(gates_of(logits, 2, true), {0.731059, 0.268941, 0});
  expect_near(gates_of(logits, 3, true), gates_of(logits, 3, false));
}

// oracle: moe.topk
TEST(Experts, RoutesToTheLargestLogitsAndTiesToTheLowerIndex) {
  const Routing routing = route(kit::tensor_f64({3, 4}, {1, 5, 5, 2, 7, 0, 0, 0, 3, 3, 3, 3}), 2);
  EXPECT_EQ(routing.offsets, (std::vector<int64_t>{0, 2, 5, 6, 6}));
  EXPECT_EQ(routing.token, (std::vector<int64_t>{1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(routing.expert, (std::vector<int64_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(routing.row, (std::vector<int64_t>{2, 5, 0, 3, 1, 4}));
  EXPECT_EQ(kit::error_of([] {
              route(kit::tensor_f64({1, 2}, {1, 2}), 3);
            }),
            "route: can choose 1 to 2 experts, not 3");
}

// oracle: moe.topk
TEST(Experts, LoadsThatAreEvenHaveTheLeastBalanceLoss) {
  const Tensor even = kit::tensor_f64({2, 2}, {1, 0, 0, 1});
  EXPECT_NEAR(value_at(balance_loss(Var(even), route(even, 1), 0.5).value(), 0), 0.5, 1e-12);
  const Tensor uneven = kit::tensor_f64({2, 2}, {1, 0, 1, 0});
  EXPECT_GT(value_at(balance_loss(Var(uneven), route(uneven, 1), 0.5).value(), 0), 0.7);
}

TEST(Experts, ARouterShowsItsLoadsAndItsEntropy) {
  // Softmax of (ln 3, 0): 3/4 and 1/4; of equal ones: even.
  const Tensor logits = kit::tensor_f64({4, 2}, {std::log(3.0), 0, 0, 0, 5, 5, 0, std::log(3.0)});
  const RouterStatistics seen = router_statistics(logits, route(logits, 1));
  EXPECT_EQ(seen.load, (std::vector<double>{0.75, 0.25}));  // ties go to the lower index
  const double unsure = std::log(2.0), surer = std::log(4.0) - 0.75 * std::log(3.0);
  EXPECT_NEAR(seen.entropy, (2 * unsure + 2 * surer) / 4, 1e-12);
  const Tensor sure = kit::tensor_f64({1, 2}, {2000, 0});
  EXPECT_EQ(router_statistics(sure, route(sure, 2)).entropy, 0);
  EXPECT_EQ(router_statistics(sure, route(sure, 2)).load, (std::vector<double>{0.5, 0.5}));
}

// oracle: moe.topk
TEST(Experts, GradientsOfGates) {
  const Tensor logits = kit::normal({5, 4}, DType::f64, 1);
  const Routing routing = route(logits, 2);
  for (const bool renormalise : {false, true})
    kit::expect_gradients([&](const std::vector<Var>& in) { return expert_gates(in[0], routing, renormalise); },
                          {logits});
  kit::expect_gradients([&](const std::vector<Var>& in) { return balance_loss(in[0], routing, 0.7); }, {logits});
  kit::expect_gradients([&](const std::vector<Var>& in) { return router_logits(in[0], in[1]); },
                        {kit::normal({5, 3}, DType::f64, 2), kit::normal({3, 4}, DType::f64, 3)});
}

const std::vector<int64_t> kOffsets{0, 2, 2, 5};

std::vector<LinearMap> maps_of(const std::vector<Var>& in) { return {{in[1], in[4]}, {in[2], in[5]}, {in[3], in[6]}}; }

std::vector<Tensor> grouped_inputs() {
  std::vector<Tensor> out{kit::normal({5, 3}, DType::f64, 1)};
  for (uint64_t g = 0; g < 3; ++g) out.push_back(kit::normal({3, 4}, DType::f64, 2 + g));
  for (uint64_t g = 0; g < 3; ++g) out.push_back(kit::normal({4}, DType::f64, 5 + g));
  return out;
}

// The rows of a group are those of its map alone; a group without rows has a zero gradient.
TEST(Experts, GroupedProductsAreThoseOfEachGroup) {
  const auto apart = [](const std::vector<Var>& in, auto&& rows) {
    const auto maps = maps_of(in);
    return concatenate_rows({linear(slice_rows(rows, 0, 2), maps[0].w, maps[0].bias),
                             linear(slice_rows(rows, 2, 2), maps[1].w, maps[1].bias),
                             linear(slice_rows(rows, 2, 5), maps[2].w, maps[2].bias)});
  };
  kit::expect_same([](const std::vector<Var>& in) { return grouped_linear(in[0], maps_of(in), kOffsets); },
                   [&](const std::vector<Var>& in) { return apart(in, in[0]); }, grouped_inputs(), 16);
  const auto kind = kernels::Activation::gelu;
  kit::expect_same(
      [&](const std::vector<Var>& in) { return grouped_activated_linear(kind, in[0], {}, maps_of(in), kOffsets); },
      [&](const std::vector<Var>& in) { return apart(in, activate(kind, in[0])); }, grouped_inputs(), 16);
  std::vector<Tensor> inputs = grouped_inputs();
  inputs.push_back(kit::normal({5, 3}, DType::f64, 9));
  kit::expect_same(
      [&](const std::vector<Var>& in) { return grouped_activated_linear(kind, in[0], in[7], maps_of(in), kOffsets); },
      [&](const std::vector<Var>& in) { return apart(in, gated(kind, in[0], in[7])); }, inputs, 16);
}

TEST(Experts, LowRankAdaptersOfAllAddTheirProducts) {
  std::vector<Tensor> inputs = grouped_inputs();
  for (uint64_t g = 0; g < 3; ++g) inputs.push_back(kit::normal({3, 2}, DType::f64, 11 + g));
  for (uint64_t g = 0; g < 3; ++g) inputs.push_back(kit::normal({2, 4}, DType::f64, 21 + g));
  const auto adapted = [](const std::vector<Var>& in, bool whole, size_t count = 3) {
    auto maps = maps_of(in);
    for (size_t g = 0; g < count; ++g)
      maps[g].w = whole ? add(maps[g].w, linear(in[7 + g], in[10 + g]), 1, 0.7)
                        : maps[g].w.with_low_rank(std::make_shared<const LowRank>(LowRank{in[7 + g], in[10 + g], 0.7}));
    return maps;
  };
  kit::expect_same([&](const std::vector<Var>& in) { return grouped_linear(in[0], adapted(in, false), kOffsets); },
                   [&](const std::vector<Var>& in) { return grouped_linear(in[0], adapted(in, true), kOffsets); },
                   inputs, 64);
  const auto kind = kernels::Activation::gelu;
  const auto activated = [&](const std::vector<Var>& in, bool whole) {
    return grouped_activated_linear(kind, in[0], {}, adapted(in, whole), kOffsets);
  };
  kit::expect_same([&](const std::vector<Var>& in) { return activated(in, false); },
                   [&](const std::vector<Var>& in) { return activated(in, true); }, inputs, 64);
  std::vector<Var> in;
  for (const Tensor& x : inputs) in.emplace_back(x);
  EXPECT_NE(kit::error_of([&] {
              grouped_linear(in[0], adapted(in, false, 2), kOffsets);
            }).find("adapters.targets names 2 of 3 experts"),
            std::string::npos);
}

TEST(Experts, CombiningAddsGatedRows) {
  const Tensor y = kit::tensor_f64({3, 2}, {1, 2, 3, 4, 5, 6}), gates = kit::tensor_f64({3, 1}, {2, 10, 0.5});
  const std::vector<std::vector<int64_t>> picks{{1, 0}, {-1, 2}};
  EXPECT_EQ(kit::bit_difference(combine_rows(Var(y), Var(gates), picks, {1, 0, 1}).value(),
                                kit::tensor_f64({2, 2}, {30, 40, 4.5, 7})),
            "");
  EXPECT_EQ(
      kit::bit_difference(combine_rows(Var(y), {}, picks, {1, 0, 1}).value(), kit::tensor_f64({2, 2}, {3, 4, 6, 8})),
      "");
  kit::expect_gradients(
      [&](const std::vector<Var>& in) {
        return combine_rows(in[0], in[1], picks, {1, 0, 1});
      },
      {y, gates});
}

}  // namespace
}  // namespace lithe
