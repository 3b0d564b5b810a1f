// Priors on the distance [TB Eq 6.64-6.70]: with G = |i - j| or (i - j)^2 / (2 sigma^2), logits lose gamma G (add),
// weights are multiplied by exp(-gamma G) (multiply), or the weights are (1 - beta) softmax(l) + beta softmax(-gamma G)
// (mix).
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/place_predictor.h"

namespace lithe {
namespace {

struct LocalPriorConfig {
  std::string use = "add", distance = "gauss", width = "fixed", share = "fixed";
  double gamma = 1, sigma = 5, beta = 0.5;
  bool renormalise = false, learned = false;
  void fields(Fields& f) {
    f("use", use, "how the prior is used: add it to the logits, multiply the weights by it, or mix it with the weights",
      one_of({"add", "multiply", "mix"}));
    f("distance", distance, "distance of query i and key j: linear: |i - j|; gauss: (i - j)^2 / (2 sigma^2)",
      one_of({"linear", "gauss"}));
    f("gamma", gamma, "factor on the distance", at_least(0));
    f("learned", learned, "multiply gamma by a learned number for each head, initially 1");
    f("width", width, "sigma: fixed, or predicted from the query's row as softplus(x w + b)",
      one_of({"fixed", "predicted"}));
    f("sigma", sigma, "width fixed: standard deviation of the Gaussian in tokens", at_least(1e-3));
    f("renormalise", renormalise,
      "use multiply: weights are normalised to sum to 1 again, which is the same as use add");
    f("share", share, "use mix: share of the prior: fixed (beta), or a gate of each head, sigmoid(x w + b)",
      one_of({"fixed", "gate"}));
    f("beta", beta, "use mix, share fixed: share of the prior in the weights", between(0, 1));
  }
};

// spec: attn.local_prior_mix | field | a mixture of the weights and of the prior's | TB Eq 6.69
//
// spec: attn.local_prior_mul | field | weights times the prior | TB Eq 6.70
class LocalPrior final : public Field {
 public:
  LocalPrior(const Scope& scope, const LocalPriorConfig& config, const Args& args) : config_(config), args_(args) {
    const Axis d = Axis::hidden(args.hidden_size);
    check_usage(config.width == "fixed" || gauss(), "local_prior",
                "width: predicted is of a Gaussian; give distance: gauss");
    if (config.width == "predicted") width_ = Linear(scope / "width", d, 1, true);
    const Axis& heads = args.query_heads;
    if (config.learned) factor_ = scope.parameter("gamma", {heads}, InitRole::ones);
    if (config.use == "mix" && config.share == "gate") gate_ = Linear(scope / "gate", d, heads, true);
  }
  kernels::AttentionPattern pattern(const FieldInput&) const override {
    return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    LogitBias out;
    out.squared = gauss();
    out.rates = rates(in, heads);
    if (args_.cross)  // a query's place among the keys of another text is its number
      out.centres = spread_heads(
          number_by_row(in,
                        [&](int64_t b, int64_t i) { return double(in.queries.past(b) + i - in.queries.offset(b)); }),
          heads);
    if (config_.use == "multiply" && !config_.renormalise) out.use = LogitBias::Use::multiply;
    if (config_.use == "mix") {
      out.use = LogitBias::Use::mix;
      const int64_t rows = in.x.rows();
      out.share = gate_.weight
                      ? each_number("sigmoid", wide(gate_(in.x)), sigmoid, [](double, double y) { return y * (1 - y); })
                      : constant({rows, heads}, in, config_.beta);
    }
    return out;
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override {
    return {.rates = true, .prior = config_.use == "mix" || (config_.use == "multiply" && !config_.renormalise)};
  }
  // Weights that are multiplied do not sum to 1, and those that are mixed are of queries set to zero, too.
  bool reads_heads() const override { return config_.use != "add"; }

 private:
  LocalPriorConfig config_;
  Args args_;
  Linear width_, gate_;
  Parameter* factor_ = nullptr;

  bool gauss() const { return config_.distance == "gauss"; }
  static Var wide(const Var& x) { return cast(x, wide_of(x.dtype())); }
  static Var constant(const Shape& shape, const FieldInput& in, double value) {
    const Tensor x = empty(shape, wide_of(in.x.dtype()), in.x.device());
    if (!x.is_meta())
      for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value);
    return x;
  }

  Var rates(const FieldInput& in, int64_t heads) const {
    const double gamma = config_.gamma;
    Var rates;
    if (width_.weight) {
      // gamma / (2 sigma^2) of sigma = softplus(z)
      rates = spread_heads(each_number(
                               "gaussian_rate", wide(width_(in.x)),
                               [gamma](double z) { return gamma / (2 * softplus(z) * softplus(z)); },
                               [](double z, double y) { return -2 * y / softplus(z) * sigmoid(z); }),
                           heads);
    } else {
      rates = constant({1, heads}, in, gauss() ? gamma / (2 * config_.sigma * config_.sigma) : gamma);
    }
    return factor_ ? row_affine(rates, cast(factor_->var(), rates.dtype()), {}) : rates;
  }
};

}  // namespace

void register_field_local_prior(Registry& registry) {
  registry.add<Field, LocalPrior, LocalPriorConfig>(
      "local_prior",
      {.spec = "attn.local_prior_add",
       .summary =
           "a Gaussian or linear prior on the distance: added to logits, multiplied with weights, or mixed with them",
       .source = "TB Eq 6.64-6.70",
       .cross = true,
       .samples = {"{distance: linear, gamma: 0.3, learned: true}", "{use: multiply, sigma: 2}",
                   "{use: mix, width: predicted, share: gate}"}});
}

}  // namespace lithe
