// Biases by distance, tiles and shares in the fused kernels, against the reference.
#include "tests/kernels/attention_grad_kit.h"

namespace lithe::kernels {
namespace {

struct Change {
  std::string name;
  std::function<void(AttentionArgs&)> apply;
};

DType wide_type(const AttentionArgs& a) { return a.lse.dtype(); }
Tensor numbers_of(const AttentionArgs& a, Shape shape, uint64_t seed) {
  return random_tensor(shape, wide_type(a), seed);
}

/// Whether query i and key j of a segment and head meet: about a third of the tiles, some of them whole, some without a
/// pattern, some with every third pair.
TileMask::Visits visits_of(const AttentionSegment& s, int64_t seed) {
  TileMask::Visits v;
  v.first = {0};
  TileMask::Rule thin{}, stripes{};
  for (size_t j = 0; j < thin.size(); ++j)
    for (uint32_t i = 0; i < 32; ++i) {
      thin[j] |= uint32_t((i + j + size_t(seed)) % 3 == 0) << i;
      stripes[j] |= uint32_t(j % 2) << i;
    }
  v.rules = {thin, stripes};
  for (int64_t t = 0; t * TileMask::kQueries < s.query_rows; ++t) {
    for (int64_t k = 0; k * TileMask::kKeys < s.key_rows; ++k)
      if ((t * 7 + k * 5 + seed) % 4 < 2) {
        v.keys.push_back(int32_t(k));
        v.rule.push_back(int32_t((t + k + seed) % 3) - 1);
      }
    v.first.push_back(int32_t(v.keys.size()));
  }
  return v;
}

void add_tiles(AttentionArgs& a) {
  auto tiles = std::make_shared<TileMask>();
  for (const AttentionSegment& s : a.segments)
    for (int64_t head = 0; head < a.heads; ++head)
      tiles->visits.push_back(std::make_shared<TileMask::Visits>(visits_of(s, head)));
  a.tiles = tiles;
}

void add_table(AttentionArgs& a, int64_t numbers, int64_t first) {
  a.bias.table = numbers_of(a, {numbers, a.heads}, 21);
  a.bias.first = first;
}
void add_rows(AttentionArgs& a, int64_t numbers, int64_t first) {
  a.bias.rows = numbers_of(a, {a.q.dim(0), a.heads * numbers}, 22);
  a.bias.first = first;
}
void add_columns(AttentionArgs& a, int64_t numbers, int64_t first) {
  int64_t keys = a.k ? a.k.dim(0) : 0;
  if (!a.k)
    for (AttentionSegment& s : a.segments) s.key_row = keys, keys += s.key_rows;
  a.bias.columns = numbers_of(a, {keys, a.heads * numbers}, 25);
  a.bias.first = first;
}
void add_rates(AttentionArgs& a, int64_t rows, double size, bool squared) {
  a.bias.rates = numbers_of(a, {rows, a.heads}, 23);
  for (int64_t i = 0; i < a.bias.rates.numel(); ++i)
    set_value(a.bias.rates, i, size * std::abs(value_at(a.bias.rates, i)));
  a.bias.squared = squared;
}
void add_centres(AttentionArgs& a, double size = 5) {
  a.bias.centres = numbers_of(a, {a.q.dim(0), a.heads}, 24);
  for (int64_t i = 0; i < a.bias.centres.numel(); ++i)
    set_value(a.bias.centres, i, size * (4 + 3 * value_at(a.bias.centres, i)));
}
// Numbers of pairs: factors within [0, 1], or addends of which every fifth hides; of all heads, or of every other one.
void add_pairs(AttentionArgs& a, bool multiply, bool some_heads) {
  int64_t count = 0;
  for (const AttentionSegment& s : a.segments) {
    a.bias.pair_offsets.push_back(count);
    count += s.query_rows * s.key_rows;
  }
  a.bias.pairs = numbers_of(a, {count}, 26);
  a.bias.pairs_multiply = multiply;
  for (int64_t i = 0; i < count; ++i) {
    if (multiply) set_value(a.bias.pairs, i, std::min(1.0, std::abs(value_at(a.bias.pairs, i))));
    if (!multiply && i % 5 == 3) set_value(a.bias.pairs, i, -INFINITY);
  }
  for (int64_t head = 0; some_heads && head < a.heads; ++head) a.bias.pair_heads.push_back(head % 2);
}
void multiply_weights(AttentionArgs& a) { a.bias.multiplies_weights = true, a.bias.pairs_multiply = false; }
void add_shares(AttentionArgs& a, int64_t numbers, int64_t first) {
  a.shares = zeros({a.q.dim(0), a.heads * numbers}, wide_type(a));
  a.shares_first = first;
}

const std::vector<Change>& biases() {
  static const std::vector<Change> all{
      {"one number", [](AttentionArgs& a) { add_table(a, 1, 0); }},
      {"short table", [](AttentionArgs& a) { add_table(a, 9, -4); }},
      {"long table", [](AttentionArgs& a) { add_table(a, 300, -90); }},
      {"short rows", [](AttentionArgs& a) { add_rows(a, 5, 0); }},
      {"long rows", [](AttentionArgs& a) { add_rows(a, 150, -70); }},
      {"one column", [](AttentionArgs& a) { add_columns(a, 1, 0); }},
      {"short columns", [](AttentionArgs& a) { add_columns(a, 7, -3); }},
      {"long columns", [](AttentionArgs& a) { add_columns(a, 150, -70); }},
      {"slopes", [](AttentionArgs& a) { add_rates(a, 1, 0.1, false); }},
      {"slopes by query", [](AttentionArgs& a) { add_rates(a, a.q.dim(0), 0.1, false); }},
      {"Gaussian", [](AttentionArgs& a) { add_rates(a, 1, 0.01, true); }},
      {"Gaussian of centres", [](AttentionArgs& a) { add_rates(a, a.q.dim(0), 0.01, true), add_centres(a); }},
      {"slopes of centres", [](AttentionArgs& a) { add_rates(a, 1, 0.1, false), add_centres(a); }},
      {"all", [](AttentionArgs& a) { add_table(a, 33, -16), add_rows(a, 33, -16), add_rates(a, 1, 0.01, true); }},
      {"added pairs", [](AttentionArgs& a) { add_pairs(a, false, false); }},
      {"added pairs of some heads", [](AttentionArgs& a) { add_pairs(a, false, true); }},
      {"factors of pairs", [](AttentionArgs& a) { add_pairs(a, true, false); }},
      {"factors of pairs of some heads", [](AttentionArgs& a) { add_pairs(a, true, true); }},
      {"factors, a cap, a table",
       [](AttentionArgs& a) { add_pairs(a, true, false), a.softcap = 2, add_table(a, 9, -4); }},
      {"pairs, tiles and slopes",
       [](AttentionArgs& a) { add_pairs(a, false, true), add_tiles(a), add_rates(a, 1, 0.1, false); }},
      {"weights times pairs", [](AttentionArgs& a) { add_pairs(a, true, false), multiply_weights(a); }},
      {"weights times pairs of some heads", [](AttentionArgs& a) { add_pairs(a, true, true), multiply_weights(a); }},
      {"weights times pairs, a cap, tiles, slopes",
       [](AttentionArgs& a) {
         add_pairs(a, true, true), a.softcap = 2, add_tiles(a), add_rates(a, 1, 0.1, false), multiply_weights(a);
       }},
      {"weights times a table and rows",
       [](AttentionArgs& a) { add_table(a, 33, -16), add_rows(a, 33, -16), multiply_weights(a); }},
      {"weights times columns", [](AttentionArgs& a) { add_columns(a, 7, -3), multiply_weights(a); }},
      {"weights times a Gaussian of centres",
       [](AttentionArgs& a) { add_rates(a, a.q.dim(0), 0.0005, true), add_centres(a, 1), multiply_weights(a); }},
      {"softcap", [](AttentionArgs& a) { a.softcap = 0.7; }},
      {"softcap and a table", [](AttentionArgs& a) { a.softcap = 3, add_table(a, 33, -16); }},
      {"tiles", [](AttentionArgs& a) { add_tiles(a); }},
      {"softcap and tiles", [](AttentionArgs& a) { a.softcap = 2, add_tiles(a); }},
      {"tiles and a table", [](AttentionArgs& a) { add_tiles(a), add_table(a, 9, -4); }},
      {"tiles of some heads", [](AttentionArgs& a) {
         add_tiles(a);
         auto tiles = std::make_shared<TileMask>(*a.tiles);
         for (size_t i = 0; i < tiles->visits.size(); i += 2) tiles->visits[i] = nullptr;
         a.tiles = tiles;
       }}};
  return all;
}
// Which tiles alone sum up.
const std::vector<Change>& shares() {
  static const std::vector<Change> all{
      {"one share", [](AttentionArgs& a) { add_shares(a, 1, 3); }},
      {"short shares", [](AttentionArgs& a) { add_shares(a, 17, 0); }},
      {"long shares", [](AttentionArgs& a) { add_shares(a, 190, -60); }},
      {"shares of tiles and rows", [](AttentionArgs& a) { add_shares(a, 9, -4), add_tiles(a), add_rows(a, 9, -4); }},
      {"shares of weights times pairs",
       [](AttentionArgs& a) { add_shares(a, 9, -4), add_pairs(a, true, false), multiply_weights(a); }}};
  return all;
}

const AttentionMask kMasks[] = {AttentionMask{}, AttentionMask{.causal = true},
                                AttentionMask{.causal = true, .window = 37}};

// Every change on every set with both types; the masks take turns.
template <class F>
void on_every_set(const std::vector<Change>& changes, F f) {
  size_t turn = 0;
  for (Isa isa : usable_sets_and_tiles()) {
    const WithIsa limit(isa);
    for (DType dtype : fast_types())
      for (const Change& change : changes) f(dtype, kMasks[turn++ % 3], change);
  }
}

AttentionCase whole(DType dtype, const AttentionMask& mask, const Change& change) {
  return fitted({.dtype = dtype,
                 .segments = {{70, 70}, {1, 1}, {5, 130}, {140, 140}},
                 .heads = 4,
                 .kv_heads = 2,
                 .head_dim = 20,
                 .value_dim = 36,
                 .mask = mask,
                 .change = change.apply,
                 .changes = change.name});
}

// oracle: hpc.flash, attn.alibi, sparse.field
TEST(AttentionBias, EveryInstructionSetEqualsTheReference) {
  for (const auto* list : {&biases(), &shares()})
    on_every_set(*list, [](DType dtype, const AttentionMask& mask, const Change& change) {
      expect_forward_right(whole(dtype, mask, change));
    });
}

TEST(AttentionBias, CachesInPagesEqualTheReference) {
  for (const auto* list : {&biases(), &shares()})
    on_every_set(*list, [](DType dtype, const AttentionMask& mask, const Change& change) {
      expect_forward_right(fitted({.dtype = dtype,
                                   .segments = {{1, 200}, {2, 7}, {1, 1}, {37, 129}, {1, 64}},
                                   .heads = 6,
                                   .kv_heads = 3,
                                   .head_dim = 20,
                                   .value_dim = 36,
                                   .mask = mask,
                                   .own_keys = true,
                                   .cached = mask.causal ? dtype : DType::i8,
                                   .page_rows = 64,
                                   .change = change.apply,
                                   .changes = change.name}));
    });
}

TEST(AttentionBias, GradientsEqualTheReference) {
  for (const auto* list : {&biases(), &shares()})
    on_every_set(*list, [](DType dtype, const AttentionMask& mask, const Change& change) {
      expect_backward_right(whole(dtype, mask, change), dtype, mask.causal);
    });
}

TEST(AttentionBias, ReferenceEqualsCentralDifferences) {
  for (const auto* list : {&biases(), &shares()})
    for (const Change& change : *list) {
      const AttentionCase c{.dtype = DType::f64,
                            .segments = {{3, 5}, {4, 3}},
                            .heads = 2,
                            .kv_heads = 1,
                            .head_dim = 3,
                            .value_dim = 2,
                            .change = change.apply,
                            .changes = change.name};
      SCOPED_TRACE(testing::Message() << c);
      const AttentionGradArgs g = make_grad(c, DType::f64, false);
      const AttentionArgs& a = g.forward;
      attention_grad(g);
      const auto loss = [&] {
        attention(a);
        double sum = 0;
        const auto add = [&](const Tensor& d, const Tensor& x) {
          if (!d) return;
          for (const AttentionSegment& s : a.segments)
            for (int64_t i = s.query_row * d.cols(); i < (s.query_row + s.query_rows) * d.cols(); ++i)
              if (std::isfinite(value_at(x, i))) sum += value_at(d, i) * value_at(x, i);
        };
        add(g.dout, a.out), add(g.dshares, a.shares), add(g.dlse, a.lse);
        return sum;
      };
      using testing_support::expect_gradient;
      expect_gradient(g.dq, a.q, loss, "dq");
      expect_gradient(g.dk, a.k, loss, "dk");
      if (g.dtable) expect_gradient(g.dtable, a.bias.table, loss, "dtable");
      if (g.drows) expect_gradient(g.drows, a.bias.rows, loss, "drows");
      if (g.dcolumns) expect_gradient(g.dcolumns, a.bias.columns, loss, "dcolumns");
      if (g.drates) expect_gradient(g.drates, a.bias.rates, loss, "drates");
      if (g.dcentres) expect_gradient(g.dcentres, a.bias.centres, loss, "dcentres");
    }
}

// Neither threads nor other segments change a bit of a sequence; sums over all queries of a table keep their order.
TEST(AttentionBias, ThreadsChangeNoBit) {
  for (const auto* list : {&biases(), &shares()})
    for (const Change& change : *list)
      for (DType dtype : fast_types()) {
        const AttentionCase c = whole(dtype, {.causal = true}, change);
        SCOPED_TRACE(testing::Message() << c);
        std::vector<AttentionGradArgs> runs;
        for (int threads : {1, 2}) {
          const WithThreads limit(threads);
          runs.push_back(make_grad(c, dtype, false));
          attention_grad(runs.back());
        }
        const auto same = [](const Tensor& a, const Tensor& b, const char* name) {
          if (a) expect_same_bits(a, b, name);
        };
        same(runs[0].forward.out, runs[1].forward.out, "out");
        same(runs[0].forward.shares, runs[1].forward.shares, "shares");
        same(runs[0].dq, runs[1].dq, "dq");
        same(runs[0].dk, runs[1].dk, "dk");
        same(runs[0].dtable, runs[1].dtable, "dtable");
        same(runs[0].drows, runs[1].drows, "drows");
        same(runs[0].dcolumns, runs[1].dcolumns, "dcolumns");
        same(runs[0].drates, runs[1].drates, "drates");
        same(runs[0].dcentres, runs[1].dcentres, "dcentres");
      }
}

}  // namespace
}  // namespace lithe::kernels
