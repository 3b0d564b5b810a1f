#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Attention {
  explicit Attention(const std::string& heads, int64_t d = 6, int64_t h = 3)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = d, .max_position_embeddings = 9}, cat("{num_attention_heads: ", h, ", heads: ", heads, "}"))) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const { return mixer->forward(Var(x), Sequences::single(x.rows()), nullptr).value(); }
  Tensor operator[](const std::string& name) { return bench["part." + name + ".weight"]; }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: mixer.mqa
TEST(Mqa, EqualsMhaWithTheSameKeysAndValuesInEveryHead) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  Attention mqa("mqa"), mha("mha");
  for (const char* name : {"heads.q", "output"}) kit::assign(mha[name], mqa[name]);
  for (const char* name : {"heads.k", "heads.v"}) kit::assign(mha[name], kit::columns_of(mqa[name], {0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(kit::close(mqa(x), mha(x), 16), "");
}

TEST(Mqa, WithOneHeadIsMha) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  Attention mqa("mqa", 6, 1), mha("mha", 6, 1);
  kit::copy_values(mha.bench.parameters(), mqa.bench.parameters());
  EXPECT_EQ(kit::bit_difference(mqa(x), mha(x)), "");
}

TEST(Mqa, CountsParametersAndState) {
  // d^2 + 2 d d_h + d^2, and 2 T d_h
  for (const auto& [d, h] : {std::pair<int64_t, int64_t>{6, 3}, {16, 4}, {15, 5}}) {
    Attention mqa("mqa", d, h);
    EXPECT_EQ(mqa.bench.parameters().count(), 2 * d * d + 2 * d * (d / h));
    EXPECT_EQ(mqa.mixer->state_scalars(10), 2 * 10 * (d / h));
  }
}

// The gradient of the shared key map is the sum of what the heads would give it.
TEST(Mqa, SharedMapsGatherTheGradientsOfAllHeads) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1), dy = kit::normal({5, 6}, DType::f64, 3);
  Attention mqa("mqa"), mha("mha");
  for (const char* name : {"heads.q", "output"}) kit::assign(mha[name], mqa[name]);
  for (const char* name : {"heads.k", "heads.v"}) kit::assign(mha[name], kit::columns_of(mqa[name], {0, 1, 0, 1, 0, 1}));
  for (Attention* a : {&mqa, &mha}) {
    Tape tape;
    tape.backward(a->mixer->forward(Var(x), Sequences::single(5), nullptr), dy);
  }
  for (const char* name : {"part.heads.k.weight", "part.heads.v.weight"}) {
    const Tensor shared = mqa.bench.parameters().find(name)->master.grad(), each = mha.bench.parameters().find(name)->master.grad();
    const Tensor total = kit::sum(kit::sum(kit::columns_of(each, {0, 1}), kit::columns_of(each, {2, 3})), kit::columns_of(each, {4, 5}));
    EXPECT_EQ(kit::close(shared, total, 32), "") << name;
  }
}

}  // namespace
}  // namespace lithe
