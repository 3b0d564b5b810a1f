// Dense layer fusion: a layer's result is fused with the results of all layers below it. F is what a layer adds to its
// rows; z_0 are the embedded rows [TB 6.3.2(3), Eq 6.87-6.94, Table 6.2; Wang et al. 2019].
// spec: fuse.pre | stack | z_l = phi(F(z_{l-1}), z_0 ... z_{l-1}) | TB Eq 6.92-6.93
// spec: fuse.post | stack | z_l = norm(phi(F(z_{l-1}), z_0 ... z_{l-1})) | TB Eq 6.90-6.91
// spec: fuse.dense | stack | z_l = norm(layer(phi(z_0 ... z_{l-1}))) | TB Eq 6.87-6.89
// spec: fuse.phi | stack | mean, learned weights, feed-forward, self-attention over layers | TB Table 6.2
// spec: fuse.sparse_top | stack | only the last layers fuse | TB 6.3.2(3) end
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/attention.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/weighted_sum.h"

namespace lithe {
namespace {

struct FusionConfig {
  std::string form = "pre", phi = "weighted";
  int64_t top = -1, intermediate_size = 0;
  PartChoice norm{"layer", {}};
  void fields(Fields& f) {
    f("form", form,
      "pre: phi(F(z_{l-1}), z_0 ... z_{l-1}); post: the norm of that; dense: norm of the layer's result on phi(z_0 ... "
      "z_{l-1})",
      one_of({"pre", "post", "dense"}));
    f("phi", phi,
      "avg: mean; weighted: a learned weighted sum, initially the mean; ffn: two maps of all inputs, concatenated; "
      "selfattn: the same after one-head attention among them, for each token",
      one_of({"avg", "weighted", "ffn", "selfattn"}));
    f("top", top, "number of last layers that fuse; the others do not; -1: all", at_least(-1));
    f("intermediate_size", intermediate_size, "phi ffn and selfattn: hidden width; 0: hidden_size",
      at_least(0).of({Dimension::ffn}));
    f.part("norm", "norm", norm, "form post, dense: norm of each fused layer");
  }
};

class Fusion final : public Stack {
 public:
  Fusion(const Scope& scope, const FusionConfig& config, const Args& args)
      : config_(config), width_(args.hidden_size), layers_(args.num_hidden_layers) {
    for (int64_t l = 0; l < layers_; ++l) phis_.push_back(make(scope / std::to_string(l), l));
  }

  bool keeps_rows() const override { return true; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    const bool dense = config_.form == "dense";
    std::vector<Var> z{x.x};
    for (int64_t l = 0; l < layers.count(); ++l) {
      const Var in = dense && fuses(l) ? fuse(phis_[size_t(l)], z) : z.back();
      // Apart from what else reads these rows, so that gradients add up alike where the layer is recomputed.
      Var out = layers.run(l, {reshape(in, in.shape()), x.sequences}, pass).x;
      if (fuses(l)) {
        const kernels::PartScope part(cat("stack.", l));
        if (!dense) {
          std::vector<Var> inputs = z;
          inputs.push_back(add(out, in, 1, -1));
          out = fuse(phis_[size_t(l)], inputs);
        }
        if (phis_[size_t(l)].norm) out = phis_[size_t(l)].norm->forward(out);
      }
      z.push_back(out);
    }
    return {z.back(), x.sequences};
  }

 private:
  struct Phi {
    int64_t inputs = 0;
    Var mean;  // avg: the weights [inputs]
    Parameter* weights = nullptr;
    Linear query, key, value, output;  // selfattn
    Linear up, down;                   // ffn, selfattn
    std::unique_ptr<Norm> norm;
  };
  FusionConfig config_;
  int64_t width_, layers_;
  std::vector<Phi> phis_;

  bool fuses(int64_t layer) const { return config_.top < 0 || layer >= layers_ - config_.top; }

  Phi make(const Scope& scope, int64_t layer) const {
    Phi phi;
    if (!fuses(layer)) return phi;
    const int64_t n = phi.inputs = layer + (config_.form == "dense" ? 1 : 2), d = width_;
    const Axis rows = Axis::hidden(d);
    if (config_.phi == "avg") {
      const BuildContext& c = scope.context();
      const Tensor weights = empty({n}, c.compute == DType::f64 ? DType::f64 : DType::f32, c.device);
      for (int64_t k = 0; k < n && !weights.is_meta(); ++k) set_value(weights, k, 1 / double(n));
      phi.mean = Var(weights);
    } else if (config_.phi == "weighted") {
      phi.weights = scope.parameter("weights", {n}, InitRole::ones);
      const Tensor value = phi.weights->master.value();
      if (!value.is_meta()) kernels::add({.a = value, .b = {}, .out = value, .alpha = 1 / double(n)});
    } else {
      if (config_.phi == "selfattn") {
        phi.query = Linear(scope / "query", rows, rows, false, InitRole::query_key);
        phi.key = Linear(scope / "key", rows, rows, false, InitRole::query_key);
        phi.value = Linear(scope / "value", rows, rows, false);
        phi.output = Linear(scope / "output", rows, rows, false);
        scope.couples({Dimension::hidden});  // logits are divided by the root of it
      }
      const Axis hidden = config_.intermediate_size ? Axis::ffn(config_.intermediate_size) : rows;
      phi.up = Linear(scope / "up", Axis(n) * rows, hidden, true);
      phi.down = Linear(scope / "down", hidden, rows, true);
    }
    if (config_.form != "pre")
      phi.norm = Registry::instance().make<Norm>(config_.norm, scope / "norm", {.hidden_size = d});
    return phi;
  }

  Var fuse(const Phi& phi, const std::vector<Var>& z) const {
    if (phi.mean.defined()) return weighted_sum(z, phi.mean);
    if (phi.weights) return weighted_sum(z, phi.weights->var());
    // [layers * N, D] with the layers of a token one after another.
    const int64_t n = phi.inputs, N = z[0].rows();
    std::vector<int64_t> by_token;
    for (int64_t t = 0; t < N; ++t)
      for (int64_t k = 0; k < n; ++k) by_token.push_back(k * N + t);
    Var rows = pick_rows(concatenate_rows(z), by_token);
    if (phi.query.weight) {
      std::vector<int64_t> offsets;
      for (int64_t t = 0; t <= N; ++t) offsets.push_back(t * n);
      const Sequences tokens(offsets, {}, rows.device());
      const std::vector<Var> qkv = apply_each({&phi.query, &phi.key, &phi.value}, rows);
      rows = phi.output(attend(qkv[0], qkv[1], qkv[2], tokens, tokens, {.heads = 1, .kv_heads = 1}));
    }
    return activated_linear(kernels::Activation::relu, phi.up(reshape(rows, {N, n * width_})), {},
                            phi.down.weight->var(), phi.down.bias->var());
  }
};

}  // namespace

void register_stack_fusion(Registry& registry) {
  registry.add<Stack, Fusion, FusionConfig>(
      "fusion", {.spec = "fuse.pre",
                 .summary = "dense connections: each layer's input is fused with the results of all layers below",
                 .source = "TB 6.3.2(3), Eq 6.87-6.94, Table 6.2",
                 .samples = {"{form: post, phi: avg}", "{form: dense}", "{phi: ffn, top: 1}",
                             "{phi: selfattn, intermediate_size: 7}"}});
}

}  // namespace lithe
