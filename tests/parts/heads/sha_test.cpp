#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// oracle: mixer.sha
TEST(Sha, CountsParametersAndState) {
  // 3 d d_h + d^2; 8,847,360 in 12 layers of d = 768 with 12 heads; the cache keeps 2 T d_h.
  EXPECT_EQ(AttentionBench("sha", 768, 12).parameters(), 737'280);
  EXPECT_EQ(12 * AttentionBench("sha", 768, 12).parameters(), 8'847'360);
  EXPECT_EQ(18 * AttentionBench("sha", 512, 8).parameters(), 6'488'064);
  EXPECT_EQ(AttentionBench("{type: sha, output: narrow}", 768, 12).parameters(), 3 * 768 * 64 + 64 * 768);
  EXPECT_EQ(AttentionBench("sha").mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * kit::kBenchHeadDim);
}

TEST(Sha, TilesAreOneHeadThroughTheSumOfBlocks) {
  AttentionBench tile("sha"), narrow("{type: sha, output: narrow}");
  for (const char* name : {"heads.q.weight", "heads.k.weight", "heads.v.weight"}) kit::assign(narrow[name], tile[name]);
  Tensor blocks = zeros({kit::kBenchHeadDim, kit::kBenchWidth}, DType::f64);
  for (int64_t head = 0; head < kit::kBenchHeads; ++head)
    blocks = kit::sum(blocks,
                      clone(tile["output.weight"].slice(head * kit::kBenchHeadDim, (head + 1) * kit::kBenchHeadDim)));
  kit::assign(narrow["output.weight"], blocks);
  const Tensor x = kit::normal({5, kit::kBenchWidth}, DType::f64, 1);
  EXPECT_EQ(kit::close(tile(x), narrow(x), 16), "");
}

TEST(Sha, IsMhaWhoseHeadsAreAllAlike) {
  for (bool rotary : {false, true}) {
    AttentionBench sha("sha", kit::kBenchWidth, kit::kBenchHeads, "", rotary),
        mha("mha", kit::kBenchWidth, kit::kBenchHeads, "", rotary);
    for (const char* name : {"heads.q.weight", "heads.k.weight", "heads.v.weight"})
      kit::assign(mha[name], kit::columns_of(sha[name], {0, 1, 0, 1, 0, 1}));
    kit::assign(mha["output.weight"], sha["output.weight"]);
    const Tensor x = kit::normal({5, kit::kBenchWidth}, DType::f64, 1);
    EXPECT_EQ(kit::close(sha(x), mha(x), 16), "") << rotary;
  }
}

TEST(Sha, IsMheWithoutEmbeddings) {
  AttentionBench sha("sha");
  const Tensor x = kit::normal({5, kit::kBenchWidth}, DType::f64, 1);
  for (const char* kind : {"mhe_add", "mhe_mul"}) {
    AttentionBench mhe(kind);
    for (const Parameter& p : mhe.bench.parameters().all()) {
      if (p.name.ends_with("head_embedding"))
        kit::assign(p.master.value(), std::vector<double>(size_t(kit::kBenchWidth), 0));
      else
        kit::assign(p.master.value(), sha.bench[p.name]);
    }
    EXPECT_EQ(kit::close(mhe(x), sha(x), 8), "") << kind;
  }
}

}  // namespace
}  // namespace lithe
