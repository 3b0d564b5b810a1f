// Queries see the keys that fall into the same bucket in some round of hashing, and their own [TB 6.4.1; Kitaev et al.
// 2020]: h(x) = argmax of [x R; -x R] with a fixed Gaussian R for each round and head. In the chunked form each round
// sorts keys by bucket and position and cuts them into chunks, a query sees its own chunk and the one before it, and
// the rounds' results are joined by the sums of their exponentials, in which a key that two rounds show counts twice.
// Reformer's shared queries and keys are heads skv with tie: qk.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct LshConfig {
  std::string form = "union";
  int64_t rounds = 4, buckets = 16, chunk = 64, seed = 0;
  bool self_last_resort = false;
  void fields(Fields& f) {
    f("form", form,
      "union: a query sees the keys that share a bucket with it in one of the rounds; chunked: each round sorts keys "
      "by bucket and cuts them into chunks; a query sees its chunk and the one before, with one softmax per round",
      one_of({"union", "chunked"}));
    f("rounds", rounds, "rounds of hashing", between(1, 64));
    f("chunk", chunk, "chunked: chunk size in tokens (m)", at_least(1));
    f("self_last_resort", self_last_resort, "a token sees itself only if it sees no other token");
    f("buckets", buckets, "hash buckets per round, even; about tokens / 64", between(2, 1 << 16));
    f("seed", seed, "seed of the random directions", at_least(0));
  }
};

class Lsh final : public Field {
 public:
  Lsh(const Scope& scope, const LshConfig& config, const Args& args) : config_(config), args_(args) {
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width});  // directions by place
    check_usage(config.buckets % 2 == 0, "lsh", "buckets must be even, got ", config.buckets);
    check_usage(config.rounds * config.buckets <= 1 << 16, "lsh", "rounds x buckets must be at most 65536, got ",
                config.rounds, " x ", config.buckets);
    check_usage(!args.cross || (!chunked() && !config.self_last_resort), "lsh", chunked() ? "form: chunked" : "",
                chunked() && config.self_last_resort ? " and " : "", config.self_last_resort ? "self_last_resort" : "",
                " has no cross form: queries have no place among the keys of another text; give the decoder's "
                "model.cross_attention field lsh with form: union");
    const int64_t all = config.rounds * args.num_attention_heads * args.key_dim * (config.buckets / 2);
    const RandomKey key{
        .seed = uint64_t(config.seed), .layer = uint32_t(scope.layer() + 1), .purpose = purpose_of("field.lsh")};
    for (int64_t i = 0; i < all; ++i) directions_.push_back(random_normal(key, uint64_t(i)));
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (chunked() || (!in.labels && !in.k.defined())) return all;
    const int64_t heads = args_.num_attention_heads;
    const Tensor of_queries = hash(in.q.value(), heads), of_keys = in.labels ? in.labels : label(in.k.value());
    if (of_keys.is_meta()) return all;
    return labelled_pattern(args_.causal, heads, config_.buckets, in, of_queries, of_keys, config_.self_last_resort);
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    if (!chunked() || (!in.labels && !in.k.defined())) return {};
    LogitBias out;
    out.use = LogitBias::Use::rounds;
    out.rounds.resize(size_t(config_.rounds));
    const Tensor of_queries = hash(in.q.value(), heads), of_keys = in.labels ? in.labels : label(in.k.value());
    if (of_keys.is_meta()) return out;
    std::vector<std::shared_ptr<kernels::TileMask>> rounds;
    for (auto& round : out.rounds) round = rounds.emplace_back(std::make_shared<kernels::TileMask>());
    const std::vector<int64_t> offsets = key_offsets(in);
    for (int64_t b = 0; b < in.queries.count(); ++b)
      for (int64_t head = 0; head < heads; ++head) add_rounds(in, b, head, offsets, of_queries, of_keys, rounds);
    return out;
  }
  bool biases() const override { return chunked(); }
  BiasForm bias_form() const override { return {.prior = chunked()}; }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType) const override {
    return {args_.num_attention_heads * config_.rounds, label_type(config_.buckets)};
  }
  Tensor label(const Tensor& keys) const override { return hash(keys, args_.kv_heads); }

 private:
  LshConfig config_;
  Args args_;
  std::vector<double> directions_;  // [rounds][heads][buckets / 2][d_h]

  bool chunked() const { return config_.form == "chunked"; }
  // Who meets in each round of one sequence and head.
  void add_rounds(const FieldInput& in, int64_t b, int64_t head, const std::vector<int64_t>& offsets,
                  const Tensor& of_queries, const Tensor& of_keys,
                  std::vector<std::shared_ptr<kernels::TileMask>>& rounds) const {
    const int64_t n = in.queries.length(b), count = in.keys[size_t(b)].count, columns = of_keys.cols(),
                  ahead = in.queries.past(b) - in.keys[size_t(b)].first;
    const auto buckets = [&](const Tensor& of, int64_t begin, int64_t rows, size_t round) {
      std::vector<double> out;
      for (int64_t i = 0; i < rows; ++i)
        out.push_back(value_at(of, (begin + i) * columns + head * config_.rounds + int64_t(round)));
      return out;
    };
    std::vector<std::vector<std::vector<int64_t>>> seen;
    std::vector<char> alone(size_t(n), 1);  // no round shows a query another key
    for (size_t round = 0; round < rounds.size(); ++round) {
      seen.push_back(sorted_chunks(buckets(of_queries, in.queries.offset(b), n, round),
                                   buckets(of_keys, offsets[size_t(b)], count, round),
                                   {.causal = args_.causal, .previous = true, .size = config_.chunk, .ahead = ahead}));
      for (int64_t i = 0; i < n; ++i)
        for (const int64_t j : seen.back()[size_t(i)]) alone[size_t(i)] = alone[size_t(i)] && j == i + ahead;
    }
    for (size_t round = 0; round < rounds.size(); ++round)
      rounds[round]->visits.push_back(visits_of(n, count, [&](int64_t i, std::vector<KeyRange>& out) {
        const int64_t own = i + ahead;
        const bool sees_own = !config_.self_last_resort || alone[size_t(i)];
        for (const int64_t j : seen[round][size_t(i)])
          if (j != own) out.push_back({j, j + 1});
        if (sees_own) out.push_back({own, own + 1});
      }));
  }
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
  registry.add<Field, Lsh, LshConfig>(
      "lsh", {.spec = "sparse.lsh",
              .summary = "a query sees the keys of its hash bucket in one of the rounds (Reformer)",
              .source = "TB 6.4.1; Kitaev et al. 2020",
              .cross = true,
              .samples = {"{rounds: 2, buckets: 4}", "{rounds: 2, buckets: 4, self_last_resort: true}",
                          "{form: chunked, rounds: 2, buckets: 4, chunk: 2}",
                          "{form: chunked, rounds: 3, buckets: 2, chunk: 3, self_last_resort: true}"}});
}

}  // namespace lithe
