// Feature maps of linear attention: queries and keys to rows whose products are the weights.
#pragma once

#include <cmath>

#include "lithe/nn/module.h"
#include "lithe/ops/feature_map.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pointwise.h"

namespace lithe {

/// What recipes say of a feature map.
struct FeatureMapConfig {
  std::string feature_map = "elu1";
  int64_t features = 0, feature_seed = 0;
  void map_fields(Fields& f) {
    f("feature_map", feature_map,
      "feature map of queries and keys: elu1 (x + 1 above 0, e^x below), relu, softmax over a head's channels, "
      "identity (weights may be negative), favor (Performer's positive random features)",
      one_of({"elu1", "relu", "softmax", "identity", "favor"}));
    f("features", features, "favor: random features per head; 0: head_dim ln(head_dim), rounded up", at_least(0));
    f("feature_seed", feature_seed, "favor: seed of the random directions, which stay fixed", at_least(0));
  }
  /// Columns of a head after the map.
  int64_t columns(int64_t head_dim) const {
    if (feature_map != "favor") return head_dim;
    if (features) return features;
    return std::max<int64_t>(1, int64_t(std::ceil(double(head_dim) * std::log(double(head_dim)))));
  }
  /// Rotary positions keep their meaning: products of mapped rows depend on products of rows.
  bool keeps_products() const { return feature_map == "identity" || feature_map == "favor"; }
};

// spec: kernel.linear | parts | feature maps elu1, relu, softmax, identity of linear attention | TB Eq 6.140-6.148
class FeatureMap {
 public:
  FeatureMap(const Scope& scope, const FeatureMapConfig& config, int64_t heads, int64_t head_dim)
      : map_(config.feature_map), heads_(heads) {
    if (map_ != "identity" && map_ != "relu") scope.couples({Dimension::head_width});  // of a zero they make something
    if (map_ != "favor") return;
    const int64_t m = config.columns(head_dim);
    const MemoryScope memory(MemoryClass::weights);
    directions_ = empty({head_dim, m}, scope.context().compute, scope.context().device);
    if (directions_.is_meta()) return;
    const Tensor drawn = orthogonal_directions(head_dim, m, uint64_t(config.feature_seed), scope.layer());
    for (int64_t i = 0; i < drawn.numel(); ++i) set_value(directions_, i, value_at(drawn, i));
  }
  /// [N, heads*d_h] -> [N, heads*columns]. Random features of queries may be scaled row by row: their largest is
  /// centred; keys must share one scale over time, which in models that see both ways (`whole`: their sequences) is
  /// that of the sequence's largest.
  Var operator()(const Var& x, bool queries, const Sequences* whole = nullptr) const {
    if (map_ == "elu1") return pointwise(kernels::Pointwise::elu1, x);
    if (map_ == "relu") return activate(kernels::Activation::relu, x);
    if (map_ == "softmax") return softmax_features(x, heads_);
    if (map_ == "favor" && whole && !queries) return random_features(x, directions_, heads_, *whole);
    if (map_ == "favor") return random_features(x, directions_, heads_, queries);
    return x;
  }

 private:
  std::string map_;
  int64_t heads_;
  Tensor directions_;
};

}  // namespace lithe
