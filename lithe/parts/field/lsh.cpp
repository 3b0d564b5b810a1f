// Queries see the keys that fall into the same bucket in some round of hashing, and their own [TB 6.4.1; Kitaev et al.
// 2020]: h(x) = argmax of [x R; -x R] with a fixed Gaussian R for each round and head.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct LshConfig {
  int64_t rounds = 4, buckets = 16, seed = 0;
  void fields(Fields& f) {
    f("rounds", rounds, "of hashing: a key is seen that shares a bucket in one of them", at_least(1));
    f("buckets", buckets, "of a round, an even number; about tokens / 64", between(2, 1 << 16));
    f("seed", seed, "of the directions", at_least(0));
  }
};

class Lsh final : public Field {
 public:
  Lsh(const Scope& scope, const LshConfig& config, const Args& args) : config_(config), args_(args) {
    check_usage(config.buckets % 2 == 0, "lsh", "buckets must be even, got ", config.buckets);
    const int64_t all = config.rounds * args.num_attention_heads * args.head_dim * (config.buckets / 2);
    const RandomKey key{
        .seed = uint64_t(config.seed), .layer = uint32_t(scope.layer() + 1), .purpose = purpose_of("field.lsh")};
    for (int64_t i = 0; i < all; ++i) directions_.push_back(random_normal(key, uint64_t(i)));
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (!in.k.defined() || in.k.value().is_meta())
      return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    const std::vector<int64_t> offsets = key_offsets(in);
    const int64_t heads = args_.num_attention_heads, group = heads / args_.kv_heads;
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t n = in.queries.length(b);
      Labels labels{.rounds = config_.rounds, .queries = {}, .keys = {}};
      for (int64_t round = 0; round < config_.rounds; ++round) {
        hash(head_products(in.q.value(), in.queries.offset(b), n, head, heads, directions(round, head)),
             labels.queries);
        hash(head_products(in.k.value(), offsets[size_t(b)], keys.count, head / group, args_.kv_heads,
                           directions(round, head)),
             labels.keys);
      }
      return visits_of(labels, in.queries.past(b) - keys.first);
    });
  }
  bool reads_keys() const override { return true; }

 private:
  LshConfig config_;
  Args args_;
  std::vector<double> directions_;  // [rounds][heads][buckets / 2][d_h]

  std::span<const double> directions(int64_t round, int64_t head) const {
    const auto size = size_t(config_.buckets / 2 * args_.head_dim);
    return {directions_.data() + size_t(round * args_.num_attention_heads + head) * size, size};
  }
  // The buckets by the products with the directions, [n][buckets / 2].
  void hash(const std::vector<double>& products, std::vector<int64_t>& out) const {
    const auto half = size_t(config_.buckets / 2);
    for (size_t i = 0; i < products.size(); i += half) {
      size_t best = 0;
      double most = -1;
      for (size_t k = 0; k < half; ++k)
        if (const double dot = products[i + k]; std::abs(dot) > most)
          most = std::abs(dot), best = dot >= 0 ? k : half + k;
      out.push_back(int64_t(best));
    }
  }
};

}  // namespace

void register_field_lsh(Registry& registry) {
  registry.add<Field, Lsh, LshConfig>("lsh", {.spec = "sparse.lsh",
                                              .summary = "keys of the same bucket in some round of hashing",
                                              .source = "TB 6.4.1; Kitaev et al. 2020",
                                              .samples = {"{rounds: 2, buckets: 4}"}});
}

}  // namespace lithe
