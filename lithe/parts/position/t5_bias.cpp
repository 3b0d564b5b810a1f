// Relative positions as in T5: a learned number for each head and bucket of distances is added to the logits; near
// distances have buckets of their own, farther ones share them on a logarithmic scale [TB 6.3.1(3); Raffel et al.
// 2020].
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct T5BiasConfig {
  int64_t buckets = 32, max_distance = 128;
  void fields(Fields& f) {
    f("buckets", buckets, "number of buckets per head; encoders use half of them for keys after the query",
      between(2, 1 << 16));
    f("max_distance", max_distance, "distances from this on share the last bucket", between(1, 1 << 20));
  }
};

class T5Bias final : public Position {
 public:
  T5Bias(const Scope& scope, const T5BiasConfig& config, const Args& args) {
    check_usage(args.num_attention_heads > 0, "t5_bias",
                "one table serves all layers, whose mixers must have one and the same num_attention_heads; give layers "
                "that differ a position of their own");
    const int64_t sided = args.causal ? config.buckets : config.buckets / 2;
    check_usage(config.max_distance > sided / 2, "t5_bias", "max_distance ", config.max_distance,
                " must be larger than the ", sided / 2, " distances that have buckets of their own");
    table_ = scope.parameter("weight",
                             {config.buckets, Axis::query_heads(args.num_attention_heads, args.num_attention_heads)},
                             InitRole::embedding, {.wide = true});
    first_ = args.causal ? 0 : -config.max_distance;
    for (int64_t distance = first_; distance <= config.max_distance; ++distance)
      bucket_of_.push_back(bucket(distance, sided, config.max_distance, args.causal));
  }
  LogitBias bias(const FieldInput&, int64_t heads) const override {
    check(heads == table_->master.cols(), "t5_bias", "the table is of ", table_->master.cols(),
          " heads, attention has ", heads);
    const Var table = table_->var();
    return {pick_rows(cast(table, wide_of(table.dtype())), bucket_of_), first_};
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.table = true}; }
  void check_heads(const HeadSizes& of) const override {
    const int64_t heads = table_->master.cols();
    check_usage(of.heads == heads, "t5_bias", "the table is of ", heads, " heads (num_attention_heads), attention has ",
                of.heads, " query heads; give heads that make ", heads, ", or num_attention_heads: ", of.heads);
  }

 private:
  Parameter* table_;  // wide: logits are in f32
  int64_t first_ = 0;
  std::vector<int64_t> bucket_of_;  // of distances from first_ on

  // Distance: query's position - key's. Keys after the query have the second half of the buckets.
  static int64_t bucket(int64_t distance, int64_t sided, int64_t max_distance, bool causal) {
    const int64_t after = !causal && distance < 0 ? sided : 0, far = std::abs(distance), exact = sided / 2;
    if (far < exact) return after + far;
    const double share = std::log(double(far) / double(exact)) / std::log(double(max_distance) / double(exact));
    return after + std::min(sided - 1, exact + int64_t(share * double(sided - exact)));
  }
};

}  // namespace

void register_position_t5_bias(Registry& registry) {
  registry.add<Position, T5Bias, T5BiasConfig>(
      "t5_bias",
      {.summary =
           "T5's relative position bias: a learned number for each head and bucket of distances, added to the logits",
       .source = "TB 6.3.1(3); Raffel et al. 2020",
       .samples = {"{buckets: 4, max_distance: 3}"}});
}

}  // namespace lithe
