#include <gtest/gtest.h>

#include <cmath>

#include "lithe/kernels/kernel.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kMoeWidth = 6;

struct MoeLayer {
  explicit MoeLayer(const std::string& options, const std::string& type = "moe")
      : part(bench.make<Ffn>(type, {.hidden_size = kMoeWidth}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Var forward(const Var& x, const Pass& pass = Pass::nowhere()) const {
    return part->forward({x, Sequences::single(x.rows()), nullptr, pass});
  }
  Tensor operator()(const Tensor& x) const { return forward(Var(x)).value(); }
  void copy(const std::string& from, const MoeLayer& other, const std::string& to) {
    for (Parameter& p : bench.parameters().all())
      if (p.name.starts_with(from)) copy_into(p.master.value(), other.bench_value(to + p.name.substr(from.size())));
  }
  Tensor bench_value(const std::string& name) const {
    return const_cast<kit::Bench&>(bench)[name];  // NOLINT: reading
  }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

const Tensor& moe_rows() {
  static const Tensor x = kit::normal({7, kMoeWidth}, DType::f64, 1);
  return x;
}

// oracle: moe.ffn
// oracle: moe.dense
TEST(MixtureOfExperts, OfOneExpertIsThatExpert) {
  MoeLayer one("{num_experts: 1, num_experts_per_tok: 1, moe_intermediate_size: 5}"),
      relu("{intermediate_size: 5}", "relu");
  one.copy("part.experts.0", relu, "part");
  EXPECT_LE(kit::largest_difference(one(moe_rows()), relu(moe_rows())), 1e-14);
}

// oracle: moe.dense
TEST(MixtureOfExperts, OfEqualExpertsIsThatExpertForAnyGates) {
  MoeLayer relu("{intermediate_size: 5}", "relu");
  for (const std::string chosen : {"0", "2"}) {
    MoeLayer moe("{num_experts: 4, moe_intermediate_size: 5, num_experts_per_tok: " + chosen + "}");
    for (int e = 0; e < 4; ++e) moe.copy(cat("part.experts.", e), relu, "part");
    EXPECT_LE(kit::largest_difference(moe(moe_rows()), relu(moe_rows())), 1e-13);
  }
}

// oracle: moe.dense
// oracle: moe.topk
TEST(MixtureOfExperts, ChoosingAllIsTheDenseMixtureInBothNormalisations) {
  const MoeLayer dense("{num_experts: 3, num_experts_per_tok: 0}"),
      all("{num_experts: 3, num_experts_per_tok: 3, norm_topk_prob: false}");
  EXPECT_LE(kit::largest_difference(dense(moe_rows()), all(moe_rows())), 1e-14);
}

// oracle: moe.ffn
TEST(MixtureOfExperts, OrderOfExpertsDoesNotMatter) {
  MoeLayer moe("{num_experts: 3, moe_intermediate_size: 4}"), other("{num_experts: 3, moe_intermediate_size: 4}");
  const std::vector<int64_t> order{2, 0, 1};
  kit::assign(other.bench["part.router.weight"], kit::columns_of(moe.bench["part.router.weight"], order));
  for (size_t e = 0; e < 3; ++e) other.copy(cat("part.experts.", e), moe, cat("part.experts.", order[e]));
  EXPECT_LE(kit::largest_difference(other(moe_rows()), moe(moe_rows())), 1e-14);
}

// oracle: moe.topk
TEST(MixtureOfExperts, ATokenDoesNotDependOnItsBatch) {
  const MoeLayer moe("{}");
  const Tensor all = moe(moe_rows());
  for (int64_t n = 0; n < 7; ++n)
    EXPECT_EQ(kit::bit_difference(moe(clone(moe_rows().slice(n, n + 1))), clone(all.slice(n, n + 1))), "");
}

// oracle: moe.topk
TEST(MixtureOfExperts, ExpertsThatReadNothingHaveZeroGradients) {
  MoeLayer moe("{num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 4}");
  Tensor router = moe.bench["part.router.weight"];
  for (int64_t d = 0; d < kMoeWidth; ++d) set_value(router, d * 3 + 1, 0);
  const Tensor x = clone(moe_rows());  // expert 1 has logit 0 and the others one above it each
  for (int64_t n = 0; n < 7; ++n) set_value(x, n * kMoeWidth, 50);
  set_value(router, 0, 5);
  set_value(router, 2, 5);
  Tape tape;
  const Var y = moe.forward(Var(x));
  tape.backward(y, kit::normal(y.shape(), DType::f64, 3));
  for (const Parameter& p : moe.bench.parameters().all()) {
    double size = 0;
    for (int64_t i = 0; i < p.master.grad().numel(); ++i) size += std::abs(value_at(p.master.grad(), i));
    EXPECT_EQ(size == 0, p.name.starts_with("part.experts.1")) << p.name;
  }
}

// oracle: moe.ffn
// oracle: moe.topk
TEST(MixtureOfExperts, ComputesTheChosenExpertsOnly) {
  const auto flops = [](int64_t experts, int64_t chosen) {
    kit::Bench bench(DType::f32, DType::f32, Device::meta);
    const auto part = bench.make<Ffn>(
        "moe", {.hidden_size = kMoeWidth},
        cat("{num_experts: ", experts, ", num_experts_per_tok: ", chosen, ", moe_intermediate_size: 8}"));
    const kernels::CostMeter meter;
    part->forward({Var(empty({10, kMoeWidth}, DType::f32, Device::meta)), Sequences::single(10, Device::meta)});
    double total = 0;
    for (const auto& entry : meter.entries())
      if (entry.kernel == "grouped_gemm" || entry.kernel == "gemm") total += entry.cost.flops;
    return total;
  };
  for (int64_t chosen : {2, 3})
    EXPECT_EQ(flops(8, chosen), 10.0 * (double(chosen) * 4 * kMoeWidth * 8 + 2 * kMoeWidth * 8));
}

// oracle: moe.ffn
TEST(MixtureOfExperts, CountsItsParameters) {
  const int64_t M = 3, d_e = 5;
  EXPECT_EQ(MoeLayer("{num_experts: 3, moe_intermediate_size: 5}").bench.parameters().count(),
            M * (2 * kMoeWidth * d_e + kMoeWidth + d_e) + kMoeWidth * M);
  EXPECT_EQ(MoeLayer("{num_experts: 3, moe_intermediate_size: 5, bias: false, num_shared_experts: 2}")
                .bench.parameters()
                .count(),
            (M + 2) * 2 * kMoeWidth * d_e + kMoeWidth * M);
  EXPECT_EQ(MoeLayer("{num_experts: 3, moe_intermediate_size: 5, bias: false, activation: swiglu}")
                .bench.parameters()
                .count(),
            M * 3 * kMoeWidth * d_e + kMoeWidth * M);
}

TEST(MixtureOfExperts, SharedExpertsReadEveryToken) {
  MoeLayer moe("{num_experts: 2, moe_intermediate_size: 4, num_shared_experts: 1}"),
      without("{num_experts: 2, moe_intermediate_size: 4}"), relu("{intermediate_size: 4}", "relu");
  without.copy("part", moe, "part");
  relu.copy("part", moe, "part.shared_experts.0");
  EXPECT_LE(kit::largest_difference(moe(moe_rows()), kit::sum(without(moe_rows()), relu(moe_rows()))), 1e-14);
}

TEST(MixtureOfExperts, BalanceIsALossWhileTrainingOnly) {
  const MoeLayer moe("{router_aux_loss_coef: 0.5}");
  const Pass pass, later;
  {
    const Tape tape;
    moe.forward(Var(moe_rows()), pass);
  }
  moe.forward(Var(moe_rows()), later);
  EXPECT_GE(value_at(pass.losses().at("router_balance").value(), 0), 0.4);
  EXPECT_TRUE(later.losses().empty());
}

TEST(MixtureOfExperts, RefusesWhatCannotBeChosenOrLearned) {
  EXPECT_EQ(kit::coded_error_of([] { MoeLayer("{num_experts: 2, num_experts_per_tok: 3}"); }),
            "2 moe: num_experts_per_tok is 3, but there are 2 experts; give at most that many, or 0 for all");
  EXPECT_EQ(kit::coded_error_of([] { MoeLayer("{num_experts_per_tok: 1}"); }),
            "2 moe: the weight of one expert among itself is always 1, so the router would learn nothing; set "
            "norm_topk_prob: false");
}

}  // namespace
}  // namespace lithe
