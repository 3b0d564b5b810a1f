// Queries see the keys of the same cluster, and their own [TB 6.4.1; Roy et al. 2021]: unit vectors of queries and keys
// belong to the centroid of largest product. Centroids learn by a loss that draws them and their vectors to each other.
#include <algorithm>
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/norm.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct KmeansConfig {
  int64_t clusters = 2;
  double commitment = 1e-4;
  void fields(Fields& f) {
    f("clusters", clusters, "of a head, about the square root of the tokens", at_least(1));
    f("commitment", commitment, "weight of the mean squared distance of vectors to their centroids", at_least(0));
  }
};

class KMeans final : public Field {
 public:
  KMeans(const Scope& scope, const KmeansConfig& config, const Args& args)
      : config_(config),
        args_(args),
        centroids_(scope.parameter("centroids",
                                   {args.query_heads * Axis(config.clusters), Axis::head_width(args.key_dim)},
                                   InitRole::query_key, {.wide = true})) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    if (!in.labels && !in.k.defined()) return all;
    const Tensor of_queries = clusters(in.q.value(), args_.num_attention_heads),
                 of_keys = in.labels ? in.labels : label(in.k.value());
    commit(in, of_queries, of_keys);
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
    in.pass.add_loss("cluster_commitment",
                     add(distance(in.q, heads, of_queries), distance(in.k, args_.kv_heads, of_keys)));
  }
};

}  // namespace

void register_field_kmeans(Registry& registry) {
  registry.add<Field, KMeans, KmeansConfig>("kmeans", {.spec = "sparse.kmeans",
                                                       .summary = "keys of the same cluster as the query",
                                                       .source = "TB 6.4.1; Roy et al. 2021",
                                                       .samples = {"{clusters: 2, commitment: 0.1}"}});
}

}  // namespace lithe
