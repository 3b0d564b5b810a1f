// Attention with the second-order Taylor polynomial of the exponential, whose past is a state of constant size
// [TH Eq 4.6, 4.14-4.17].
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/taylor_attention.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/source_sums.h"

namespace lithe {
namespace {

using kernels::TaylorKind;

struct ApproxConfig : HeadSizes {
  std::string mode = "full";
  bool rotary = true;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("mode", mode,
      "full: weights 1 + x + x^2/2 with one normaliser; diag: elementwise squares instead of x^2; split: one "
      "normaliser for each order (as printed in 4.14-4.17, E47)",
      one_of({"full", "diag", "split"}));
    f("rotary", rotary,
      "rotate queries and keys if the model's position is rotary (the paper uses no rotary positions here)");
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

TaylorKind kind_of(const std::string& mode) {
  return mode == "full" ? TaylorKind::full : mode == "diag" ? TaylorKind::diag : TaylorKind::split;
}

class Approx final : public Mixer {
 public:
  // Positions of two texts are of no common sequence: cross-attention does not turn.
  Approx(const Scope& scope, const ApproxConfig& config, const Args& args)
      : position_(config.rotary && !args.cross ? args.position : nullptr),
        cross_(args.cross),
        size_(config.args("approx", args.hidden_size)),
        options_{
            .kind = kind_of(config.mode), .heads = size_.num_attention_heads, .causal = args.causal && !args.cross},
        heads_(scope / "heads", size_, size_.num_attention_heads),
        output_(Registry::instance().make<Output>(
            config.output, scope / "output",
            {.context = heads_.context(), .hidden_size = args.hidden_size, .bias = config.output_bias})) {
    if (position_) position_->check_head_dim(size_.head_dim);
    scope.couples({Dimension::head_width});  // products are divided by the root of it
  }

  Var forward(const SubLayerInput& in) const override {
    if (cross_ && in.state) {
      const auto& source = static_cast<const SourceSums&>(*in.state);
      return output_->forward(
          attend_taylor_read(queries(in).value(), in.sequences, source.sums(), source.tokens(), options_));
    }
    const Projected p = project(in);
    if (cross_) return output_->forward(attend_taylor(p.q, p.k, p.v, in.sequences, in.source->sequences, options_));
    if (!in.state) return output_->forward(attend_taylor(p.q, p.k, p.v, in.sequences, options_));
    auto& state = static_cast<RecurrentState&>(*in.state);
    return output_->forward(
        attend_taylor_step(p.q.value(), p.k.value(), p.v.value(), in.sequences, state.advance(in.sequences), options_));
  }

  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    if (cross_) return std::make_unique<SourceSums>("approx", shape, state_shape());
    return std::make_unique<RecurrentState>("approx", shape, state_shape());
  }
  void read_source(State& state, const Rows& source) const override {
    const Heads::KeyValue kv = keys_of(source);
    static_cast<SourceSums&>(state).fill(source.sequences, [&](const std::vector<Tensor>& sums) {
      sum_up_taylor(kv.k.value(), kv.v.value(), source.sequences, sums, options_);
    });
  }
  // full: h (1 + d_h + d_h^2) (d_h + 1) scalars; diag, split: 3d + 2d^2/h. Sums are kept in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * state_shape().numel() * size_of(wide_of(dtype));
  }

  MixerMaps maps(const SubLayerInput& in) const override {
    const Projected p = project(in);
    const Tensor q = p.q.value(), k = p.k.value();
    const int64_t T = q.rows(), S = k.rows(), h = options_.heads, E = size_.head_dim;
    const double scale = 1 / std::sqrt(double(E));
    const MixerMaps maps{.heads = h, .weights = zeros({h * T, S}, DType::f32), .logits = {}};
    for (int64_t row = 0; row < h * T; ++row) {
      const int64_t head = row / T, i = row % T, seen = options_.causal ? i + 1 : S;
      std::vector<double> order[3] = {std::vector<double>(size_t(seen), 1), std::vector<double>(size_t(seen)),
                                      std::vector<double>(size_t(seen))};
      double sum[3] = {0, 0, 0};
      for (int64_t j = 0; j < seen; ++j) {
        double x = 0, squares = 0;
        for (int64_t c = 0; c < E; ++c) {
          const double product = value_at(q, (i * h + head) * E + c) * value_at(k, (j * h + head) * E + c);
          x += scale * product;
          squares += scale * scale * product * product;
        }
        order[1][size_t(j)] = x;
        order[2][size_t(j)] = (options_.kind == TaylorKind::full ? x * x : squares) / 2;
        for (int t = 0; t < 3; ++t) sum[t] += order[t][size_t(j)];
      }
      if (options_.kind != TaylorKind::split) sum[0] = sum[1] = sum[2] = sum[0] + sum[1] + sum[2];
      for (double& s : sum)
        if (options_.kind == TaylorKind::diag) s = std::max(s, kernels::kTaylorFloor);
      for (int64_t j = 0; j < seen; ++j) {
        double weight = 0;
        for (int t = 0; t < 3; ++t) weight += order[t][size_t(j)] / sum[t];
        set_value(maps.weights, row * S + j, weight);
      }
    }
    return maps;
  }

 private:
  struct Projected {
    Var q, k, v;
  };
  const Position* position_;
  bool cross_;
  Heads::Args size_;
  TaylorOptions options_;
  ProjectedHeads heads_;
  std::unique_ptr<Output> output_;

  Heads::Turn turn_by(const Sequences& sequences) const {
    return [this, &sequences](const Var& x) { return position_ ? position_->turn(x, sequences, size_.head_dim) : x; };
  }
  Var queries(const SubLayerInput& in) const { return heads_.queries({in.x, in.x}, turn_by(in.sequences)); }
  Heads::KeyValue keys_of(const Rows& rows) const { return heads_.keep({rows.x, rows.x}, turn_by(rows.sequences)); }
  Projected project(const SubLayerInput& in) const {
    check(!cross_ || in.source, "cross-attention", "needs rows of an encoder");
    const Heads::KeyValue kv = keys_of(cross_ ? *in.source : Rows{in.x, in.sequences});
    return {queries(in), kv.k, kv.v};
  }
  Shape state_shape() const {
    return {options_.heads, kernels::taylor_state(options_.kind, size_.head_dim, size_.head_dim)};
  }
};

}  // namespace

void register_mixer_approx(Registry& registry) {
  registry.add<Mixer, Approx, ApproxConfig>(
      "approx", {.spec = "decon.approx",
                 .summary = "linear attention with second-order Taylor weights and a state of constant size",
                 .source = "TH Eq 4.6, 4.14-4.17; PO",
                 .cross = true,
                 .samples = {"{mode: diag}", "{rotary: false}"}});
}

}  // namespace lithe
