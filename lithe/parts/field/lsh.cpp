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
      const auto q = head_rows(in.q.value(), in.queries.offset(b), n, head, heads),
                 k = head_rows(in.k.value(), offsets[size_t(b)], keys.count, head / group, args_.kv_heads);
      for (int64_t round = 0; round < config_.rounds; ++round) {
        hash(q, n, round, head, labels.queries);
        hash(k, keys.count, round, head, labels.keys);
      }
      return visits_of(labels, in.queries.past(b) - keys.first);
    });
  }
  bool reads_keys() const override { return true; }

 private:
  LshConfig config_;
  Args args_;
  std::vector<double> directions_;  // [rounds][heads][buckets / 2][d_h]

  void hash(const std::vector<double>& x, int64_t n, int64_t round, int64_t head, std::vector<int64_t>& out) const {
    const int64_t d = args_.head_dim, half = config_.buckets / 2;
    const double* r = directions_.data() + (round * args_.num_attention_heads + head) * half * d;
    for (int64_t i = 0; i < n; ++i) {
      int64_t best = 0;
      double most = -1;
      for (int64_t k = 0; k < half; ++k) {
        double dot = 0;
        for (int64_t c = 0; c < d; ++c) dot += x[size_t(i * d + c)] * r[k * d + c];
        if (std::abs(dot) > most) most = std::abs(dot), best = dot >= 0 ? k : half + k;
      }
      out.push_back(best);
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
