// Tokens leave between layers: those that get little attention in the layer below, by a threshold that may be learned
// or as a share of the tokens. The first, [CLS], stays. In training a mask sigmoid((s - theta) / T) may weaken the
// others instead, which becomes the same as T goes to 0 [TB 6.4.8; Goyal et al. 2020, Kim et al. 2022].
#include "lithe/nn/registry.h"
#include "lithe/ops/pointwise.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/shorter.h"

namespace lithe {
namespace {

struct TokenPruneConfig {
  std::string by = "share", importance = "attention", training = "hard", weaken = "keys";
  double share = 0.5, threshold = 0.01, temperature = 0.01, kept_loss_coef = 0;
  bool keep_first = true;
  void fields(Fields& f) {
    f("by", by, "which tokens stay: a fixed share (the most important ones), or all above a threshold of importance",
      one_of({"share", "threshold"}));
    f("share", share, "by share: ceil(share * m) of m tokens stay, at least one", between(0, 1));
    f("threshold", threshold,
      "by threshold: smallest importance theta of a token that stays; with training soft it is learned from this value "
      "on");
    f("importance", importance,
      "importance of a token: the attention that it gets in the layer below (mean over heads and queries; the sum over "
      "the tokens is 1), or the norm of its row",
      one_of({"attention", "norm"}));
    f("keep_first", keep_first, "always keep the first token of a sequence, [CLS]");
    f("training", training,
      "hard: tokens are removed in training, too; soft: all stay, each weakened by the mask sigmoid((s - theta) / T) "
      "of its importance s; by share, theta lies midway between the last token that stays and the first that does not",
      one_of({"hard", "soft"}));
    f("temperature", temperature, "soft: temperature T of the mask", at_least(1e-9));
    f("weaken", weaken,
      "soft: what the mask multiplies: keys: the token's attention weight as a key in the layers above, before "
      "normalisation; rows: the token's row, once",
      one_of({"keys", "rows"}));
    f("kept_loss_coef", kept_loss_coef, "soft: weight of an auxiliary loss, the mean of the mask", at_least(0));
  }
};

class TokenPrune final : public Compressor {
 public:
  TokenPrune(const Scope& scope, const TokenPruneConfig& config, const Args&) : config_(config) {
    // Which rows stay, and how far, depends on the weights of all heads below.
    scope.couples({Dimension::key_heads, Dimension::queries, Dimension::head_width, Dimension::hidden});
    const InitConfig constant{.std = 0};
    if (learns()) {
      threshold_ = scope.parameter("threshold", {Axis(1)}, InitRole::zeros, {.init = &constant, .wide = true});
      start_with(threshold_, config.threshold);
    }
  }
  std::vector<Tap::Kind> reads_below() const override {
    if (config_.importance == "attention") return {Tap::Kind::received};
    return {};
  }
  bool weakens() const override { return soft() && config_.weaken == "keys"; }
  bool reads_presence() const override { return true; }
  bool drops() const override { return config_.by == "threshold"; }

  Shorter forward(const Rows& x, const Pass& pass) const override {
    const Var importance = importance_of(x, pass, config_.importance, "token_prune");
    if (soft() && training()) return weakened(x, importance, pass);
    const double least = threshold_ ? value_of(threshold_) : config_.threshold;
    std::vector<int64_t> kept;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      const int64_t begin = x.sequences.offset(b), end = x.sequences.offset(b + 1);
      std::vector<int64_t> rows = by_importance(importance.value(), begin, end, config_.keep_first);
      rows.resize(size_t(count_of(importance.value(), rows, least)));
      std::sort(rows.begin(), rows.end());
      kept.insert(kept.end(), rows.begin(), rows.end());
    }
    if (pass.wants_statistics() && x.sequences.rows() > 0)
      pass.add_statistic("kept_tokens", {double(kept.size()) / double(x.sequences.rows())}, double(x.sequences.rows()));
    return keep_rows(x, kept);
  }

 private:
  TokenPruneConfig config_;
  Parameter* threshold_ = nullptr;

  bool soft() const { return config_.training == "soft"; }
  bool learns() const { return soft() && config_.by == "threshold"; }
  static double value_of(const Parameter* p) {
    const Tensor& value = p->master.value();
    return value.is_meta() ? 0 : value_at(value, 0);
  }

  // How many of the rows, in order of importance, stay. A plan that cannot know counts all.
  int64_t count_of(const Tensor& importance, const std::vector<int64_t>& rows, double least) const {
    const auto m = int64_t(rows.size());
    if (config_.by == "share")
      return std::min(m, std::max<int64_t>(1, int64_t(std::ceil(config_.share * double(m) - 1e-9))));
    if (importance.is_meta()) return m;
    int64_t count = std::min<int64_t>(m, 1);
    while (count < m && value_at(importance, rows[size_t(count)]) >= least) ++count;
    return count;
  }

  // A compressor below has weakened it to less than a half: it will have left.
  static bool is_gone(const Rows& x, int64_t row) {
    return x.log_presence.defined() && !x.x.value().is_meta() && value_at(x.log_presence.value(), row) < std::log(0.5);
  }

  // Minus theta of each row: the learned one, or that of its sequence.
  Var minus_theta(const Rows& x, const Var& importance) const {
    const DType wide = importance.dtype();
    const int64_t n = importance.rows();
    if (threshold_) {
      const Var ones = Var(filled({n, 1}, -1, wide, x.x.device()));
      return row_affine(ones, cast(threshold_->var(), wide), {});
    }
    std::vector<int64_t> last, next;  // of each row's sequence: the least important that stays, the most that does not
    const Tensor some = filled({n, 1}, -0.5, wide, x.x.device());
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      const int64_t begin = x.sequences.offset(b), end = x.sequences.offset(b + 1);
      std::vector<int64_t> rows = by_importance(importance.value(), begin, end, config_.keep_first);
      std::erase_if(rows, [&](int64_t row) { return row != begin && is_gone(x, row); });
      const auto there = int64_t(rows.size());
      const int64_t count = count_of(importance.value(), rows, 0);
      for (int64_t row = begin; row < end; ++row) {
        last.push_back(rows[size_t(count - 1)]);
        next.push_back(rows[size_t(std::min(count, there - 1))]);
        if (count == there && !some.is_meta()) set_value(some, row, 0);  // all stay: theta is 0
      }
    }
    return mul(add(pick_rows(importance, last), pick_rows(importance, next)), Var(some));
  }

  Shorter weakened(const Rows& x, const Var& importance, const Pass& pass) const {
    Shorter out = keep_rows(x, all_rows(x));
    const DType wide = importance.dtype();
    Var z = scale(add(importance, minus_theta(x, importance)), 1 / config_.temperature);
    Var log_mask = pointwise(kernels::Pointwise::log_sigmoid, z);  // [N, 1]
    if (config_.keep_first) {
      const Tensor others = filled({importance.rows(), 1}, 1, wide, x.x.device());
      for (int64_t b = 0; b < x.sequences.count() && !others.is_meta(); ++b)
        if (x.sequences.length(b)) set_value(others, x.sequences.offset(b), 0);
      log_mask = mul(log_mask, Var(others));
    }
    const Var mask = pointwise(kernels::Pointwise::exp, log_mask);
    if (config_.kept_loss_coef > 0)
      pass.add_loss("kept_tokens", scale(sum(mask), config_.kept_loss_coef / double(importance.rows())));
    if (config_.weaken == "rows") {
      const Var ones = Var(filled({1, x.x.cols()}, 1, wide, x.x.device()));
      out.rows.x = cast(mul(cast(x.x, wide), linear(mask, ones)), x.x.dtype());
    } else {
      out.rows.log_presence = x.log_presence.defined() ? add(x.log_presence, log_mask) : log_mask;
    }
    return out;
  }
  static std::vector<int64_t> all_rows(const Rows& x) {
    std::vector<int64_t> rows(size_t(x.sequences.rows()));
    std::iota(rows.begin(), rows.end(), int64_t(0));
    return rows;
  }
};

}  // namespace

void register_compressor_token_prune(Registry& registry) {
  registry.add<Compressor, TokenPrune, TokenPruneConfig>(
      "token_prune", {.spec = "seqc.token_prune",
                      .summary = "removes tokens that get little attention, by a share or a threshold",
                      .source = "TB 6.4.8; Goyal et al. 2020, Kim et al. 2022",
                      .causal = false,
                      .samples = {"{training: soft, temperature: 0.5, kept_loss_coef: 0.1}", "{share: 0.3}",
                                  "{training: soft, weaken: rows, temperature: 0.5}"}});
}

}  // namespace lithe
