// Hard local attention [TB 6.3.1(2)]. fixed: a token sees the last tokens only, itself included, as many in each head
// as the recipe says; in encoders as many on both sides. adaptive: each head learns its span z; a key at distance x has
// its weight multiplied by clamp((R + z - x) / R, 0, 1), and weights sum to 1 again [Sukhbaatar et al. 2019].
// predictive: a query predicts the centre p of a window of D on both sides, in which weights are multiplied by a
// Gaussian of sigma D / 2 [Luong et al. 2015]. tree: the tokens of the smallest constituent that the token is in, which
// a column of the data names.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/place_predictor.h"

namespace lithe {
namespace {

struct LocalConfig {
  std::string form = "fixed", column;
  std::vector<int64_t> window{128};
  double ramp = 32, initial_span = -1, span_penalty = 2e-6, radius = 10;
  int64_t predictor_dim = 0;
  void fields(Fields& f) {
    f("form", form,
      "fixed; adaptive: each head learns its span; predictive: around a predicted centre; tree: the token's "
      "constituent",
      one_of({"fixed", "adaptive", "predictive", "tree"}));
    f("window", window,
      "fixed: tokens that a query sees, itself included (encoders: also window - 1 tokens after it); adaptive: the "
      "largest span z; one number, or one for each query head");
    f("ramp", ramp, "adaptive: length R in tokens over which weights fall to 0 at the end of the span", at_least(1e-3));
    f("initial_span", initial_span, "adaptive: initial span z in tokens; -1: half of window");
    f("span_penalty", span_penalty, "adaptive: weight of an auxiliary loss, the sum of the heads' spans", at_least(0));
    f("radius", radius, "predictive: D, tokens on each side of the centre; sigma is D / 2", at_least(0.5));
    f("predictor_dim", predictor_dim, "predictive: hidden width of the predictor; 0: hidden_size",
      at_least(0).of({Dimension::ffn}));
    f("column", column,
      "tree: column of the input with two numbers per token: the first token of its constituent and the token after "
      "the last, from 0 in its text; empty: the smallest constituent of several words, from a treebank's columns word "
      "and common");
  }
};

// What each query head is given.
std::vector<int64_t> windows_of(const LocalConfig& config, const Field::Args& args) {
  const auto heads = int64_t(config.window.size());
  check_usage(heads == 1 || heads == args.num_attention_heads, "local", "window has ", heads,
              " numbers; give one, or one for each of the ", args.num_attention_heads, " query heads");
  for (const int64_t window : config.window)
    check_usage(window >= 1, "local", "window must be at least 1, got ", window);
  return config.window;
}

class FixedWindow final : public Field {
 public:
  FixedWindow(const LocalConfig& config, const Args& args) : cross_(args.cross), heads_(args.num_attention_heads) {
    for (const int64_t window : windows_of(config, args)) {
      pattern_.heads.push_back({.causal = args.causal, .window = window});
      reach_ = std::max(reach_, window);
    }
    pattern_.mask = pattern_.heads[0];
    if (pattern_.heads.size() == 1) pattern_.heads.clear();
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (!cross_) return pattern_;
    std::shared_ptr<const Visits> last;  // a mask would count from the end of the keys
    return tiled_pattern(false, heads_, in, [&](int64_t b, int64_t head) {
      if (head > 0 && pattern_.heads.empty()) return last;
      const int64_t window = pattern_.of(head).window;
      return last =
                 visits_of(in.queries.length(b), in.keys[size_t(b)].count, [&](int64_t i, std::vector<KeyRange>& seen) {
                   const int64_t at = in.queries.past(b) + i;
                   seen.push_back({at - window + 1, at + window});
                 });
    });
  }
  bool one_mask() const override { return pattern_.heads.empty() && !cross_; }
  int64_t reach() const override { return reach_; }

 private:
  bool cross_;
  int64_t heads_;
  kernels::AttentionPattern pattern_;
  int64_t reach_ = 0;
};

class AdaptiveSpan final : public Field {
 public:
  AdaptiveSpan(const Scope& scope, const LocalConfig& config, const Args& args)
      : config_(config), args_(args), share_(scope.parameter("span", {args.query_heads}, InitRole::zeros)) {
    check_usage(!args.cross, "local",
                "form: adaptive is of distances within one text, and has no cross form; give the decoder's "
                "model.cross_attention field local with form: predictive");
    for (int64_t head = 0; head < args.num_attention_heads; ++head) {
      const auto windows = windows_of(config, args);
      most_.push_back(double(windows[windows.size() == 1 ? 0 : size_t(head)]));
      farthest_ = std::max(farthest_, int64_t(std::ceil(most_.back() + config.ramp)));
      const double first = config.initial_span < 0 ? most_.back() / 2 : config.initial_span;
      check_usage(first <= most_.back(), "local", "initial_span ", first, " is beyond the largest span, window ",
                  most_.back());
      if (!share_->master.value().is_meta()) set_value(share_->master.value(), head, first / most_.back());
    }
  }
  kernels::AttentionPattern pattern(const FieldInput&) const override {
    kernels::AttentionPattern out{.mask = {.causal = args_.causal, .window = farthest_}, .heads = {}, .tiles = nullptr};
    const NoGrad no_grad;
    const Tensor z = spans(cast(share_->var(), DType::f64)).value();
    for (size_t head = 0; !z.is_meta() && head < most_.size(); ++head)
      out.heads.push_back(
          {.causal = args_.causal, .window = int64_t(std::ceil(value_at(z, int64_t(head)) + config_.ramp))});
    return out;
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    const DType wide = wide_of(in.q.dtype());
    const Var z = spans(cast(share_->var(), DType::f64));
    if (training() && config_.span_penalty > 0)
      in.pass.add_loss("span_penalty", cast(scale(sum(z), config_.span_penalty), wide));
    // log of the factor at each distance, from the farthest key after a query to the farthest before it.
    const int64_t first = args_.causal ? 0 : 1 - farthest_, rows = farthest_ - first;
    const Tensor table = empty({rows, heads}, wide, in.q.device());
    const double ramp = config_.ramp;
    // R + z - x where the factor is between 0 and 1, else 0.
    const auto falls = [ramp, first, heads](const Tensor& span, int64_t n) {
      const double x = std::abs(double(first + n / heads)), left = ramp + value_at(span, n % heads) - x;
      return left > 0 && left < ramp ? left : 0;
    };
    for (int64_t n = 0; !table.is_meta() && n < table.numel(); ++n) {
      const double left = falls(z.value(), n);
      set_value(table, n, left > 0 ? std::log(left / ramp) : 0);
    }
    const Var made = record("span_factor", {z}, table, [=, span = z.value(), z = z.ref()](const Tensor& dy, Grads& g) {
      const Tensor dz = g.into_zeroed(z);
      for (int64_t n = 0; !dy.is_meta() && n < dy.numel(); ++n)
        if (const double left = falls(span, n); left > 0)
          set_value(dz, n % heads, value_at(dz, n % heads) + value_at(dy, n) / left);
    });
    return {.table = made, .first = first};
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.table = true}; }
  int64_t reach() const override { return farthest_; }

 private:
  LocalConfig config_;
  Args args_;
  Parameter* share_;          // z / the largest z [heads]: steps of training are of shares
  std::vector<double> most_;  // of each head
  int64_t farthest_ = 0;      // no head sees so far

  // z of each head, within its ends.
  Var spans(const Var& share) const {
    const Tensor y = empty(share.shape(), share.dtype(), share.value().device());
    for (int64_t head = 0; !y.is_meta() && head < y.numel(); ++head)
      set_value(y, head, most_[size_t(head)] * std::clamp(value_at(share.value(), head), 0.0, 1.0));
    return record("spans", {share}, y, [most = most_, in = share.value(), s = share.ref()](const Tensor& dy, Grads& g) {
      const Tensor ds = g.into_zeroed(s);
      for (int64_t head = 0; !dy.is_meta() && head < dy.numel(); ++head) {
        const double at = value_at(in, head), slope = value_at(dy, head);
        // Beyond its ends a span has the slope that leads back, or none.
        const bool counts = at < 0 ? slope < 0 : at > 1 ? slope > 0 : true;
        if (counts) set_value(ds, head, value_at(ds, head) + slope * most[size_t(head)]);
      }
    });
  }
};

class PredictedWindow final : public Field {
 public:
  PredictedWindow(const Scope& scope, const LocalConfig& config, const Args& args)
      : config_(config), args_(args), centre_(scope / "centre", args.hidden_size, config.predictor_dim) {
    check_usage(!args.causal, "local",
                "form: predictive puts its window anywhere in a text, and has no causal form; give it to "
                "model.cross_attention or an encoder, or use form: fixed or adaptive");
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const NoGrad no_grad;
    const Tensor centres = predicted_place(centre_, in).value();
    if (centres.is_meta()) return {};
    std::shared_ptr<const Visits> last;
    return tiled_pattern(false, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      if (head > 0) return last;
      return last =
                 visits_of(in.queries.length(b), in.keys[size_t(b)].count, [&](int64_t i, std::vector<KeyRange>& seen) {
                   const double at = value_at(centres, in.queries.offset(b) + i);
                   seen.push_back(
                       {int64_t(std::ceil(at - config_.radius)), int64_t(std::floor(at + config_.radius)) + 1});
                 });
    });
  }
  LogitBias bias(const FieldInput& in, int64_t heads) const override {
    LogitBias out;
    out.use = LogitBias::Use::multiply;
    out.squared = true;
    out.centres = spread_heads(predicted_place(centre_, in), heads);
    const double sigma = config_.radius / 2;
    out.rates = spread_heads(number_by_row(in, [&](int64_t, int64_t) { return 1 / (2 * sigma * sigma); }), heads);
    return out;
  }
  bool biases() const override { return true; }
  BiasForm bias_form() const override { return {.rates = true, .prior = true}; }
  bool reads_heads() const override { return true; }  // weights do not sum to 1

 private:
  LocalConfig config_;
  Args args_;
  RowPredictor centre_;
};

class Constituents final : public Field {
 public:
  Constituents(const LocalConfig& config, const Args& args) : column_(config.column), args_(args) {
    check_usage(!args.cross, "local",
                "form: tree is of a text's own constituents, and has no cross form; give the decoder's "
                "model.cross_attention field full, or local with form: predictive");
  }
  std::vector<std::string> reads_columns() const override {
    return column_.empty() ? std::vector<std::string>{"word", "common"} : std::vector<std::string>{column_};
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    for (const std::string& name : reads_columns()) {
      const Tensor* column = in.pass.given(name);
      const int64_t numbers = column_.empty() ? 1 : 2;
      check(column != nullptr, "local", "the input has no column ", name);
      check(column->numel() == numbers * in.queries.rows(), "local", "column ", name, " is ", column->shape(),
            "; give each of the ", in.queries.rows(), " tokens ", numbers, numbers == 1 ? " number" : " numbers");
      if (column->is_meta()) return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    }
    std::shared_ptr<const Visits> last;
    return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      if (head > 0) return last;
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const std::vector<KeyRange> constituents = column_.empty() ? smallest(in, b) : named(in, b);
      return last = visits_of(in.queries.length(b), keys.count, [&](int64_t i, std::vector<KeyRange>& seen) {
               const int64_t own = in.queries.past(b) + i - keys.first;
               seen.push_back({constituents[size_t(i)].begin - keys.first, constituents[size_t(i)].end - keys.first});
               seen.push_back({own, own + 1});
             });
    });
  }

 private:
  std::string column_;
  Args args_;

  std::vector<KeyRange> named(const FieldInput& in, int64_t b) const {
    const Tensor& spans = *in.pass.given(column_);
    std::vector<KeyRange> out;
    for (int64_t row = in.queries.offset(b); row < in.queries.offset(b + 1); ++row)
      out.push_back({int64_t(value_at(spans, 2 * row)), int64_t(value_at(spans, 2 * row + 1))});
    return out;
  }
  // Two words share the nodes that all pairs of neighbours between them share, so that a constituent is a run of words
  // whose neighbours share as many nodes as it has above and with it. What is of no word is below the root alone.
  static std::vector<KeyRange> smallest(const FieldInput& in, int64_t b) {
    check(
        in.queries.past(b) == 0, "local",
        "form: tree finds constituents in the columns of whole texts, and has none for tokens that continue one; give "
        "it a column of constituents");
    const Tensor &word = *in.pass.given("word"), &common = *in.pass.given("common");
    const int64_t begin = in.queries.offset(b), n = in.queries.length(b);
    std::vector<int64_t> first, shared;  // of each word its first token; the nodes shared with the next word
    std::vector<int64_t> word_of(size_t(n), -1);
    for (int64_t i = 0; i < n; ++i) {
      const auto number = int64_t(value_at(word, begin + i));
      if (number < 0) continue;
      if (i == 0 || number != int64_t(value_at(word, begin + i - 1))) {
        first.push_back(i);
        shared.push_back(int64_t(value_at(common, begin + i)));
      }
      word_of[size_t(i)] = int64_t(first.size()) - 1;
    }
    const auto words = int64_t(first.size());
    std::vector<KeyRange> out;
    for (int64_t i = 0; i < n; ++i) {
      if (word_of[size_t(i)] < 0) {
        out.push_back({0, n});
        continue;
      }
      int64_t left = word_of[size_t(i)], right = left;
      const auto with_next = [&](int64_t w) { return w >= 0 && w + 1 < words ? shared[size_t(w)] : -1; };
      const int64_t depth = std::max(with_next(left - 1), with_next(right));
      while (depth >= 0 && with_next(left - 1) >= depth) --left;
      while (depth >= 0 && with_next(right) >= depth) ++right;
      int64_t end = first[size_t(right)];
      while (end < n && word_of[size_t(end)] == right) ++end;
      out.push_back({first[size_t(left)], end});
    }
    return out;
  }
};

std::unique_ptr<Field> make_local(const Scope& scope, const LocalConfig& config, const Field::Args& args) {
  check_usage(config.form == "fixed" || config.form == "adaptive" || config.window == LocalConfig().window, "local",
              "window is of the forms fixed and adaptive; leave it out of form: ", config.form);
  if (config.form == "adaptive") return std::make_unique<AdaptiveSpan>(scope, config, args);
  if (config.form == "predictive") return std::make_unique<PredictedWindow>(scope, config, args);
  if (config.form == "tree") return std::make_unique<Constituents>(config, args);
  return std::make_unique<FixedWindow>(config, args);
}

}  // namespace

void register_field_local(Registry& registry) {
  registry.add_forms<Field, LocalConfig, make_local>(
      "local",
      {.spec = "attn.local_window",
       .summary = "a local window: of fixed length, of a learned span, around a predicted centre, or a constituent",
       .source = "TB 6.3.1(2)",
       .cross = true,
       .samples = {"{window: 3}", "{form: adaptive, window: 5, ramp: 2, span_penalty: 0.01}"},
       .sees_ahead_samples = {"{form: predictive, radius: 2.5, predictor_dim: 3}"}});
}

}  // namespace lithe
