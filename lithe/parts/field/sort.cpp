// Positions are sorted by a score, and chunks of neighbours in that order see each other [TB 6.4.1; Tay et al. 2020].
// Scores are products with a fixed random direction of each head. Causal models sort what each query has before it,
// anew for every query, so that nothing of the future is in the order.
#include <algorithm>
#include <numeric>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct SortConfig {
  int64_t size = 64, seed = 0;
  bool previous = false;
  void fields(Fields& f) {
    f("size", size, "tokens of a chunk", at_least(1));
    f("previous", previous, "a chunk sees the one before it, too");
    f("seed", seed, "of the directions", at_least(0));
  }
};

class Sort final : public Field {
 public:
  Sort(const Scope& scope, const SortConfig& config, const Args& args) : config_(config), args_(args) {
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});  // directions by place
    const RandomKey key{
        .seed = uint64_t(config.seed), .layer = uint32_t(scope.layer() + 1), .purpose = purpose_of("field.sort")};
    for (int64_t i = 0; i < args.num_attention_heads * args.key_dim; ++i)
      directions_.push_back(random_normal(key, uint64_t(i)));
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !in.k.defined()) return all;
    const int64_t heads = args_.num_attention_heads;
    const Tensor of_queries = scores(in.q.value(), heads), of_keys = in.labels ? in.labels : label(in.k.value());
    if (of_keys.is_meta()) return all;
    const std::vector<int64_t> offsets = key_offsets(in);
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const int64_t n = in.queries.length(b), count = in.keys[size_t(b)].count,
                    ahead = in.queries.past(b) - in.keys[size_t(b)].first;
      const std::vector<double> q = column(of_queries, in.queries.offset(b), n, head),
                                k = column(of_keys, offsets[size_t(b)], count, head);
      std::vector<int64_t> order;  // keys by score, equal ones by position; a single query does without
      int64_t next = 0;
      const auto less = [&](int64_t a, int64_t c) {
        return k[size_t(a)] < k[size_t(c)] || (k[size_t(a)] == k[size_t(c)] && a < c);
      };
      return visits_of(n, count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t end = args_.causal ? i + ahead + 1 : count;
        if (n > 1 && order.empty() && end > 1) {  // those before the first query, at once
          order.resize(size_t(end));
          std::iota(order.begin(), order.end(), int64_t(0));
          std::sort(order.begin(), order.end(), less);
          next = end;
        }
        for (; n > 1 && next < end; ++next)
          order.insert(std::upper_bound(order.begin(), order.end(), next, less), next);
        // Where the query's score stands among those of the keys, a key's own place for an equal score.
        const auto before = [&](int64_t a) {
          return k[size_t(a)] < q[size_t(i)] || (k[size_t(a)] == q[size_t(i)] && a < i + ahead);
        };
        int64_t rank = std::partition_point(order.begin(), order.end(), before) - order.begin();
        for (int64_t j = 0; n == 1 && j < end; ++j) rank += before(j);
        const int64_t chunk = std::min(rank, end - 1) / config_.size,
                      first = (chunk - (config_.previous && chunk > 0)) * config_.size,
                      last = std::min((chunk + 1) * config_.size, end);
        const auto see = [&](int64_t j) { out.push_back({j, j + 1}); };
        if (n > 1)
          std::for_each(order.begin() + first, order.begin() + last, see);
        else
          for (const int64_t j : at_ranks({k.data(), size_t(end)}, first, last)) see(j);
        see(i + ahead);
      });
    });
  }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType) const override { return {args_.num_attention_heads, DType::f64}; }
  Tensor label(const Tensor& keys) const override { return scores(keys, args_.kv_heads); }

 private:
  SortConfig config_;
  Args args_;
  std::vector<double> directions_;  // [heads][d_h]

  // The score of each row and query head, [rows, heads]. `of_rows` heads x has, which groups of query heads share.
  Tensor scores(const Tensor& x, int64_t of_rows) const {
    const int64_t heads = args_.num_attention_heads, d = args_.key_dim, rows = x.rows();
    const Tensor out = empty({rows, heads}, DType::f64, x.device());
    if (out.is_meta()) return out;
    for (int64_t head = 0; head < heads; ++head) {
      const auto products =
          head_products(x, 0, rows, head * of_rows / heads, of_rows, {directions_.data() + head * d, size_t(d)});
      for (int64_t i = 0; i < rows; ++i) out.data<double>()[i * heads + head] = products[size_t(i)];
    }
    return out;
  }
};

}  // namespace

void register_field_sort(Registry& registry) {
  registry.add<Field, Sort, SortConfig>("sort",
                                        {.spec = "sparse.sort",
                                         .summary = "chunks of keys that are neighbours in the order of a score",
                                         .source = "TB 6.4.1; Tay et al. 2020",
                                         .samples = {"{size: 4}", "{size: 3, previous: true}"}});
}

}  // namespace lithe
