#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct MixedBranches {
  explicit MixedBranches(const std::string& options, const std::string& type = "branch_attention") {
    mixer = bench.make<Mixer>(type, {.hidden_size = 8, .max_position_embeddings = 16, .causal = false},
                              cat("{num_attention_heads: 2", options, "}"));
    kit::randomise(bench.parameters(), 5);
  }
  Var operator()(const Tensor& x) const {
    Pass pass;
    const Sequences one = Sequences::single(x.rows());
    for (const auto& [name, column] : kit::tree_columns(mixer->reads_columns(), one)) pass.give(name, column);
    return mixer->forward({Var(x), one, nullptr, pass});
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

const Tensor kX = kit::normal({7, 8}, DType::f64, 1);

double apart(const Tensor& a, const Tensor& b) { return kit::largest_difference(a, b); }

// oracle: syn.branch_attn
TEST(BranchAttention, TheEndsAreItsBranchesAndBetweenItIsLinear) {
  const Tensor plain = MixedBranches("", "attention")(kX).value(),
               syntax = MixedBranches(", field: tree", "attention")(kX).value();
  EXPECT_LT(apart(MixedBranches(", alpha: 1")(kX).value(), plain), 1e-12);
  EXPECT_LT(apart(MixedBranches(", alpha: 0")(kX).value(), syntax), 1e-12);
  const Tensor mixed = MixedBranches(", alpha: 0.3")(kX).value();
  for (int64_t i = 0; i < mixed.numel(); ++i)
    EXPECT_NEAR(value_at(mixed, i), 0.3 * value_at(plain, i) + 0.7 * value_at(syntax, i), 1e-12);
  // A mask that shows all: alpha does not matter.
  EXPECT_LT(apart(MixedBranches(", alpha: 0.3, syntax: {type: tree, max_distance: 20}")(kX).value(), plain), 1e-12);
}

// oracle: syn.branch_attn
TEST(BranchAttention, LearntSharesBeginAtAlphaAndCountTheirParameters) {
  MixedBranches fixed(", alpha: 0.3"), scalar(", alpha: 0.3, learn: scalar"), token(", alpha: 0.3, learn: per_token"),
      apart_ones(", share: false");
  EXPECT_EQ(fixed.bench.parameters().count(), 4 * 64);
  EXPECT_EQ(scalar.bench.parameters().count(), 4 * 64 + 1);
  EXPECT_EQ(token.bench.parameters().count(), 4 * 64 + 8 + 1);
  EXPECT_EQ(apart_ones.bench.parameters().count(), 8 * 64);
  for (MixedBranches* learnt : {&scalar, &token}) {
    kit::copy_values(learnt->bench.parameters(), fixed.bench.parameters());
    for (Parameter& p : learnt->bench.parameters().all())
      if (p.name == "part.alpha" || p.name.starts_with("part.gate"))
        for (int64_t i = 0; i < p.master.value().numel(); ++i) set_value(p.master.value(), i, 0);
    EXPECT_LT(apart((*learnt)(kX).value(), fixed(kX).value()), 1e-12);
  }
  // The derivative by alpha is the difference of the branches.
  const Tensor plain = MixedBranches(", alpha: 1")(kX).value(), syntax = MixedBranches(", alpha: 0")(kX).value(),
               dy = kit::normal({7, 8}, DType::f64, 3);
  double want = 0;
  for (int64_t i = 0; i < dy.numel(); ++i) want += value_at(dy, i) * (value_at(plain, i) - value_at(syntax, i));
  Tape tape;
  tape.backward(scalar(kX), dy);
  EXPECT_NEAR(value_at(scalar.bench.parameters().find("part.alpha")->master.grad(), 0), want * 0.3 * 0.7, 1e-10);
}

// oracle: syn.branch_attn
TEST(BranchAttention, CausalBranchesMixAndDecodeAlike) {
  for (const char* options :
       {"", ", share: false", ", syntax: {type: tree, weight: exp, apply: add}, learn: per_token"}) {
    kit::Bench bench;
    const auto mixer =
        bench.make<Mixer>("branch_attention", {.hidden_size = 8, .max_position_embeddings = 16, .causal = true},
                          cat("{num_attention_heads: 2, alpha: 0.3", options, "}"));
    kit::randomise(bench.parameters(), 5);
    const auto run = [&](const Tensor& x, const Sequences& of, State* state) {
      Pass pass;
      for (const auto& [name, column] : kit::tree_columns(mixer->reads_columns(), of)) pass.give(name, column);
      return mixer->forward({Var(x), of, state, pass}).value();
    };
    const NoGrad no_grad;
    const Tensor whole = run(kX, Sequences::single(7), nullptr);
    const auto state = mixer->make_state({1, 16, DType::f64, Device::cpu});
    std::vector<Tensor> rows{run(clone(kX.slice(0, 3)), Sequences::single(3), state.get())};
    for (int64_t i = 3; i < 7; ++i) rows.push_back(run(clone(kX.slice(i, i + 1)), Sequences({0, 1}, {i}), state.get()));
    EXPECT_LT(apart(kit::concatenate(rows), whole), 1e-12) << options;
    EXPECT_EQ(state->bytes(), mixer->state_bytes({7}, DType::f64)) << options;
  }
}

TEST(BranchAttention, RefusesWhatItCannotMix) {
  EXPECT_THROW(MixedBranches(", attention_dropout: 0.1"), Error);
  EXPECT_THROW(MixedBranches(", learn: scalar, alpha: 1"), Error);
  kit::Bench bench;
  EXPECT_THROW(bench.make<Mixer>("branch_attention", {.hidden_size = 8, .max_position_embeddings = 16, .causal = true},
                                 "{num_attention_heads: 2, field: tree}"),
               Error);
}

}  // namespace
}  // namespace lithe
