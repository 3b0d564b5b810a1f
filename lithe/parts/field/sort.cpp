// Positions are sorted by a score, and chunks of neighbours in that order see each other [TB 6.4.1; Tay et al. 2020].
// Scores are products with a direction: a fixed random one of each head, or one u that is learned, the same in all
// heads; the order has no gradient, so that log sigmoid(u . k_j) is added to the logits of key j, by which u learns.
// Causal models sort what each query has before it, anew for every query, so that nothing of the future is in the
// order.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/elementwise.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct SortConfig {
  int64_t size = 64, seed = 0;
  bool previous = false, soft_bias = true;
  std::string score = "random";
  void fields(Fields& f) {
    f("size", size, "chunk size in tokens", at_least(1));
    f("previous", previous, "a chunk also sees the chunk before it");
    f("score", score,
      "score of a vector: its product with a fixed random direction of each head (random), or with one learned vector "
      "u for all heads (learned)",
      one_of({"random", "learned"}));
    f("soft_bias", soft_bias, "learned: add log sigmoid of a key's score to its logits; false: u is not trained");
    f("seed", seed, "random: seed of the directions", at_least(0));
  }
};

class Sort final : public Field {
 public:
  Sort(const Scope& scope, const SortConfig& config, const Args& args) : config_(config), args_(args) {
    if (config.score == "learned") {
      learned_ =
          scope.parameter("direction", {Axis::head_width(args.key_dim), Axis(1)}, InitRole::query_key, {.wide = true});
      return;
    }
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
      const auto seen = sorted_chunks(
          column(of_queries, in.queries.offset(b), n, head), column(of_keys, offsets[size_t(b)], count, head),
          {.causal = args_.causal, .previous = config_.previous, .size = config_.size, .ahead = ahead});
      return visits_of(n, count, [&](int64_t i, std::vector<KeyRange>& out) {
        for (const int64_t j : seen[size_t(i)]) out.push_back({j, j + 1});
        out.push_back({i + ahead, i + ahead + 1});
      });
    });
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    if (!biases()) return {};
    const DType wide = wide_of(in.q.dtype());
    if (in.labels) return {.columns = log_sigmoid(Var(as_type(in.labels, wide)))};
    const int64_t rows = in.k.rows(), of = in.k.cols() / args_.key_dim;
    const Var k = reshape(cast(in.k, wide), {rows * of, args_.key_dim}), u = cast(learned_->var(), wide);
    return {.columns = log_sigmoid(repeat_heads(reshape(linear(k, u), {rows, of}), of, heads))};
  }
  bool biases() const override { return learned_ && config_.soft_bias; }
  BiasForm bias_form() const override { return {.columns = biases()}; }
  bool reads_keys() const override { return true; }
  KeyLabels key_labels(DType) const override { return {args_.num_attention_heads, DType::f64}; }
  Tensor label(const Tensor& keys) const override { return scores(keys, keys.cols() / args_.key_dim); }

 private:
  SortConfig config_;
  Args args_;
  std::vector<double> directions_;  // [heads][d_h]
  Parameter* learned_ = nullptr;    // [d_h, 1]

  static Var log_sigmoid(const Var& scores) {
    return each_number(
        "log_sigmoid", scores, [](double s) { return -softplus(-s); }, [](double s, double) { return sigmoid(-s); });
  }
  // The score of each row and query head, [rows, heads]. `of_rows` heads x has, which groups of query heads share.
  Tensor scores(const Tensor& x, int64_t of_rows) const {
    const int64_t heads = args_.num_attention_heads, rows = x.rows();
    const auto d = size_t(args_.key_dim);
    const Tensor out = empty({rows, heads}, DType::f64, x.device()), u = learned_ ? learned_->var().value() : Tensor();
    if (out.is_meta()) return out;
    std::vector<double> same;
    for (size_t c = 0; learned_ && c < d; ++c) same.push_back(value_at(u, int64_t(c)));
    for (int64_t head = 0; head < heads; ++head) {
      const std::span<const double> direction =
          learned_ ? std::span<const double>(same) : std::span<const double>(directions_.data() + size_t(head) * d, d);
      const auto products = head_products(x, 0, rows, head * of_rows / heads, of_rows, direction);
      for (int64_t i = 0; i < rows; ++i) out.data<double>()[i * heads + head] = products[size_t(i)];
    }
    return out;
  }
};

}  // namespace

void register_field_sort(Registry& registry) {
  registry.add<Field, Sort, SortConfig>(
      "sort", {.spec = "sparse.sort",
               .summary = "keys are sorted by a score; a query sees those in its chunk of that order",
               .source = "TB 6.4.1; Tay et al. 2020",
               .samples = {"{size: 4}", "{size: 3, previous: true}", "{size: 4, score: learned}"}});
}

}  // namespace lithe
