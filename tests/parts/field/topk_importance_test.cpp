#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.topk_importance
TEST(TopKImportance, AllKeysAreFullAttention) {
  expect_same_field("{type: topk_importance, keys: 9, soft_bias: false}", "full", true);
  expect_same_field("{type: topk_importance, keys: 9, soft_bias: false}", "full", false);
}

// oracle: sparse.topk_importance
TEST(TopKImportance, AKeyThatFellOutDoesNotComeBack) {
  const auto pairs = FieldAttention("{type: topk_importance, keys: 4}", true, 2).pairs(80);
  for (const auto& head : pairs)
    for (size_t i = 0; i < 80; ++i) {
      EXPECT_TRUE(head[i][i]);
      const auto seen = std::count(head[i].begin(), head[i].end(), 1);
      EXPECT_TRUE(seen == std::min<int64_t>(4, int64_t(i) + 1) || seen == 5) << i << " " << seen;
      for (size_t j = 0; j + 1 < i && i > 0; ++j) EXPECT_LE(head[i][j], head[i - 1][j]) << i << " " << j;
    }
}

// oracle: sparse.topk_importance
TEST(TopKImportance, Decodes) {
  expect_decodes("{type: topk_importance, keys: 5}");
  expect_decodes("{type: topk_importance, keys: 5, soft_bias: false}");
}

// u . h_j by hand: one score for all heads, whatever the keys are, and log sigmoid of it on the logits.
// oracle: sparse.topk_importance
TEST(TopKImportance, ScoresOfRowsAreOneForAllHeads) {
  expect_same_field("{type: topk_importance, keys: 9, soft_bias: false, score: row}", "full", true);
  expect_decodes("{type: topk_importance, keys: 5, score: row}");
  expect_decodes("{type: topk_importance, keys: 5, soft_bias: false, score: row}");
  EXPECT_THROW(FieldCrossing("{type: topk_importance, score: row}"), Error);
  EXPECT_THROW(FieldAttention("{type: topk_importance, form: informer, score: row}", false), Error);
  FieldAttention soft("{type: topk_importance, keys: 3, score: row}", true, 2),
      hard("{type: topk_importance, keys: 3, soft_bias: false, score: row}", true, 2), full("full", true, 2);
  EXPECT_EQ(soft.bench.parameters().count() - full.bench.parameters().count(), 8);
  const int64_t T = 9;
  const Tensor x = kit::normal({T, 8}, DType::f64, 1), u = soft.bench["part.field.score"];
  std::vector<double> score;
  for (int64_t j = 0; j < T; ++j) {
    score.push_back(0);
    for (int64_t c = 0; c < 8; ++c) score.back() += value_at(u, c) * value_at(x, j * 8 + c);
  }
  const auto maps = [&](const FieldAttention& of) { return of.mixer->maps({Var(x), Sequences::single(T), nullptr}); };
  const MixerMaps with = maps(soft), without = maps(hard);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < T; ++i) {
      std::vector<int64_t> order;
      for (int64_t j = 0; j <= i; ++j) order.push_back(j);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return score[size_t(a)] > score[size_t(b)]; });
      order.resize(std::min<size_t>(order.size(), 3));
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t at = (h * T + i) * T + j;
        const bool seen = j == i || std::find(order.begin(), order.end(), j) != order.end();
        EXPECT_EQ(value_at(with.weights, at) > 0, seen) << i << " " << j;
        if (!seen) continue;
        EXPECT_NEAR(value_at(with.logits, at) - value_at(without.logits, at), -std::log1p(std::exp(-score[size_t(j)])),
                    1e-5)
            << i << " " << j;
      }
    }
}

// The state keeps the k best keys of each head, however long the text is, and their scores.
// oracle: sparse.topk_importance
TEST(TopKImportance, TheStateIsAHeap) {
  for (const bool soft : {true, false}) {
    FieldAttention attention(cat("{type: topk_importance, keys: 5, soft_bias: ", soft ? "true" : "false", "}"), true,
                             2);
    const int64_t row = 2 * 8 * 8 + 2 * (1 + soft) * 8;
    EXPECT_EQ(attention.mixer->state_bytes({3, 900}, DType::f64), (3 + 5) * row);
  }
  // Pages of several beams, texts that go on, and a longer heap than a page.
  const std::string field = "{type: topk_importance, keys: 70}";
  FieldAttention attention(field, true, 2);
  const int64_t T = 150;
  const Tensor x = kit::normal({T, 8}, DType::f64, 1), whole = attention(x);
  const auto state = attention.mixer->make_state({2, T, DType::f64, Device::cpu});
  const auto feed = [&](int64_t at, int64_t n) {
    const Tensor rows = clone(x.slice(at, at + n));
    const Tensor y =
        attention.mixer->forward({Var(kit::concatenate({rows, rows})), Sequences({0, n, 2 * n}, {at, at}), state.get()})
            .value();
    for (int64_t b = 0; b < 2; ++b)
      EXPECT_LE(kit::largest_difference(clone(y.slice(b * n, b * n + n)), clone(whole.slice(at, at + n))), 1e-12) << at;
  };
  const NoGrad no_grad;
  feed(0, 80);
  state->reorder({0, 0});
  feed(80, 1);
  feed(81, 20);
  const auto restored = attention.mixer->make_state({2, T, DType::f64, Device::cpu});
  restored->restore(state->save());
  EXPECT_EQ(restored->bytes(), state->bytes());
  for (int64_t at = 101; at < T; ++at) feed(at, 1);
  EXPECT_FALSE(state->truncates());
  EXPECT_THROW(state->truncate(0, 120), Error);
}

// oracle: sparse.topk_importance
TEST(TopKImportance, AllQueriesOfTheInformerAreFullAttention) {
  expect_same_field("{type: topk_importance, form: informer, keys: 9}", "full", false);
}

// Two of seven queries attend, those whose largest product with the keys is farthest above the mean; the others give
// the mean of the values. oracle: sparse.topk_importance
TEST(TopKImportance, LazyQueriesOfTheInformerGiveTheMean) {
  FieldAttention informer("{type: topk_importance, form: informer, keys: 2, sampled_keys: 7}", false),
      full("full", false);
  for (const Parameter& p : full.bench.parameters().all())
    copy_into(p.master.value(), informer.bench.parameters().find(p.name)->master.value());
  const Tensor x = kit::normal({7, 8}, DType::f64, 1), y = informer(x), plain = full(x),
               q = kit::product(x, full.bench["part.heads.q.weight"]),
               k = kit::product(x, full.bench["part.heads.k.weight"]),
               values =
                   kit::product(kit::product(x, full.bench["part.heads.v.weight"]), full.bench["part.output.weight"]);
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t i = 0; i < 7; ++i) {
    double most = -1e300, sum = 0;
    for (int64_t j = 0; j < 7; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < 8; ++c) dot += value_at(q, i * 8 + c) * value_at(k, j * 8 + c);
      most = std::max(most, dot), sum += dot;
    }
    order.push_back({-(most - sum / 7), i});
  }
  std::sort(order.begin(), order.end());
  for (size_t n = 0; n < 7; ++n)
    for (int64_t c = 0; c < 8; ++c) {
      const int64_t i = order[n].second;
      double mean = 0;
      for (int64_t j = 0; j < 7; ++j) mean += value_at(values, j * 8 + c) / 7;
      EXPECT_NEAR(value_at(y, i * 8 + c), n < 2 ? value_at(plain, i * 8 + c) : mean, 1e-12) << i;
    }
}

TEST(TopKImportance, TheInformerReadsWholeTexts) {
  const std::string informer = "{type: topk_importance, form: informer}";
  EXPECT_NE(kit::coded_error_of([&] { FieldAttention{informer}; }).find("has no causal form"), std::string::npos);
  EXPECT_NE(kit::coded_error_of([&] { FieldCrossing{informer}; }).find("has no cross form"), std::string::npos);
}

}  // namespace
}  // namespace lithe
