// Self-gated weighting: each token weighs itself by its own query and key, and all queries share these weights
// [TH Eq 4.7-4.8, 4.18]. Rotary positions turn a token's query and key alike and so would change nothing: they are not
// applied.
#include <cmath>
#include <limits>

#include "lithe/nn/registry.h"
#include "lithe/ops/cumulative_softmax.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {
namespace {

struct NonapproxConfig : HeadSizes {
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

class NonApprox final : public Mixer {
 public:
  NonApprox(const Scope& scope, const NonapproxConfig& config, const Args& args)
      : size_(config.args("nonapprox", args.hidden_size)),
        causal_(args.causal),
        heads_(scope / "heads", size_, size_.num_attention_heads),
        output_(Registry::instance().make<Output>(
            config.output, scope / "output",
            {.context = heads_.context(), .hidden_size = args.hidden_size, .bias = config.output_bias})) {
    scope.couples({Dimension::head_width});  // logits are divided by the root of it
  }

  Var forward(const SubLayerInput& in) const override {
    const Gated rows = gated(in.x);
    if (!in.state) return output_->forward(cumulative_softmax(rows.logits, rows.values, in.sequences, causal_));
    auto& state = static_cast<RecurrentState&>(*in.state);
    return output_->forward(
        cumulative_softmax_step(rows.logits.value(), rows.values.value(), in.sequences, state.advance(in.sequences)));
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>("nonapprox", shape, state_shape());
  }
  // d + 2h scalars; sums are kept in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * state_shape().numel() * size_of(wide_of(dtype));
  }

  MixerMaps maps(const SubLayerInput& in) const override {
    const Tensor s = gated(in.x).logits.value();
    const int64_t T = s.rows(), h = s.cols();
    MixerMaps maps{.heads = h, .weights = zeros({h * T, T}, DType::f32), .logits = empty({h * T, T}, DType::f32)};
    for (int64_t row = 0; row < h * T; ++row) {
      const int64_t head = row / T, seen = causal_ ? row % T + 1 : T;
      const auto logit = [&](int64_t j) { return value_at(s, j * h + head); };
      double largest = logit(0), sum = 0;
      for (int64_t j = 0; j < seen; ++j) largest = std::max(largest, logit(j));
      for (int64_t j = 0; j < seen; ++j) sum += std::exp(logit(j) - largest);
      for (int64_t j = 0; j < T; ++j) {
        set_value(maps.logits, row * T + j, j < seen ? logit(j) : -std::numeric_limits<double>::infinity());
        if (j < seen) set_value(maps.weights, row * T + j, std::exp(logit(j) - largest) / sum);
      }
    }
    return maps;
  }

 private:
  struct Gated {
    Var logits, values;  // [N, h], [N, h d_h]
  };
  Heads::Args size_;
  bool causal_;
  ProjectedHeads heads_;
  std::unique_ptr<Output> output_;

  Gated gated(const Var& x) const {
    const auto silu = [](const Var& q) { return activate(kernels::Activation::silu, q); };
    const Var q = heads_.queries({x, x}, silu);
    const Heads::KeyValue kv = heads_.keep({x, x}, [](const Var& k) { return k; });
    return {head_dot(q, kv.k, size_.num_attention_heads, 1 / std::sqrt(double(size_.head_dim))), kv.v};
  }
  Shape state_shape() const { return {size_.num_attention_heads, size_.head_dim + 2}; }
};

}  // namespace

void register_mixer_nonapprox(Registry& registry) {
  registry.add<Mixer, NonApprox, NonapproxConfig>(
      "nonapprox",
      {.spec = "decon.nonapprox",
       .summary = "each token has a weight of its own; every query takes the weighted mean of the tokens so far",
       .source = "TH Eq 4.7-4.8, 4.18; PO"});
}

}  // namespace lithe
