#include "tests/kernels/attention_kit.h"

namespace lithe::kernels {
namespace {

TEST(Attention, EveryInstructionSetEqualsTheReference) {
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 5},
                                        AttentionMask{.causal = true, .window = 37}}) {
        // 64 and 65 keys end at and behind a tile, 129 queries behind a block; one query decodes.
        expect_forward_right({.dtype = dtype, .segments = {{70, 70}, {1, 1}, {33, 64}, {5, 130}}, .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{129, 129}, {9, 65}},
                              .heads = 2,
                              .head_dim = 64,
                              .value_dim = 64,
                              .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{40, 20}, {17, 100}},
                              .heads = 6,
                              .kv_heads = 2,
                              .head_dim = 20,
                              .value_dim = 36,
                              .mask = mask});
        expect_forward_right({.dtype = dtype,
                              .segments = {{1, 300}, {2, 7}, {1, 1}, {4, 2}},
                              .heads = 3,
                              .kv_heads = 3,
                              .head_dim = 24,
                              .value_dim = 40,
                              .mask = mask,
                              .own_keys = true});
      }
  }
}

// Decoding and continued prompts over pages, whose ends lie between, at and behind the tiles that are read.
AttentionCase cached_case(DType dtype, DType cached, int64_t page_rows, const AttentionMask& mask) {
  return fitted({.dtype = dtype,
                 .segments = {{1, 300}, {2, 7}, {1, 1}, {4, 2}, {37, 129}, {1, 64}, {1, 65}, {130, 200}},
                 .heads = 6,
                 .kv_heads = 3,
                 .head_dim = 24,
                 .value_dim = 40,
                 .mask = mask,
                 .own_keys = true,
                 .cached = cached,
                 .page_rows = page_rows});
}

const AttentionMask kCacheMasks[] = {AttentionMask{.causal = true}, AttentionMask{.causal = true, .window = 37}};

// oracle: hpc.paged
TEST(Attention, PagesChangeNoBit) {
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (DType cached : {DType::f32, DType::bf16, DType::i8, DType::u8})
        for (const AttentionMask& mask : kCacheMasks) {
          const AttentionArgs whole = make_attention(cached_case(dtype, cached, 0, mask));
          attention(whole);
          for (int64_t page_rows : {64, 128}) {
            SCOPED_TRACE(testing::Message() << cached_case(dtype, cached, page_rows, mask));
            const AttentionArgs paged = make_attention(cached_case(dtype, cached, page_rows, mask));
            attention(paged);
            expect_same_bits(paged.out, whole.out, "out");
            expect_same_bits(paged.lse, whole.lse, "lse");
          }
        }
  }
}

// oracle: infer.kv_cache, hpc.ptq
TEST(Attention, CachesOfEveryTypeEqualTheReference) {
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (DType cached : {DType::f32, DType::bf16, DType::i8, DType::u8})
        for (const AttentionMask& mask : kCacheMasks) expect_forward_right(cached_case(dtype, cached, 64, mask));
  }
  expect_forward_right(cached_case(DType::f64, DType::f64, 64, kCacheMasks[0]));
}

// Keys that lie unturned in a cache, for rows that decode and for prompts that continue.
// oracle: pos.rope, mixer.skv
TEST(Attention, KeysTurnAsTheyAreRead) {
  const auto turned = [](AttentionCase c, int64_t pairs, bool interleaved) {
    c.changes = cat("turned in ", pairs, interleaved ? " neighbouring pairs" : " pairs");
    c.change = [pairs, interleaved](AttentionArgs& a) {
      KeyTurn turn{{}, interleaved};
      for (int64_t p = 0; p < pairs; ++p) turn.frequencies.push_back(std::pow(1e4, -double(p) / double(pairs)));
      a.turn = std::make_shared<KeyTurn>(turn);
      for (size_t i = 0; i < a.segments.size(); ++i) a.segments[i].key_position = int64_t(i) * 1000;
    };
    return c;
  };
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (DType cached : {DType::f32, DType::bf16, DType::i8, DType::u8})
        for (const AttentionMask& mask : kCacheMasks)
          for (int64_t pairs : {3, 12})
            for (bool interleaved : {false, true})
              expect_forward_right(turned(cached_case(dtype, cached, 64, mask), pairs, interleaved));
    // One query a head, and heads of whole vectors.
    AttentionCase heads = cached_case(DType::f32, DType::f32, 64, kCacheMasks[0]);
    heads.kv_heads = heads.heads, heads.head_dim = 64;
    expect_forward_right(turned(heads, 32, false));
    expect_forward_right(turned(heads, 20, true));
  }
  AttentionArgs wide = make_attention(turned(cached_case(DType::f32, DType::f32, 64, kCacheMasks[0]), 13, false));
  EXPECT_THROW(attention(wide), Error);
}

// A sequence's rows do not depend on the others, on the threads, or on where its pages lie.
void expect_rows_of_their_own(const AttentionArgs& all) {
  attention(all);
  for (int threads : {1, 2})
    for (const AttentionSegment& segment : all.segments) {
      const WithThreads limit(threads);
      AttentionArgs one = all;
      one.segments = {segment};
      one.out = zeros(all.out.shape(), all.out.dtype());
      attention(one);
      const int64_t begin = segment.query_row, end = begin + segment.query_rows;
      expect_same_bits(clone(one.out.slice(begin, end)), clone(all.out.slice(begin, end)), "rows");
    }
}

TEST(Attention, CachedRowsDoNotDependOnTheOthers) {
  for (DType cached : {DType::i8, DType::u8})
    expect_rows_of_their_own(make_attention(cached_case(DType::f32, cached, 64, kCacheMasks[0])));
  const WithIsa tiles(Isa::amx_emulated);  // on which only some of these segments run
  expect_rows_of_their_own(make_attention(cached_case(DType::bf16, DType::bf16, 64, kCacheMasks[0])));
}

// Whole groups of 4 bits, groups that end within a head, one query a head and many, keys that are the values.
// oracle: hpc.ptq
TEST(Attention, RowsIn4BitsOfHeadsOfAllSizes) {
  for (Isa isa : usable_sets()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (const auto& [size, heads, kv_heads] : std::vector<std::array<int64_t, 3>>{
               {64, 8, 8}, {128, 8, 1}, {32, 4, 2}, {7, 6, 3}, {80, 4, 4}, {33, 2, 2}}) {
        AttentionCase c = cached_case(dtype, DType::u8, 64, kCacheMasks[0]);
        c.heads = heads, c.kv_heads = kv_heads, c.head_dim = c.value_dim = size;
        expect_forward_right(c);
        c.changes = "keys are values";
        c.change = [](AttentionArgs& a) {
          for (AttentionSegment& s : a.segments) s.values = s.keys;
        };
        expect_forward_right(c);
      }
  }
}

TEST(Attention, RefusesPagesThatDoNotFit) {
  const AttentionArgs good = make_attention(cached_case(DType::f32, DType::i8, 64, kCacheMasks[0]));
  const auto refuses = [&](const std::function<void(AttentionSegment&)>& change) {
    AttentionArgs bad = good;
    change(bad.segments[0]);
    EXPECT_THROW(attention(bad), Error);
  };
  {
    const AttentionArgs int4 = make_attention(cached_case(DType::f32, DType::u8, 64, kCacheMasks[0]));
    const auto refuses_int4 = [&](const std::function<void(PagedRows&)>& change) {
      AttentionArgs bad = int4;
      change(bad.segments[0].keys);
      EXPECT_THROW(attention(bad), Error);
    };
    attention(int4);
    refuses_int4([](PagedRows& r) { r.width = 0; });
    refuses_int4([](PagedRows& r) { r.scales.clear(); });
    refuses_int4([](PagedRows& r) { r.scales[1] = convert(r.scales[1], DType::f32); });
    refuses_int4([](PagedRows& r) { r.pages[1] = empty({64, 35}, DType::u8); });
  }
  refuses([](AttentionSegment& s) { s.keys.scales.pop_back(); });
  refuses([](AttentionSegment& s) { s.keys.pages.pop_back(), s.keys.scales.pop_back(); });
  refuses([](AttentionSegment& s) { s.values = {}; });
  refuses([](AttentionSegment& s) { s.values.pages[1] = empty({64, 7}, DType::i8); });
  refuses([](AttentionSegment& s) { s.values.pages[1] = convert(s.values.pages[1], DType::f32); });
  refuses([](AttentionSegment& s) { s.values.scales[1] = empty({64, 2}, DType::f32); });
  refuses([](AttentionSegment& s) { s.keys = in_pages(zeros({310, 72}, DType::f32), 3, DType::i8, 32); });
  refuses([](AttentionSegment& s) { s.keys = zeros({310, 72}, DType::f32), s.values = zeros({310, 120}, DType::f32); });
}

}  // namespace
}  // namespace lithe::kernels
