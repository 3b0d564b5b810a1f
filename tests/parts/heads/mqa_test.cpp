#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// oracle: mixer.mqa
TEST(Mqa, EqualsMhaWithTheSameKeysAndValuesInEveryHead) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  AttentionBench mqa("mqa"), mha("mha");
  for (const char* name : {"heads.q.weight", "output.weight"}) kit::assign(mha[name], mqa[name]);
  for (const char* name : {"heads.k.weight", "heads.v.weight"})
    kit::assign(mha[name], kit::columns_of(mqa[name], {0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(kit::close(mqa(x), mha(x), 16), "");
}

TEST(Mqa, WithOneHeadIsMha) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  AttentionBench mqa("mqa", 6, 1), mha("mha", 6, 1);
  kit::copy_values(mha.bench.parameters(), mqa.bench.parameters());
  EXPECT_EQ(kit::bit_difference(mqa(x), mha(x)), "");
}

TEST(Mqa, CountsParametersAndState) {
  // d^2 + 2 d d_h + d^2, and 2 T d_h
  for (const auto& [d, h] : {std::pair<int64_t, int64_t>{6, 3}, {16, 4}, {15, 5}}) {
    AttentionBench mqa("mqa", d, h);
    EXPECT_EQ(mqa.parameters(), 2 * d * d + 2 * d * (d / h));
    EXPECT_EQ(mqa.mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * (d / h));
  }
}

// The gradient of the shared key map is the sum of what the heads would give it.
TEST(Mqa, SharedMapsGatherTheGradientsOfAllHeads) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1), dy = kit::normal({5, 6}, DType::f64, 3);
  AttentionBench mqa("mqa"), mha("mha");
  for (const char* name : {"heads.q.weight", "output.weight"}) kit::assign(mha[name], mqa[name]);
  for (const char* name : {"heads.k.weight", "heads.v.weight"})
    kit::assign(mha[name], kit::columns_of(mqa[name], {0, 1, 0, 1, 0, 1}));
  for (AttentionBench* a : {&mqa, &mha}) {
    Tape tape;
    tape.backward(a->mixer->forward({Var(x), Sequences::single(5), nullptr}), dy);
  }
  for (const char* name : {"part.heads.k.weight", "part.heads.v.weight"}) {
    const Tensor shared = mqa.bench.parameters().find(name)->master.grad(),
                 each = mha.bench.parameters().find(name)->master.grad();
    const Tensor total =
        kit::sum(kit::sum(kit::columns_of(each, {0, 1}), kit::columns_of(each, {2, 3})), kit::columns_of(each, {4, 5}));
    EXPECT_EQ(kit::close(shared, total, 32), "") << name;
  }
}

}  // namespace
}  // namespace lithe
