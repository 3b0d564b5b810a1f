// Heads with masks of their own, tiles, and biases by distance.
#include <cstring>

#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {
namespace {

const std::vector<AttentionMask> kMixed{{.causal = true, .window = 3},  {.causal = true},
                                        {.causal = true, .window = 37}, {.causal = true, .window = 1},
                                        {.causal = true, .window = 64}, {.causal = true, .window = 65}};

// oracle: attn.local_window
TEST(AttentionPattern, HeadsWithMasksOfTheirOwnOnEveryInstructionSet) {
  for (Isa isa : usable_sets()) {
    const WithIsa limit(isa);
    for (DType dtype : {DType::f32, DType::bf16}) {
      expect_forward_right({.dtype = dtype,
                            .segments = {{70, 70}, {1, 1}, {33, 64}, {5, 130}, {150, 150}},
                            .heads = 6,
                            .kv_heads = 3,
                            .head_dim = 24,
                            .value_dim = 40,
                            .head_masks = kMixed});
      for (const int64_t page : {0, 64})
        expect_forward_right({.dtype = dtype,
                              .segments = {{1, 300}, {2, 7}, {1, 1}, {4, 2}, {37, 129}, {1, 64}, {130, 200}},
                              .heads = 6,
                              .kv_heads = 2,
                              .head_dim = 24,
                              .value_dim = 40,
                              .own_keys = true,
                              .page_rows = page,
                              .head_masks = kMixed});
    }
  }
}

// One mask for all heads, said once or for each, gives the same bits.
TEST(AttentionPattern, TheSameMaskForEachHeadIsOneMask) {
  const AttentionMask window{.causal = true, .window = 37};
  AttentionCase c{.dtype = DType::f32, .segments = {{129, 129}, {9, 65}}, .heads = 4, .kv_heads = 2, .mask = window};
  const AttentionArgs one = make_attention(c);
  c.head_masks.assign(4, window);
  const AttentionArgs each = make_attention(c);
  attention(one);
  attention(each);
  EXPECT_EQ(std::memcmp(one.out.raw(), each.out.raw(), size_t(one.out.bytes())), 0);
}

// softmax(q k / 2 + bias) v of one head in f64, written out; `sees` says which pairs meet.
Tensor written_out(const AttentionArgs& a, const std::function<bool(int64_t, int64_t)>& sees) {
  const AttentionSegment& s = a.segments[0];
  Tensor out = zeros(a.out.shape(), DType::f64);
  for (int64_t i = 0; i < s.query_rows; ++i) {
    std::vector<double> p(size_t(s.key_rows), 0.0);
    double sum = 0;
    for (int64_t j = 0; j < s.key_rows; ++j) {
      if (!sees(i, j)) continue;
      double logit = 0;
      for (int64_t c = 0; c < a.head_dim; ++c)
        logit += a.scale * value_at(a.q, (s.query_row + i) * a.head_dim + c) *
                 value_at(a.k, (s.key_row + j) * a.head_dim + c);
      const int64_t distance = i + s.key_rows - s.query_rows - j;
      const Tensor& table = a.bias.table;
      if (table) logit += value_at(table, std::clamp<int64_t>(distance - a.bias.first, 0, table.dim(0) - 1));
      sum += p[size_t(j)] = std::exp(logit);
    }
    for (int64_t j = 0; j < s.key_rows && sum > 0; ++j)
      for (int64_t c = 0; c < a.value_dim; ++c) {
        const int64_t at = (s.query_row + i) * a.value_dim + c;
        set_value(out, at, value_at(out, at) + p[size_t(j)] / sum * value_at(a.v, (s.key_row + j) * a.value_dim + c));
      }
  }
  return out;
}

void expect_near(const Tensor& got, const Tensor& want) {
  for (int64_t i = 0; i < got.numel(); ++i) EXPECT_NEAR(value_at(got, i), value_at(want, i), 1e-13) << i;
}

TEST(AttentionPattern, ABiasIsAddedByDistance) {
  for (const int64_t first : {-2, 0, 3}) {
    AttentionArgs a = make_attention({.dtype = DType::f64, .segments = {{5, 9}}});
    a.bias.table = testing_support::random_tensor({4, 1}, DType::f64, 8);
    a.bias.first = first;
    attention(a);
    expect_near(a.out, written_out(a, [](int64_t, int64_t) { return true; }));
  }
}

TEST(AttentionPattern, TilesHideWhatTheyDoNotName) {
  AttentionArgs a = make_attention({.dtype = DType::f64, .segments = {{70, 150}}});
  // Queries 0-31: keys 64-127 whose number is odd; 32-63: 0-63 and 128-149; 64-69: none.
  TileMask::Rule odd{};
  for (size_t j = 1; j < odd.size(); j += 2) odd[j] = ~0u;
  const TileMask::Visits visits{.first = {0, 1, 3, 3}, .keys = {1, 0, 2}, .rule = {0, -1, -1}, .rules = {odd}};
  auto tiles = std::make_shared<TileMask>();
  tiles->visits = {std::make_shared<TileMask::Visits>(visits)};
  a.tiles = tiles;
  attention(a);
  expect_near(a.out, written_out(a, [](int64_t i, int64_t j) {
                return i < 32 ? j / 64 == 1 && j % 2 == 1 : i < 64 && j / 64 != 1;
              }));
  EXPECT_EQ(value_at(a.lse, a.segments[0].query_row + 64), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(cost(a).flops, 2.0 * (32 * 32 + 32 * (64 + 22)) * 32);
}

TEST(AttentionPattern, RefusesWhatDoesNotFit) {
  AttentionArgs a = make_attention({.dtype = DType::f32, .segments = {{5, 9}}, .heads = 2, .kv_heads = 2});
  a.head_masks.resize(3);
  EXPECT_THROW(attention(a), Error);
  a.head_masks.clear();
  a.bias.table = zeros({4, 1}, DType::f32);
  EXPECT_THROW(attention(a), Error);
}

}  // namespace
}  // namespace lithe::kernels
