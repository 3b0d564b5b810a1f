// Relative positions of Transformer-XL [TB 6.4.2(1); Dai et al. 2019, Eq 5]: q_i . k_j + q_i . r_t + u . k_j + v . r_t
// with t = i - j, where r_t is the sinusoidal row of the distance through W_r, and u and v are learned.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct XlConfig {
  int64_t max_distance = 256, head_dim = 0;
  void fields(Fields& f) {
    f("max_distance", max_distance, "distances from this on share a vector; usually the attention window",
      between(1, 1 << 16));
    f("head_dim", head_dim, "channels d_h per head; 0: hidden_size / num_attention_heads",
      at_least(0).of({Dimension::head_width}));
  }
};

// spec: pos.rpr_logit | position | its form xl: a row by distance meets queries, learned vectors meet both |
// TB 6.3.1(3)
class Xl final : public Position {
 public:
  Xl(const Scope& scope, const XlConfig& config, const Args& args)
      : far_(config.max_distance), heads_(args.num_attention_heads), head_dim_(config.head_dim), causal_(args.causal) {
    check_usage(heads_ > 0, "xl",
                "needs one num_attention_heads of all layers; a layer with another one has a position of "
                "its own (model.layers.NAME.position)");
    if (head_dim_ == 0) {
      check_usage(args.hidden_size % heads_ == 0, "xl", "hidden_size ", args.hidden_size,
                  " must be a multiple of num_attention_heads ", heads_, ", or give head_dim");
      head_dim_ = args.hidden_size / heads_;
    }
    width_ = args.hidden_size;
    const Axis heads = Axis::query_heads(heads_, heads_), channels = Axis::head_width(head_dim_);
    r_ = Linear(scope / "r", Axis::hidden(width_), heads * channels, false, InitRole::query_key);
    u_ = scope.parameter("u", {channels, heads}, InitRole::query_key, {.wide = true});
    v_ = scope.parameter("v", {heads * channels}, InitRole::zeros);
    scope.couples({Dimension::hidden});  // angles by place
    const MemoryScope memory(MemoryClass::weights);
    distances_ = distances(scope.context().compute, scope.context().device);
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    check(heads == heads_ && in.k.defined(), "xl", "was made for ", heads_, " heads and their keys, got ", heads,
          " heads");
    const DType wide = wide_of(in.q.dtype());
    LogitBias out;
    out.first = causal_ ? 0 : -far_;
    const Var rows = cast(r_(distances_), wide);  // [R, heads*d_h]
    const Var q = row_affine(cast(in.q, wide), {}, cast(v_->var(), wide));
    out.rows = scale(head_linear(q, rows, heads, true), in.scale);
    const Var keys = repeat_heads(cast(in.k, wide), in.k.cols() / head_dim_, heads);
    out.columns = scale(head_linear(keys, cast(u_->var(), wide), heads, false), in.scale);
    return out;
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.rows = true, .columns = true}; }
  bool reads_keys() const override { return true; }
  void check_heads(const HeadSizes& of) const override {
    check_usage(of.key_dim == head_dim_, "xl", "rows have ", head_dim_, " channels a head, heads ", of.key_dim,
                "; give position.head_dim: ", of.key_dim);
    check_usage(of.heads == heads_, "xl", "rows are of ", heads_, " heads (num_attention_heads), attention has ",
                of.heads, " query heads; give heads that make ", heads_, ", or num_attention_heads: ", of.heads);
  }

 private:
  int64_t far_, heads_, head_dim_, width_ = 0;
  bool causal_;
  Linear r_;
  Parameter *u_ = nullptr, *v_ = nullptr;
  Tensor distances_;

  // A sinusoidal row for each distance, [R, d].
  Tensor distances(DType dtype, Device device) const {
    const int64_t first = causal_ ? 0 : -far_;
    const Tensor out = empty({far_ - first + 1, width_}, dtype, device);
    for (int64_t i = 0; i < out.numel() && !out.is_meta(); ++i) {
      const int64_t c = i % width_;
      const double angle = double(first + i / width_) / std::pow(10000.0, double(c / 2 * 2) / double(width_));
      set_value(out, i, c % 2 ? std::cos(angle) : std::sin(angle));
    }
    return out;
  }
};

}  // namespace

void register_position_xl(Registry& registry) {
  registry.add<Position, Xl, XlConfig>(
      "xl", {.spec = "pos.rpr_logit",
             .summary = "Transformer-XL's relative positions: sinusoidal vectors by distance, multiplied with queries",
             .source = "Dai et al. 2019; TB 6.3.1(3)",
             .samples = {"{max_distance: 3}"}});
}

}  // namespace lithe
