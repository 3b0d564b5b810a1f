// Plain and syntactic attention side by side [TB Eq 6.60]: alpha Att(H) + (1 - alpha) AttSyn(H), alpha fixed, a number
// that is learnt, or one of each token, sigmoid(h w + b). With shared projections both have the queries, keys, values
// and the output of one attention; else each has its own.
#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/elementwise.h"

namespace lithe {
namespace {

struct BranchAttentionConfig : AttentionConfig {
  PartChoice syntax{"tree", {}};
  double alpha = 0.5;
  std::string learn = "fixed";
  bool share = true;
  void fields(Fields& f) {
    AttentionConfig::fields(f);
    f.part("syntax", "field", syntax, "which pairs of tokens may meet in the second branch, and how much they count");
    f("alpha", alpha, "share of the first branch; learnt: at first", between(0, 1));
    f("learn", learn, "alpha: fixed, scalar (one number, sigmoid(a)), or per_token (sigmoid(h w + b))",
      one_of({"fixed", "scalar", "per_token"}));
    f("share", share, "both branches have the same projections; false: each has its own");
  }
};

class BranchAttention final : public Mixer {
 public:
  BranchAttention(const Scope& scope, const BranchAttentionConfig& config, const Args& args)
      : config_(config), core_(config.share ? scope : scope / "plain", config, args, args.position) {
    check_usage(config.attention_dropout == 0 && config.map == "own", "branch_attention",
                "attention_dropout and map are of one map, and here are two; leave them out");
    check_usage(config.learn == "fixed" || (config.alpha > 0 && config.alpha < 1), "branch_attention", "alpha ",
                config.alpha, " is no sigmoid, which a learnt one is; give a number between 0 and 1");
    const Heads& heads = core_.heads();
    if (config.share) {
      syntax_ = Registry::instance().make<Field>(config.syntax, scope / "syntax",
                                                 {.causal = args.causal,
                                                  .num_attention_heads = heads.query_heads(),
                                                  .hidden_size = args.hidden_size,
                                                  .kv_heads = heads.kv_heads(),
                                                  .key_dim = heads.key_dim(),
                                                  .value_dim = heads.value_dim(),
                                                  .query_heads = heads.query_axis()});
      check_usage(!syntax_->biases() || !args.position || !args.position->biases() || !syntax_->bias_form().prior,
                  "branch_attention", "the position adds to logits and the field ", config.syntax.type,
                  " multiplies weights; leave one of them out");
    } else {
      BranchAttentionConfig other = config;
      other.field = config.syntax;
      other_.emplace(scope / "syntax", other, args, args.position);
    }
    if (config.learn == "scalar") scalar_ = scope.parameter("alpha", {1}, InitRole::zeros);
    if (config.learn == "per_token") gate_ = Linear(scope / "gate", Axis::hidden(args.hidden_size), 1, true);
  }
  std::vector<std::string> reads_columns() const override {
    std::vector<std::string> out = core_.field().reads_columns();
    for (const std::string& name : syntactic().reads_columns()) out.push_back(name);
    return out;
  }
  Var forward(const SubLayerInput& in) const override {
    check_usage(!in.state, "branch_attention", "reads whole texts; nothing is decoded with it");
    const Heads& heads = core_.heads();
    const auto [q, kv] = read(core_, in);
    const Var plain = attended(core_, in, q, kv, nullptr);
    if (other_) {
      const auto [own_q, own_kv] = read(*other_, in);
      const Var of_syntax = attended(*other_, in, own_q, own_kv, nullptr);
      return mixed(core_.output(heads.finish(plain)), other_->output(other_->heads().finish(of_syntax)), in.x);
    }
    return core_.output(heads.finish(mixed(plain, attended(core_, in, q, kv, syntax_.get()), in.x)));
  }
  std::unique_ptr<State> make_state(const StateShape&) const override {
    fail_usage("branch_attention", "reads whole texts; nothing is decoded with it");
  }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
  bool reads_embedding() const override { return core_.heads().reads_embedding(); }

 private:
  BranchAttentionConfig config_;
  AttentionCore core_;
  std::unique_ptr<Field> syntax_;       // with shared projections
  std::optional<AttentionCore> other_;  // else
  Parameter* scalar_ = nullptr;
  Linear gate_;

  const Field& syntactic() const { return syntax_ ? *syntax_ : other_->field(); }
  static std::pair<Var, Heads::KeyValue> read(const AttentionCore& core, const SubLayerInput& in) {
    const Heads::Turn turn = core.turn_by(in.sequences);
    const auto [q, kept] = core.heads().read(core.input_of(in), turn);
    return {q, AttentionCore::read(core.heads(), kept, turn)};
  }
  static Var attended(const AttentionCore& core, const SubLayerInput& in, const Var& q, const Heads::KeyValue& kv,
                      const Field* field) {
    return attend(q, kv.k, kv.v, in.sequences, in.sequences,
                  core.options(core.heads(), in, q, kv.k, key_counts(in.sequences), {}, field));
  }
  // b + alpha (a - b).
  Var mixed(const Var& a, const Var& b, const Var& x) const {
    if (config_.learn == "fixed") return add(a, b, config_.alpha, 1 - config_.alpha);
    const double at_first = std::log(config_.alpha / (1 - config_.alpha));
    const auto squashed = [at_first](const Var& z) {
      return each_number(
          "sigmoid", z, [at_first](double v) { return sigmoid(v + at_first); },
          [](double, double y) { return y * (1 - y); });
    };
    const Var apart = add(a, b, 1, -1);
    if (scalar_) return add(b, row_affine(apart, cast(squashed(scalar_->var()), apart.dtype()), {}));
    const Var each = squashed(cast(gate_(x), wide_of(x.dtype())));  // [N, 1]
    return add(b, mul(apart, cast(spread_heads(each, apart.cols()), apart.dtype())));
  }
};

}  // namespace

void register_mixer_branch_attention(Registry& registry) {
  registry.add<Mixer, BranchAttention, BranchAttentionConfig>(
      "branch_attention",
      {.spec = "syn.branch_attn",
       .summary = "a mixture of plain attention and of one by trees",
       .source = "TB Eq 6.60",
       .causal = false,
       .samples = {"{num_attention_heads: 1, learn: scalar, alpha: 0.3}", "{num_attention_heads: 1, learn: per_token}",
                   "{num_attention_heads: 1, share: false, syntax: {type: tree, weight: exp, apply: add}}"}});
}

}  // namespace lithe
