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
    const RandomKey key{
        .seed = uint64_t(config.seed), .layer = uint32_t(scope.layer() + 1), .purpose = purpose_of("field.sort")};
    for (int64_t i = 0; i < args.num_attention_heads * args.head_dim; ++i)
      directions_.push_back(random_normal(key, uint64_t(i)));
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (!in.k.defined() || in.k.value().is_meta())
      return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    const std::vector<int64_t> offsets = key_offsets(in);
    const int64_t heads = args_.num_attention_heads, group = heads / args_.kv_heads;
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const int64_t n = in.queries.length(b), count = in.keys[size_t(b)].count,
                    ahead = in.queries.past(b) - in.keys[size_t(b)].first;
      const std::span<const double> direction(directions_.data() + head * args_.head_dim, size_t(args_.head_dim));
      const auto q = head_products(in.q.value(), in.queries.offset(b), n, head, heads, direction),
                 k = head_products(in.k.value(), offsets[size_t(b)], count, head / group, args_.kv_heads, direction);
      std::vector<int64_t> order;  // keys by score, equal ones by position
      int64_t next = 0;
      const auto less = [&](int64_t a, int64_t c) {
        return k[size_t(a)] < k[size_t(c)] || (k[size_t(a)] == k[size_t(c)] && a < c);
      };
      return visits_of(n, count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t end = args_.causal ? i + ahead + 1 : count;
        if (order.empty() && end > 1) {  // those before the first query, at once
          order.resize(size_t(end));
          std::iota(order.begin(), order.end(), int64_t(0));
          std::sort(order.begin(), order.end(), less);
          next = end;
        }
        for (; next < end; ++next) order.insert(std::upper_bound(order.begin(), order.end(), next, less), next);
        // Where the query's score stands among those of the keys, a key's own place for an equal score.
        const int64_t own = i + ahead, most = int64_t(order.size()) - 1,
                      rank = std::lower_bound(order.begin(), order.end(), own,
                                              [&](int64_t a, int64_t) {
                                                return k[size_t(a)] < q[size_t(i)] ||
                                                       (k[size_t(a)] == q[size_t(i)] && a < own);
                                              }) -
                             order.begin(),
                      chunk = std::min(rank, most) / config_.size,
                      first = (chunk - (config_.previous && chunk > 0)) * config_.size;
        for (int64_t at = first; at < std::min((chunk + 1) * config_.size, most + 1); ++at)
          out.push_back({order[size_t(at)], order[size_t(at)] + 1});
        out.push_back({own, own + 1});
      });
    });
  }
  bool reads_keys() const override { return true; }

 private:
  SortConfig config_;
  Args args_;
  std::vector<double> directions_;  // [heads][d_h]
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
