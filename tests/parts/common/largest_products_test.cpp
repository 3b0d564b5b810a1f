#include "lithe/parts/common/largest_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/numbers.h"

namespace lithe {
namespace {

using Lists = std::vector<std::vector<int32_t>>;

// A stable sort of all products, cut.
std::vector<int32_t> sorted_keys(const Tensor& q, const Tensor& k, int64_t head, int64_t key_head, int64_t d, int64_t i,
                                 int64_t seen, int64_t most) {
  std::vector<double> products;
  for (int64_t j = 0; j < seen; ++j) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c)
      sum += value_at(q, i * q.cols() + head * d + c) * value_at(k, j * k.cols() + key_head * d + c);
    products.push_back(sum);
  }
  std::vector<int32_t> order(products.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return products[size_t(a)] > products[size_t(b)]; });
  order.resize(std::min(order.size(), size_t(most)));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(LargestProducts, AreThoseOfASort) {
  const int64_t queries = 70, keys = 90, heads = 4, kv_heads = 2, d = 3;  // more queries than one block
  const Tensor q = kit::normal({queries, heads * d}, DType::f64, 1),
               k = kit::normal({keys, kv_heads * d}, DType::f64, 2);
  const auto seen = [](int64_t i) { return i + 20; };
  for (const int64_t most : {1, 5, 200}) {
    const Lists got = largest_products(q, k, heads, kv_heads, most, seen);
    ASSERT_EQ(got.size(), size_t(heads * queries));
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < queries; ++i)
        EXPECT_EQ(got[size_t(head * queries + i)],
                  sorted_keys(q, k, head, head / 2, d, i, std::min(seen(i), keys), most))
            << "head " << head << ", query " << i << ", " << most;
  }
}

TEST(LargestProducts, OfEqualOnesTheEarlierCount) {
  const Tensor q = kit::tensor_f64({1, 1}, {1}), k = kit::tensor_f64({6, 1}, {2, 5, 2, 2, 5, 2});
  const auto all = [](int64_t) { return int64_t(6); };
  EXPECT_EQ(largest_products(q, k, 1, 1, 3, all), (Lists{{0, 1, 4}}));
  EXPECT_EQ(largest_products(q, k, 1, 1, 1, all), (Lists{{1}}));
}

TEST(LargestProducts, NotANumberIsTheLeast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor q = kit::tensor_f64({1, 1}, {1}), k = kit::tensor_f64({4, 1}, {nan, -1e300, nan, 0});
  EXPECT_EQ(largest_products(q, k, 1, 1, 2, [](int64_t) { return int64_t(4); }), (Lists{{1, 3}}));
  EXPECT_EQ(largest_products(q, k, 1, 1, 3, [](int64_t) { return int64_t(4); }), (Lists{{0, 1, 3}}));
}

TEST(LargestProducts, NoneWhereNothingIsSeenOrAsked) {
  const Tensor q = kit::normal({3, 2}, DType::f32, 1), k = kit::normal({4, 2}, DType::f32, 2);
  EXPECT_EQ(largest_products(q, k, 1, 1, 2, [](int64_t i) { return i; }), (Lists{{}, {0}, {0, 1}}));
  EXPECT_EQ(largest_products(q, k, 1, 1, 0, [](int64_t) { return int64_t(4); }), (Lists{{}, {}, {}}));
  EXPECT_TRUE(largest_products(q.slice(0, 0), k, 1, 1, 2, [](int64_t) { return int64_t(4); }).empty());
  const Tensor meta = empty({3, 2}, DType::f32, Device::meta), keys = empty({4, 2}, DType::f32, Device::meta);
  EXPECT_TRUE(largest_products(meta, keys, 1, 1, 2, [](int64_t) { return int64_t(4); }).empty());
}

TEST(LargestProducts, AQuerysKeysDoNotDependOnTheOthers) {
  const Tensor q = kit::normal({80, 8}, DType::bf16, 1), k = kit::normal({50, 8}, DType::bf16, 2);
  const auto all = [](int64_t) { return int64_t(50); };
  const Lists together = largest_products(q, k, 1, 1, 7, all);
  for (const int64_t i : {0, 63, 64, 79})
    EXPECT_EQ(largest_products(q.slice(i, i + 1), k, 1, 1, 7, all)[0], together[size_t(i)]) << i;
}

}  // namespace
}  // namespace lithe
