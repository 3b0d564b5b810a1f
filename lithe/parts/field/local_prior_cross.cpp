// A Gaussian prior in cross-attention [TB Eq 6.67-6.68; Luong et al. 2015]: logits lose gamma (mu - j)^2 / (2 sigma^2)
// for the source token j, where the centre mu goes along the source or is predicted from the target's row as
// (S - 1) sigmoid(tanh(x W) v), and so is sigma as softplus(tanh(x W) v). Places count from 0. An encoder's source is
// its own text.
#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/place_predictor.h"

namespace lithe {
namespace {

struct LocalPriorCrossConfig {
  std::string centre = "predicted", width = "fixed";
  double gamma = 1, window = 10, length_ratio = 1;
  int64_t predictor_dim = 0;
  void fields(Fields& f) {
    f("centre", centre, "position of the source: predicted; or diagonal: (i + 1) length_ratio - 1 for target token i",
      one_of({"predicted", "diagonal"}));
    f("length_ratio", length_ratio, "diagonal: source tokens per target token", at_least(0));
    f("width", width, "standard deviation sigma of the Gaussian: fixed (window / 2), or predicted from the row",
      one_of({"fixed", "predicted"}));
    f("window", window, "width fixed: D = 2 sigma, in tokens", at_least(1e-3));
    f("gamma", gamma, "factor on the prior; 0: no prior", at_least(0));
    f("predictor_dim", predictor_dim, "hidden width of the predictors; 0: hidden_size",
      at_least(0).of({Dimension::ffn}));
  }
};

class LocalPriorCross final : public Field {
 public:
  LocalPriorCross(const Scope& scope, const LocalPriorCrossConfig& config, const Args& args) : config_(config) {
    const auto predictor = [&](const char* name) {
      return RowPredictor(scope / name, args.hidden_size, config.predictor_dim);
    };
    if (config.centre == "predicted") centre_ = predictor("centre");
    if (config.width == "predicted") width_ = predictor("width");
  }
  kernels::AttentionPattern pattern(const FieldInput&) const override { return {}; }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    LogitBias out;
    out.squared = true;
    out.centres = spread_heads(centres(in), heads);
    out.rates = spread_heads(rates(in), heads);
    return out;
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.rates = true}; }

 private:
  LocalPriorCrossConfig config_;
  RowPredictor centre_, width_;

  Var centres(const FieldInput& in) const {
    if (!centre_.defined())
      return number_by_row(in, [&](int64_t b, int64_t i) {
        const int64_t place = in.queries.past(b) + i - in.queries.offset(b);
        return double(place + 1) * config_.length_ratio - 1;
      });
    return predicted_place(centre_, in);
  }
  Var rates(const FieldInput& in) const {
    const double gamma = config_.gamma, sigma = config_.window / 2;
    if (!width_.defined()) return number_by_row(in, [&](int64_t, int64_t) { return gamma / (2 * sigma * sigma); });
    return each_number(
        "gaussian_rate", width_(in.x), [gamma](double z) { return gamma / (2 * softplus(z) * softplus(z)); },
        [](double z, double y) { return -2 * y / softplus(z) * sigmoid(z); });
  }
};

}  // namespace

void register_field_local_prior_cross(Registry& registry) {
  registry.add<Field, LocalPriorCross, LocalPriorCrossConfig>(
      "local_prior_cross", {.spec = "attn.local_prior_cross",
                            .summary = "cross-attention around a position of the source, predicted or on the diagonal",
                            .source = "TB Eq 6.67-6.68",
                            .causal = false,
                            .cross = true,
                            .samples = {"{width: predicted, predictor_dim: 3}"}});
}

}  // namespace lithe
