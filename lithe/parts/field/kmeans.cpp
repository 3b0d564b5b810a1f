// Queries see the keys of the same cluster, and their own [TB 6.4.1; Roy et al. 2021]: unit vectors of queries and keys
// belong to the centroid of largest product. Centroids learn by a loss that draws them and their vectors to each other;
// or they are moving averages of their vectors, at length 1. In the balanced form each centroid takes equally many
// queries and keys of a text, those of largest product with it.
#include <algorithm>
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/norm.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct KmeansConfig {
  int64_t clusters = 2, window = 0;
  std::string centroids = "commitment";
  double commitment = 1e-4, decay = 0.999;
  bool balanced = false;
  void fields(Fields& f) {
    f("clusters", clusters, "clusters per head, about sqrt(tokens)", at_least(1));
    f("centroids", centroids,
      "how centroids are updated: commitment: by a loss; ema: by the mean of each step's vectors (no gradient; scaled "
      "to length 1)",
      one_of({"commitment", "ema"}));
    f("commitment", commitment,
      "weight of the loss, the mean squared distance of vectors to their centroids; with ema this loss moves only the "
      "vectors",
      at_least(0));
    f("decay", decay, "ema: decay of the moving average of a centroid per step", between(0.01, 1 - 1e-9));
    f("balanced", balanced,
      "clusters of equal size: each centroid takes the `window` queries and keys with the largest products with it; "
      "encoders only, because the choice reads the whole text");
    f("window", window, "balanced: queries and keys per centroid (w); 0: tokens / clusters, rounded up", at_least(0));
  }
};

class KMeans final : public Field {
 public:
  KMeans(const Scope& scope, const KmeansConfig& config, const Args& args)
      : config_(config),
        args_(args),
        centroids_(scope.parameter("centroids",
                                   {args.query_heads * Axis(config.clusters), Axis::head_width(args.key_dim)},
                                   InitRole::query_key, {.wide = true, .follows = ema() ? config.decay : 0})) {
    check_usage(!config.balanced || !args.causal, "kmeans",
                "balanced: true takes the best of a whole text for each centroid, which shows the future, and has no "
                "causal form; leave it out");
    check_usage(
        !config.balanced || !args.cross, "kmeans",
        "balanced: true takes the best of all queries for each centroid, and has no cross form for queries that "
        "come one by one; give the decoder's model.cross_attention field kmeans without it");
    if (ema()) to_length_1();
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !in.k.defined()) return all;
    if (config_.balanced) return balanced(in, all);
    const Tensor of_queries = clusters(in.q.value(), args_.num_attention_heads),
                 of_keys = in.labels ? in.labels : label(in.k.value());
    learn(in, of_queries, of_keys);
    if (of_keys.is_meta()) return all;
    return labelled_pattern(args_.causal, args_.num_attention_heads, config_.clusters, in, of_queries, of_keys);
  }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType) const override { return {args_.num_attention_heads, label_type(config_.clusters)}; }
  Tensor label(const Tensor& keys) const override { return clusters(keys, args_.kv_heads); }

 private:
  KmeansConfig config_;
  Args args_;
  Parameter* centroids_;

  bool ema() const { return config_.centroids == "ema"; }

  // As every step leaves them.
  void to_length_1() const {
    const Tensor& x = centroids_->master.value();
    for (int64_t row = 0; !x.is_meta() && row < x.rows(); ++row) {
      double square = 0;
      for (int64_t c = 0; c < x.cols(); ++c) square += std::pow(value_at(x, row * x.cols() + c), 2);
      for (int64_t c = 0; square > 0 && std::isfinite(square) && c < x.cols(); ++c)
        set_value(x, row * x.cols() + c, value_at(x, row * x.cols() + c) / std::sqrt(square));
    }
  }

  // The products of a head's unit vectors, rows [begin, begin + n) of x, with each of its centroids: [C][n].
  std::vector<std::vector<double>> nearness(const Tensor& x, int64_t of_rows, int64_t begin, int64_t n,
                                            int64_t head) const {
    const int64_t d = args_.key_dim, clusters = config_.clusters, of = head * of_rows / args_.num_attention_heads;
    const Tensor centroids = cast(centroids_->var(), DType::f64).value();
    const std::vector<double> products =
        head_products(x, begin, n, of, of_rows, {centroids.data<double>() + head * clusters * d, size_t(clusters * d)});
    std::vector<std::vector<double>> out(static_cast<size_t>(clusters), std::vector<double>(static_cast<size_t>(n)));
    for (int64_t i = 0; i < n; ++i) {
      const double length = std::sqrt(length_squared(x, (begin + i) * x.cols() + of * d));
      for (int64_t c = 0; c < clusters; ++c)
        out[size_t(c)][size_t(i)] = length > 0 ? products[size_t(i * clusters + c)] / length : 0;
    }
    return out;
  }
  double length_squared(const Tensor& x, int64_t at) const {
    double square = 0;
    for (int64_t c = 0; c < args_.key_dim; ++c) square += std::pow(value_at(x, at + c), 2);
    return square;
  }

  kernels::AttentionPattern balanced(const FieldInput& in, const kernels::AttentionPattern& all) const {
    const Tensor q = in.q.value(), k = in.k.value();
    learn(in, clusters(q, args_.num_attention_heads), clusters(k, args_.kv_heads));
    if (k.is_meta()) return all;
    const std::vector<int64_t> offsets = key_offsets(in);
    return tiled_pattern(false, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      const int64_t n = in.queries.length(b), count = in.keys[size_t(b)].count;
      const int64_t window = config_.window ? config_.window : (count + config_.clusters - 1) / config_.clusters;
      const auto largest = [&](std::vector<double> products) {
        for (double& product : products) product = -product;
        auto rows = products.empty() ? std::vector<int64_t>()
                                     : at_ranks(products, 0, std::min(window, int64_t(products.size())));
        std::sort(rows.begin(), rows.end());
        return rows;
      };
      const auto of_queries = nearness(q, args_.num_attention_heads, in.queries.offset(b), n, head),
                 of_keys = nearness(k, args_.kv_heads, offsets[size_t(b)], count, head);
      std::vector<std::vector<int64_t>> seen(static_cast<size_t>(n));
      for (size_t c = 0; c < of_keys.size(); ++c) {
        const std::vector<int64_t> keys = largest(of_keys[c]);
        for (const int64_t i : largest(of_queries[c]))
          seen[size_t(i)].insert(seen[size_t(i)].end(), keys.begin(), keys.end());
      }
      return visits_of(n, count, [&](int64_t i, std::vector<KeyRange>& out) {
        for (const int64_t j : seen[size_t(i)]) out.push_back({j, j + 1});
        out.push_back({i, i + 1});
      });
    });
  }

  // What a step of training learns of the vectors of each cluster.
  void learn(const FieldInput& in, const Tensor& of_queries, const Tensor& of_keys) const {
    commit(in, of_queries, of_keys);
    if (!centroids_->means || !Tape::current() || !in.k.defined()) return;
    gather(in.q.value(), args_.num_attention_heads, of_queries);
    gather(in.k.value(), in.k.cols() / args_.key_dim, of_keys);
  }
  void gather(const Tensor& x, int64_t of_rows, const Tensor& clusters) const {
    const int64_t heads = args_.num_attention_heads, d = args_.key_dim;
    std::vector<double> unit(static_cast<size_t>(d));
    for (int64_t i = 0; !x.is_meta() && i < x.rows(); ++i)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = i * x.cols() + head * of_rows / heads * d;
        const double length = std::sqrt(length_squared(x, at));
        if (length == 0) continue;
        for (int64_t c = 0; c < d; ++c) unit[size_t(c)] = value_at(x, at + c) / length;
        centroids_->means->gather(head * config_.clusters + int64_t(value_at(clusters, i * heads + head)), unit.data());
      }
  }

  // The centroid of each row and query head, a number in the head: [rows, heads]. `of_rows` heads x has, which groups
  // of query heads share. The length of a vector does not matter.
  Tensor clusters(const Tensor& x, int64_t of_rows) const {
    const int64_t d = args_.key_dim, heads = args_.num_attention_heads, group = heads / of_rows, rows = x.rows();
    const Tensor out = empty({rows, heads}, label_type(config_.clusters), x.device());
    const Tensor centroids = cast(centroids_->var().value(), DType::f64).value();
    if (out.is_meta()) return out;
    const int64_t clusters = config_.clusters;
    for (int64_t head = 0; head < heads; ++head) {
      const std::vector<double> products = head_products(
          x, 0, rows, head / group, of_rows, {centroids.data<double>() + head * clusters * d, size_t(clusters * d)});
      for (int64_t i = 0; i < rows; ++i) {
        const double* of = products.data() + i * clusters;
        set_value(out, i * heads + head, double(std::max_element(of, of + clusters) - of));
      }
    }
    return out;
  }

  // Draws centroids and the unit vectors of their queries and keys to each other.
  void commit(const FieldInput& in, const Tensor& of_queries, const Tensor& of_keys) const {
    if (config_.commitment == 0 || !training() || !in.k.defined()) return;
    const int64_t heads = args_.num_attention_heads, d = args_.key_dim;
    const auto distance = [&](const Var& x, int64_t of_rows, const Tensor& clusters) {
      const int64_t rows = x.rows(), group = heads / of_rows;
      std::vector<int64_t> each, of;  // the rows of x's own heads, and of the centroids
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t head = 0; head < heads; ++head) {
          each.push_back(i * of_rows + head / group);
          const double cluster = clusters.is_meta() ? 0 : value_at(clusters, i * heads + head);
          of.push_back(head * config_.clusters + int64_t(cluster));
        }
      const DType wide = wide_of(x.dtype());
      Tensor weight = empty({d}, wide, x.device());
      if (!weight.is_meta())
        for (int64_t c = 0; c < d; ++c) set_value(weight, c, 1 / std::sqrt(double(d)));
      const Var vectors = reshape(cast(x, wide), {rows * of_rows, d});
      const Var unit = normalise(kernels::NormKind::rms, vectors, weight, {}, 1e-12 / double(d));
      const Var apart = add(pick_rows(cast(centroids_->var(), wide), of), pick_rows(unit, each), 1, -1);
      return scale(sum(mul(apart, apart)), config_.commitment / double(std::max<int64_t>(1, rows * heads)));
    };
    // Of names of their own, so that a layer that is computed again adds one loss to each sum.
    in.pass.add_loss(args_.cross ? "cross_cluster_commitment" : "cluster_commitment",
                     add(distance(in.q, heads, of_queries), distance(in.k, args_.kv_heads, of_keys)));
  }
};

}  // namespace

void register_field_kmeans(Registry& registry) {
  registry.add<Field, KMeans, KmeansConfig>(
      "kmeans",
      {.spec = "sparse.kmeans",
       .summary = "a query sees the keys of its k-means cluster (Routing Transformer)",
       .source = "TB 6.4.1; Roy et al. 2021",
       .cross = true,
       .samples = {"{clusters: 2, commitment: 0.1}", "{clusters: 3, centroids: ema, decay: 0.9, commitment: 0}"},
       .sees_ahead_samples = {"{clusters: 2, balanced: true, window: 3, commitment: 0.1}"}});
}

}  // namespace lithe
