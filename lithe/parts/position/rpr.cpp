// Relative position representations [TB Eq 6.71-6.76; Shaw et al. 2018]: learned vectors by distance, shared by the
// heads and by all layers of a kind, are added to queries, keys and values: (q_i + u^q_t) . (k_j + u^k_t) / sqrt(d_h),
// and v_j + u^v_t, with t = i
// - j clipped to [-k, k]. What depends on the distance is multiplied with few vectors and never stored for all pairs.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct RprConfig {
  int64_t clip = 16, head_dim = 0;
  bool use_q = false, use_k = true, use_v = true;
  void fields(Fields& f) {
    f("clip", clip, "largest distance k with its own vector; larger distances share that of k", between(0, 1 << 16));
    f("use_q", use_q,
      "add relative position vectors to queries; in generation, each step multiplies these vectors with all keys "
      "again");
    f("use_k", use_k, "add relative position vectors to keys");
    f("use_v", use_v, "add relative position vectors to values");
    f("head_dim", head_dim, "channels d_h per head; 0: hidden_size / num_attention_heads",
      at_least(0).of({Dimension::head_width}));
  }
};

// spec: pos.rpr_shaw | position | rpr without vectors for queries, its default | TB Eq 6.76
//
// spec: pos.rpr_logit | position | rpr without vectors for values; t5_bias is the form with one number a distance | TB
// 6.3.1(3)
class Rpr final : public Position {
 public:
  Rpr(const Scope& scope, const RprConfig& config, const Args& args)
      : clip_(config.clip), head_dim_(config.head_dim), causal_(args.causal) {
    check_usage(config.use_q || config.use_k || config.use_v, "rpr", "one of use_q, use_k and use_v must be true");
    if (head_dim_ == 0) {
      const int64_t heads = args.num_attention_heads;
      check_usage(heads > 0 && args.hidden_size % heads == 0, "rpr", "hidden_size ", args.hidden_size,
                  " must be a multiple of the num_attention_heads of all layers, ", heads, ", or give head_dim");
      head_dim_ = args.hidden_size / heads;
    }
    const auto table = [&](bool use, const char* name) -> Parameter* {
      return use ? scope.parameter(name, {2 * clip_ + 1, Axis::head_width(head_dim_)}, InitRole::embedding,
                                   {.wide = true})
                 : nullptr;
    };
    q_ = table(config.use_q, "q"), k_ = table(config.use_k, "k"), v_ = table(config.use_v, "v");
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    LogitBias out;
    out.first = first();
    const DType wide = wide_of(in.q.dtype());
    if (k_) out.rows = products(in.q, heads, vectors(k_, wide), in.scale);
    if (q_) {
      check(in.k.defined(), "rpr", "vectors for queries need the keys");
      const int64_t kv_heads = in.k.cols() / head_dim_;
      out.columns = products(repeat_heads(in.k, kv_heads, heads), heads, vectors(q_, wide), in.scale);
    }
    if (q_ && k_) {
      // Of both vectors: the same for all queries and heads.
      const Var each = linear(mul(vectors(q_, wide), vectors(k_, wide)), ones(wide, in.q.device()));
      out.table = spread_heads(scale(each, in.scale), heads);
    }
    return out;
  }
  DistanceValues values() const override {
    return v_ ? DistanceValues{vectors(v_, wide_of(v_->master.dtype())), first()} : DistanceValues{};
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override {
    return {.table = q_ && k_, .rows = k_ != nullptr, .columns = q_ != nullptr, .values = v_ != nullptr};
  }
  bool reads_keys() const override { return q_ != nullptr; }
  bool reads_heads() const override { return true; }
  void check_heads(const HeadSizes& of) const override {
    if (q_ || k_)
      check_usage(of.key_dim == head_dim_, "rpr", "vectors have ", head_dim_, " channels, heads ", of.key_dim,
                  "; give position.head_dim: ", of.key_dim);
    if (v_)
      check_usage(of.value_dim == head_dim_, "rpr", "vectors have ", head_dim_, " channels, heads' values ",
                  of.value_dim, "; give position.",
                  of.value_dim == of.key_dim ? cat("head_dim: ", of.value_dim) : "use_v: false");
  }

 private:
  int64_t clip_, head_dim_;
  bool causal_;
  Parameter *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;  // row t + clip is of distance t

  int64_t first() const { return causal_ ? 0 : -clip_; }
  // Of the distances from first() on.
  Var vectors(const Parameter* table, DType type) const {
    const Var all = cast(table->var(), type);
    return causal_ ? slice_rows(all, clip_, 2 * clip_ + 1) : all;
  }
  // x [N, heads*d_h] with each vector: [N, heads*count].
  Var products(const Var& x, int64_t heads, const Var& vectors, double by) const {
    const int64_t rows = x.rows();
    check(x.cols() == heads * head_dim_, "rpr", "rows of ", x.cols(), " numbers are not ", heads, " heads of ",
          head_dim_);
    const Var flat = reshape(cast(x, vectors.dtype()), {rows * heads, head_dim_});
    return reshape(scale(linear(flat, vectors, {}, true), by), {rows, heads * vectors.rows()});
  }
  Var ones(DType type, Device device) const {
    Tensor one = empty({head_dim_, 1}, type, device);
    if (!one.is_meta())
      for (int64_t i = 0; i < head_dim_; ++i) set_value(one, i, 1);
    return one;
  }
};

}  // namespace

void register_position_rpr(Registry& registry) {
  registry.add<Position, Rpr, RprConfig>(
      "rpr",
      {.spec = "pos.rpr",
       .summary =
           "learned relative position vectors, added to queries, keys and values; layers of one kind share a table",
       .source = "TB Eq 6.71-6.76; Shaw et al. 2018",
       .samples = {"{clip: 2}", "{clip: 3, use_q: true}", "{clip: 3, use_v: false}", "{clip: 2, use_k: false}"}});
}

}  // namespace lithe
