// A memory layer of N = n^2 learned values that every token reads a few of [TB 6.4.3(2); Lample et al. 2019]: a key is
// a pair of sub-keys, one of n in either half of the query, so that the best of N keys are found among the p^2 pairs of
// the p best of each half. y = sum over heads of softmax over the p chosen scores, times their values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/nn/registry.h"
#include "lithe/ops/attention.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

struct ProductKeysConfig {
  int64_t sub_keys = 0, num_heads = 4, top_k = 8, query_dim = 0;
  bool query_map = true;
  void fields(Fields& f) {
    f("sub_keys", sub_keys,
      "sub-keys n of each half; the memory has n^2 values; 0: about 4 hidden_size values; 128 is common",
      between(0, 1 << 14));
    f("num_heads", num_heads, "heads, each with its own queries and sub-keys; all heads share the values",
      between(1, 1024));
    f("top_k", top_k, "values p that each head reads for a token", between(1, 1 << 10));
    f("query_dim", query_dim, "channels of a query, even; 0: hidden_size", at_least(0).of({Dimension::head_width}));
    f("query_map", query_map, "queries are a linear map of the row; false: the query is the row itself (one head)");
  }
};

class ProductKeys final : public Ffn {
 public:
  ProductKeys(const Scope& scope, const ProductKeysConfig& c, const Args& args)
      : n_(c.sub_keys ? c.sub_keys
                      : std::max<int64_t>(c.top_k, std::llround(std::sqrt(4.0 * double(args.hidden_size))))),
        heads_(c.num_heads),
        p_(c.top_k),
        d_(args.hidden_size) {
    const int64_t query = c.query_dim ? c.query_dim : d_;
    check_usage(query % 2 == 0, "product_keys", "query_dim ", query, " must be even: either half has its sub-keys");
    check_usage(p_ <= n_, "product_keys", "top_k ", p_, " is more than the ", n_, " sub_keys of a half");
    check_usage(c.query_map || (heads_ == 1 && query == d_), "product_keys",
                "without query_map the row is the query; set num_heads: 1, and leave query_dim out");
    half_ = query / 2;
    const Axis rows = Axis::hidden(d_), halves = Axis(2 * heads_) * Axis::head_width(half_);
    if (c.query_map) query_ = Linear(scope / "query", rows, halves, false, InitRole::query_key);
    const InitConfig wide{.std = 1 / std::sqrt(double(query))};
    keys_ = (scope / "keys").parameter("weight", {n_, halves}, InitRole::embedding, {.init = &wide});
    values_ = (scope / "values").parameter("weight", {n_ * n_, rows}, InitRole::embedding);
  }

  Var forward(const SubLayerInput& in) const override {
    const int64_t rows = in.x.rows(), chosen = rows * heads_ * p_;
    const Var q = query_.weight ? query_(in.x) : in.x;
    const std::vector<int64_t> values = choose(q.value());
    std::vector<int64_t> halves, offsets(size_t(rows * heads_ + 1)), ones(size_t(rows * heads_ + 1));
    for (int64_t i = 0; i < chosen; ++i) {
      const int64_t head = i / p_ % heads_, value = values[size_t(i)];
      halves.push_back((value / n_) * 2 * heads_ + 2 * head);
      halves.push_back((value % n_) * 2 * heads_ + 2 * head + 1);
    }
    for (size_t i = 0; i < ones.size(); ++i) ones[i] = int64_t(i), offsets[i] = int64_t(i) * p_;
    const Device device = in.x.device();
    const Var k = reshape(pick_rows(reshape(keys_->var(), {n_ * 2 * heads_, half_}), halves), {chosen, 2 * half_}),
              v = pick_rows(values_->var(), values);
    const Var read = attend(reshape(q, {rows * heads_, 2 * half_}), as_rows(k, in), as_rows(v, in),
                            Sequences(ones, {}, device), Sequences(offsets, {}, device), {.scale = 1});
    Var y;
    for (int64_t head = 0; head < heads_; ++head) {
      std::vector<int64_t> of;
      for (int64_t i = 0; i < rows; ++i) of.push_back(i * heads_ + head);
      const Var mine = heads_ == 1 ? read : pick_rows(read, of);
      y = y.defined() ? add(y, mine) : mine;
    }
    return y;
  }

 private:
  int64_t n_, heads_, p_, d_, half_ = 0;
  Linear query_;
  Parameter *keys_, *values_;

  static Var as_rows(const Var& x, const SubLayerInput& in) {
    return x.dtype() == in.x.dtype() ? x : cast(x, in.x.dtype());
  }

  // The p best values of each row and head [rows * heads * p]: of equal scores the first.
  std::vector<int64_t> choose(const Tensor& q) const {
    const int64_t rows = q.rows();
    std::vector<int64_t> out(size_t(rows * heads_ * p_), 0);
    if (q.is_meta()) return out;
    const NoGrad no_grad;
    const Tensor scores = head_linear(q, keys_->var().value(), 2 * heads_, true).value();  // [rows, 2 heads n]
    std::vector<double> half(size_t(2 * n_));
    std::vector<int64_t> order(static_cast<size_t>(n_));
    for (int64_t i = 0; i < rows * heads_; ++i) {
      for (int64_t c = 0; c < 2 * n_; ++c) half[size_t(c)] = value_at(scores, i * 2 * n_ + c);
      std::vector<int64_t> best[2];
      for (const int64_t side : {0, 1}) {
        std::iota(order.begin(), order.end(), int64_t(0));
        const auto better = [&](int64_t a, int64_t b) {
          const double x = half[size_t(side * n_ + a)], y = half[size_t(side * n_ + b)];
          return x != y ? x > y : a < b;
        };
        std::partial_sort(order.begin(), order.begin() + p_, order.end(), better);
        best[side].assign(order.begin(), order.begin() + p_);
      }
      std::vector<std::pair<double, int64_t>> pairs;
      for (const int64_t a : best[0])
        for (const int64_t b : best[1]) pairs.emplace_back(-(half[size_t(a)] + half[size_t(n_ + b)]), a * n_ + b);
      std::partial_sort(pairs.begin(), pairs.begin() + p_, pairs.end());
      for (int64_t j = 0; j < p_; ++j) out[size_t(i * p_ + j)] = pairs[size_t(j)].second;
    }
    return out;
  }
};

}  // namespace

void register_ffn_product_keys(Registry& registry) {
  registry.add<Ffn, ProductKeys, ProductKeysConfig>(
      "product_keys", {.summary = "product-key memory: many learned values, found by pairs of sub-keys",
                       .source = "TB 6.4.3(2); Lample et al. 2019",
                       .samples = {"{sub_keys: 5, num_heads: 2, top_k: 2, query_dim: 6}"}});
}

}  // namespace lithe
