// Plain and syntactic attention side by side [TB Eq 6.60]: alpha Att(H) + (1 - alpha) AttSyn(H), alpha fixed, a number
// that is learnt, or one of each token, sigmoid(logit(alpha) + h w + b). With shared projections both have the queries,
// keys, values and the output of one attention; else each has its own. So has its state: one cache of keys and values,
// or two.
#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/elementwise.h"
#include "lithe/parts/common/joint_state.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {
namespace {

struct BranchAttentionConfig : AttentionConfig {
  PartChoice syntax{"tree", {}};
  double alpha = 0.5;
  std::string learn = "fixed";
  bool share = true;
  void fields(Fields& f) {
    AttentionConfig::fields(f);
    f.part("syntax", "field", syntax,
           "field of the second branch: which pairs of tokens see each other, and with which weight");
    f("alpha", alpha, "share of the first branch; with learn: its initial value", between(0, 1));
    f("learn", learn,
      "share of the first branch: fixed (alpha); scalar: one learned number, sigmoid(logit(alpha) + a), a initially 0; "
      "per_token: sigmoid(logit(alpha) + h w + b), b initially 0",
      one_of({"fixed", "scalar", "per_token"}));
    f("share", share, "both branches have the same projections; false: each branch has its own");
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
      check_biases(args.position, *syntax_, config.syntax.type);
    } else {
      BranchAttentionConfig other = config;
      other.field = config.syntax;
      other_.emplace(scope / "syntax", other, args, args.position);
    }
    check_usage(!config.share || !core_.field().labels_rows() || !syntax_->labels_rows(), "branch_attention", "field ",
                config.field.type, " and syntax ", config.syntax.type,
                " both keep labels of past tokens, and shared projections have one cache; set share: false, or another "
                "field");
    if (config.learn == "scalar") scalar_ = scope.parameter("alpha", {1}, InitRole::zeros);
    if (config.learn == "per_token") gate_ = Linear(scope / "gate", Axis::hidden(args.hidden_size), 1, true);
  }
  std::vector<std::string> reads_columns() const override {
    std::vector<std::string> out = core_.field().reads_columns();
    for (const std::string& name : syntactic().reads_columns()) out.push_back(name);
    return out;
  }
  Var forward(const SubLayerInput& in) const override {
    const Heads& heads = core_.heads();
    const bool two = other_ && in.state;
    const Read first = read(core_, in, two ? &part(in, 0) : in.state);
    const Var plain = attended(core_, in, first, nullptr);
    if (other_) {
      const Read second = read(*other_, in, two ? &part(in, 1) : in.state);
      const Var of_syntax = attended(*other_, in, second, nullptr);
      return mixed(core_.output(heads.finish(plain)), other_->output(other_->heads().finish(of_syntax)), in.x);
    }
    return core_.output(heads.finish(mixed(plain, attended(core_, in, first, syntax_.get()), in.x)));
  }
  void skip(const SubLayerInput& in) const override {
    keep(core_, in, other_ ? part(in, 0) : *in.state);
    if (other_) keep(*other_, in, part(in, 1));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    auto first = std::make_unique<KeyValueCache>(shape, columns(core_));
    if (!other_) return first;
    std::vector<std::unique_ptr<State>> both;
    both.push_back(std::move(first));
    both.push_back(std::make_unique<KeyValueCache>(shape, columns(*other_)));
    return std::make_unique<JointState>(std::move(both));
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return KeyValueCache::bytes_of(tokens, columns(core_), dtype) +
           (other_ ? KeyValueCache::bytes_of(tokens, columns(*other_), dtype) : 0);
  }
  bool keeps_rows() const override { return true; }
  bool reads_embedding() const override { return core_.heads().reads_embedding(); }

 private:
  BranchAttentionConfig config_;
  AttentionCore core_;
  std::unique_ptr<Field> syntax_;       // with shared projections
  std::optional<AttentionCore> other_;  // else
  Parameter* scalar_ = nullptr;
  Linear gate_;

  const Field& syntactic() const { return syntax_ ? *syntax_ : other_->field(); }
  // The field whose columns a cache of this core keeps: the branches share one, or have two.
  const Field& kept_field(const AttentionCore& core) const {
    return syntax_ && syntax_->labels_rows() ? *syntax_ : core.field();
  }
  KeyValueCache::Columns columns(const AttentionCore& core) const {
    const Heads& heads = core.heads();
    const Field& field = kept_field(core);
    return {.keys = heads.kept_columns(),
            .values = heads.kept_value_columns(),
            .shared = heads.shares(),
            .heads = heads.expands() ? 1 : heads.kv_heads(),
            .differentiable = true,
            .field = field.labels_rows() ? &field : nullptr};
  }
  static State& part(const SubLayerInput& in, size_t i) { return static_cast<JointState&>(*in.state)[i]; }
  Tensor labels_of(const AttentionCore& core, const SubLayerInput& in) const {
    const Field& field = kept_field(core);
    return field.labels_rows() ? field.label_rows(in.pass, in.x) : Tensor();
  }
  void keep(const AttentionCore& core, const SubLayerInput& in, State& state) const {
    const Heads::KeyValue kept = core.heads().keep(core.input_of(in), core.turn_by(in.sequences));
    static_cast<KeyValueCache&>(state).append(kept.k.value(), kept.v.value(), in.sequences, labels_of(core, in));
  }

  struct Read {
    Var q;
    Heads::KeyValue kv;
    Sequences keys;
    Tensor labels;  // of the keys, where a text is continued and a field keeps columns
  };
  // Queries of the rows, and keys and values of the text so far: those that were kept are constants.
  Read read(const AttentionCore& core, const SubLayerInput& in, State* state) const {
    const Heads::Turn turn = core.turn_by(in.sequences);
    const auto [q, kept] = core.heads().read(core.input_of(in), turn);
    if (!state) return {q, AttentionCore::read(core.heads(), kept, turn), in.sequences, {}};
    auto& cache = static_cast<KeyValueCache&>(*state);
    std::vector<Var> k, v;
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t begin = in.sequences.offset(b), end = in.sequences.offset(b + 1);
      const KeyValueCache::Rows old = cache.gather(b, in.x.dtype());
      k.insert(k.end(), {Var(old.keys), slice_rows(kept.k, begin, end)});
      v.insert(v.end(), {Var(old.values), slice_rows(kept.v, begin, end)});
      offsets.push_back(offsets.back() + old.keys.rows() + end - begin);
    }
    const Sequences all(offsets, {}, in.x.device());
    cache.append(kept.k.value(), kept.v.value(), in.sequences, labels_of(core, in));
    return {q, AttentionCore::read(core.heads(), {concatenate_rows(k), concatenate_rows(v)}, core.turn_by(all)), all,
            cache.labels_rows() ? cache.gather_labels() : Tensor()};
  }
  static Var attended(const AttentionCore& core, const SubLayerInput& in, const Read& read, const Field* field) {
    const Field& seen = field ? *field : core.field();
    return attend(read.q, read.kv.k, read.kv.v, in.sequences, read.keys,
                  core.options(core.heads(), in, read.q, read.kv.k, key_counts(read.keys),
                               seen.labels_rows() ? read.labels : Tensor(), field));
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
    if (scalar_) return add(b, row_affine(apart, squashed(cast(scalar_->var(), wide_of(apart.dtype()))), {}));
    const Var each = squashed(cast(gate_(x), wide_of(x.dtype())));  // [N, 1]
    return add(b, mul(apart, cast(spread_heads(each, apart.cols()), apart.dtype())));
  }
};

}  // namespace

void register_mixer_branch_attention(Registry& registry) {
  registry.add<Mixer, BranchAttention, BranchAttentionConfig>(
      "branch_attention",
      {.spec = "syn.branch_attn",
       .summary = "a mixture of plain attention and attention by syntax trees",
       .source = "TB Eq 6.60",
       .samples = {"{num_attention_heads: 1, learn: scalar, alpha: 0.3}", "{num_attention_heads: 1, learn: per_token}",
                   "{num_attention_heads: 1, share: false, syntax: {type: tree, weight: exp, apply: add}}"}});
}

}  // namespace lithe
