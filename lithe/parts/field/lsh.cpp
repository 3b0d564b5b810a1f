// Queries see the keys that fall into the same bucket in some round of hashing, and their own [TB 6.4.1; Kitaev et al.
// 2020]: h(x) = argmax of [x R; -x R] with a fixed Gaussian R for each round and head.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct LshConfig {
  int64_t rounds = 4, buckets = 16, seed = 0;
  void fields(Fields& f) {
    f("rounds", rounds, "of hashing: a key is seen that shares a bucket in one of them", between(1, 64));
    f("buckets", buckets, "of a round, an even number; about tokens / 64", between(2, 1 << 16));
    f("seed", seed, "of the directions", at_least(0));
  }
};

class Lsh final : public Field {
 public:
  Lsh(const Scope& scope, const LshConfig& config, const Args& args) : config_(config), args_(args) {
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});  // directions by place
    check_usage(config.buckets % 2 == 0, "lsh", "buckets must be even, got ", config.buckets);
    check_usage(config.rounds * config.buckets <= 1 << 16, "lsh", "rounds x buckets must be at most 65536, got ",
                config.rounds, " x ", config.buckets);
    const int64_t all = config.rounds * args.num_attention_heads * args.key_dim * (config.buckets / 2);
    const RandomKey key{
        .seed = uint64_t(config.seed), .layer = uint32_t(scope.layer() + 1), .purpose = purpose_of("field.lsh")};
    for (int64_t i = 0; i < all; ++i) directions_.push_back(random_normal(key, uint64_t(i)));
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !in.k.defined()) return all;
    const int64_t heads = args_.num_attention_heads;
    const Tensor of_queries = hash(in.q.value(), heads), of_keys = in.labels ? in.labels : label(in.k.value());
    if (of_keys.is_meta()) return all;
    return labelled_pattern(args_.causal, heads, config_.buckets, in, of_queries, of_keys);
  }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType) const override {
    return {args_.num_attention_heads * config_.rounds, label_type(config_.buckets)};
  }
  Tensor label(const Tensor& keys) const override { return hash(keys, args_.kv_heads); }

 private:
  LshConfig config_;
  Args args_;
  std::vector<double> directions_;  // [rounds][heads][buckets / 2][d_h]

  std::span<const double> directions(int64_t round, int64_t head) const {
    const auto size = size_t(config_.buckets / 2 * args_.key_dim);
    return {directions_.data() + size_t(round * args_.num_attention_heads + head) * size, size};
  }
  // The buckets of each row and query head, [rows, heads*rounds]. `of_rows` heads x has, which groups of query heads
  // share.
  Tensor hash(const Tensor& x, int64_t of_rows) const {
    const int64_t heads = args_.num_attention_heads, rounds = config_.rounds, group = heads / of_rows, rows = x.rows();
    const Tensor out = empty({rows, heads * rounds}, label_type(config_.buckets), x.device());
    if (out.is_meta()) return out;
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t round = 0; round < rounds; ++round) {
        const auto products = head_products(x, 0, rows, head / group, of_rows, directions(round, head));
        for (int64_t i = 0; i < rows; ++i)
          set_value(out, (i * heads + head) * rounds + round,
                    double(bucket(products.data() + i * config_.buckets / 2)));
      }
    return out;
  }
  // The bucket by the products with the directions, [buckets / 2].
  int64_t bucket(const double* products) const {
    const int64_t half = config_.buckets / 2;
    int64_t best = 0;
    double most = -1;
    for (int64_t k = 0; k < half; ++k)
      if (const double dot = products[k]; std::abs(dot) > most) most = std::abs(dot), best = dot >= 0 ? k : half + k;
    return best;
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
