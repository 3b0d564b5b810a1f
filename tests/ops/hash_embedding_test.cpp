#include "lithe/ops/hash_embedding.h"

#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr int64_t kBits = 12, kSize = 4, kGroups = 3, kDim = 5;

Tensor codes_of(const std::vector<std::vector<int32_t>>& codes) {
  const Tensor out = empty({int64_t(codes.size()), int64_t(codes[0].size())}, DType::i32);
  int32_t* at = out.data<int32_t>();
  for (const auto& code : codes)
    for (int32_t word : code) *at++ = word;
  return out;
}

// Groups of 4 bits [10,4,1], [0,15,10], a special token, [10,4,1] again.
const Tensor& codes() {
  static const Tensor made =
      codes_of({{5, int32_t(0xa4100000)}, {5, int32_t(0x0fa00000)}, {2, 0}, {5, int32_t(0xa4100000)}});
  return made;
}

// The same from operations that exist without it: the rows of each group, times its weights.
Var composed(const Var& table, const Var& shares) {
  const int groups[kGroups][4] = {{10, 0, -1, 10}, {4, 15, -1, 4}, {1, 10, -1, 1}};
  Var out;
  for (int64_t j = 0; j < kGroups; ++j) {
    const Tensor ids = kit::ids_of({groups[j], groups[j] + 4});
    const Var rows = embed(table, ids, table.dtype(), 1, -1, MissingIds::no_row),
              part = row_affine(rows, reshape(slice_rows(shares, j, j + 1), {kDim}), {});
    out = out.defined() ? add(out, part) : part;
  }
  return out;
}

TEST(HashPool, MatchesItsComposition) {
  const Tensor table = kit::normal({16, kDim}, DType::f64, 1), shares = kit::normal({kGroups, kDim}, DType::f64, 2);
  const auto fused = [](const Vars& in) { return hash_pool(codes(), in[0], in[1], kBits, kSize); };
  kit::expect_same(
      fused, [](const Vars& in) { return composed(in[0], in[1]); }, {table, shares}, 16);
  kit::expect_same(
      fused, [](const Vars& in) { return composed(in[0], in[1]); },
      {convert(table, DType::f32), convert(shares, DType::f32)}, 16);
  kit::expect_gradients(fused, {table, shares});
}

TEST(MapColumns, Gradients) {
  const Tensor x = kit::normal({kGroups, kDim}, DType::f64, 3);
  for (const auto map : {kernels::ColumnMap::softmax, kernels::ColumnMap::standardize})
    kit::expect_gradients([&](const Vars& in) { return map_columns(map, in[0], DType::f64); }, {x});
}

TEST(Codes, GiveIds) {
  const Tensor codes = codes_of({{5, 7}, {0, 0}, {4, 0}, {5, 0}});
  EXPECT_EQ(kit::values(special_ids(codes)), (std::vector<double>{-1, 0, 4, -1}));
  EXPECT_EQ(kit::values(payload_ids("test", codes, 8, "bucket")), (std::vector<double>{7, -1, -1, 0}));
  EXPECT_EQ(kit::error_of([&] { payload_ids("test", codes, 7, "bucket"); }),
            "test: token 0 has bucket 7, outside 0 to 6");
  // (7 + 1) 31 mod 10 = 8, (7 + 1) 43 mod 10 = 4
  EXPECT_EQ(kit::values(code_point_ids(codes, 2, 10)), (std::vector<double>{8, 14, -1, -1, -1, -1, 1, 13}));
}

TEST(Codes, AreChecked) {
  EXPECT_EQ(kit::error_of([] {
              check_codes("test", kit::ids_of({5, 0}), 2);
            }),
            "test: codes must be i32 [N,2], got i32[2]");
  EXPECT_EQ(kit::error_of([] {
              check_codes("test", codes_of({{5, 0}, {-1, 0}}), 2);
            }),
            "test: code 1 begins with -1; it must be a special token, 0 to 4, or 5 for an ordinary one");
  EXPECT_EQ(kit::error_of([] {
              code_point_ids(codes_of({{5, 0}}), 17, 10);
            }),
            "code_point_ids: there are 1 to 16 hash functions over at least one bucket, got 17 over 10");
}

}  // namespace
}  // namespace lithe
