// Attention that takes from a layer below [TB 6.4.4]: its weights, with values of its own; or what its heads gave.
#include "lithe/nn/sharing.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/attention_core.h"
#include "lithe/parts/common/key_value_cache.h"

namespace lithe {
namespace {

class Borrower : public Mixer, public SharedMap {
 public:
  SharedMap* shared_map() override { return this; }
  const AttentionMap* map() const override { return nullptr; }
  void lend() override { fail("attention", "takes its map from a layer below, and has none to lend"); }
  void borrow(const SharedMap& from, int64_t layer) override {
    check(from.map() != nullptr, "attention", "a layer that takes its map from another has none to lend");
    check_usage(from.map()->query_heads() == query_heads_ && from.map()->kv_heads() == kv_heads_, "model",
                "attention that takes the map of layer ", layer + 1, " needs its heads, ", from.map()->query_heads(),
                " for queries and ", from.map()->kv_heads(), " for keys and values, got ", query_heads_, " and ",
                kv_heads_, "; set num_attention_heads and heads alike");
    lender_ = from.map();
    lender_layer_ = layer;
    check_lender();
  }

 protected:
  Borrower(const Scope& scope, const AttentionConfig& config, const Args& args) {
    check_usage(!args.cross, "model", "mixer.map ", config.map,
                " takes the map of the text's own attention, and "
                "cross-attention reads another text; give model.cross_attention a mixer with map: own");
    Parameters unused;  // of heads that are only asked
    BuildContext aside = scope.context();
    aside.parameters = &unused;
    aside.device = Device::meta;
    const auto like = [&] {
      const SharedParameters none;
      return Registry::instance().make<Heads>(config.heads, Scope(aside, "heads"),
                                              config.args("attention", args.hidden_size));
    }();
    check_usage(!like->expands() && !like->shares() && !like->reads_embedding(), "model", "mixer.map ", config.map,
                " has values alone, and heads ", config.heads.type,
                " do not make them by a map of their own; choose mha, gqa or mqa");
    query_heads_ = like->query_heads(), kv_heads_ = like->kv_heads(), value_dim_ = like->value_dim();
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = Axis::query_heads(query_heads_, kv_heads_, value_dim_),
                                                 .hidden_size = args.hidden_size,
                                                 .bias = config.output_bias});
  }
  /// Fails (usage) where the lender does not fit, its heads aside.
  virtual void check_lender() const {}

  int64_t query_heads() const { return query_heads_; }
  int64_t kv_heads() const { return kv_heads_; }
  Axis value_axis() const { return Axis::key_heads(kv_heads_, value_dim_); }
  int64_t value_columns() const { return value_axis().size(); }
  int64_t context_size() const { return query_heads_ * value_dim_; }
  const AttentionMap& lender() const { return *lender_; }
  // How queries meet keys in the lender, which has said once what its field adds to the losses.
  template <class Keys>
  AttendOptions met(const SubLayerInput& in, const Var& q, const Keys& keys) const {
    const Pass aside = in.pass.apart(in.pass.layer());
    return lender_->options({.x = lent(in, kRows),
                             .sequences = in.sequences,
                             .state = in.state,
                             .pass = aside,
                             .wired = in.wired,
                             .stage = in.stage,
                             .log_presence = in.log_presence},
                            q, keys);
  }
  int64_t lender_layer() const { return lender_layer_; }
  Var output(const Var& context) const { return output_->forward(context); }
  Var lent(const SubLayerInput& in, Tap::Kind what) const {
    check(lender_ != nullptr, "attention", "mixer.map: below takes the map of a layer below; alone there is none");
    const Var x = in.pass.get({what, lender_layer_});
    check_usage(x.defined(), "attention", "takes the map of layer ", lender_layer_ + 1,
                ", which was left out in this pass; leave both out, or none");
    return x;
  }

 private:
  int64_t query_heads_ = 0, kv_heads_ = 0, value_dim_ = 0, lender_layer_ = -1;
  const AttentionMap* lender_ = nullptr;
  std::unique_ptr<Output> output_;
};

// The weights of a layer below times values of its own.
class BorrowedMap final : public Borrower {
 public:
  BorrowedMap(const Scope& scope, const AttentionConfig& config, const Args& args)
      : Borrower(scope, config, args),
        values_(scope / "heads" / "v", Axis::hidden(args.hidden_size), value_axis(), config.attention_bias),
        dropout_(scope / "weights", config.attention_dropout) {}

  Var forward(const SubLayerInput& in) const override {
    const Var v = values_(in.x), q = lent(in, kQueries);
    if (in.state) return output(continued(in, q, v));
    const Var k = lent(in, kKeys);
    const AttendOptions options = met(in, q, k);
    if (in.pass.wants(Tap::Kind::received))
      in.pass.put(Tap::Kind::received, attention_received(q, k, in.sequences, options));
    return output(attend_dropping(dropout_, q, k, v, in, options));
  }
  void skip(const SubLayerInput& in) const override { keep(in, values_(in.x)); }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<KeyValueCache>(shape, columns());
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return KeyValueCache::bytes_of(tokens, columns(), dtype);
  }
  bool reads_presence() const override { return true; }
  bool keeps_rows() const override { return true; }
  void borrow_keys(State& own, const State& from) const override {
    static_cast<KeyValueCache&>(own).read_keys_of(static_cast<const KeyValueCache&>(from));
  }
  MixerMaps maps(const SubLayerInput& in) const override {
    const Var q = lent(in, kQueries), k = lent(in, kKeys);
    return softmax_maps(q, repeat_heads(k, kv_heads(), query_heads()), met(in, q, k));
  }

 private:
  Linear values_;
  Dropout dropout_;

  KeyValueCache::Columns columns() const {
    return {.keys = value_columns(), .values = value_columns(), .shared = true, .heads = kv_heads()};
  }
  static void keep(const SubLayerInput& in, const Var& v) {
    static_cast<KeyValueCache&>(*in.state).append(v.value(), v.value(), in.sequences);
  }
  Tensor continued(const SubLayerInput& in, const Var& q, const Var& v) const {
    keep(in, v);
    const auto& cache = static_cast<const KeyValueCache&>(*in.state);
    check(cache.keys_of() != nullptr, "attention", "the state of a borrowed map has no keys to read");
    std::vector<KeyValues> read;
    for (int64_t b = 0; b < in.sequences.count(); ++b)
      read.push_back({cache.keys_of()->entries()[size_t(b)].keys, cache.entries()[size_t(b)].values});
    return attend_cached(q.value(), read, cache.tokens(), in.sequences, met(in, q, *cache.keys_of()));
  }
};

// The results of the heads of a layer below, through an output of its own.
class BorrowedContext final : public Borrower {
 public:
  BorrowedContext(const Scope& scope, const AttentionConfig& config, const Args& args)
      : Borrower(scope, config, args) {}
  Var forward(const SubLayerInput& in) const override { return output(lent(in, kContext)); }
  void skip(const SubLayerInput&) const override {}
  std::unique_ptr<State> make_state(const StateShape&) const override { return nullptr; }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
  void borrow_keys(State&, const State&) const override {}
  MixerMaps maps(const SubLayerInput& in) const override {
    const Var q = lent(in, kQueries), k = lent(in, kKeys);
    return softmax_maps(q, repeat_heads(k, kv_heads(), query_heads()), met(in, q, k));
  }

 protected:
  void check_lender() const override {
    check_usage(lender().context_size() == context_size(), "model", "attention that takes the heads' results of layer ",
                lender_layer() + 1, " needs them ", context_size(), " wide, they are ", lender().context_size(),
                "; set head_dim and heads alike");
  }
};

}  // namespace

std::unique_ptr<Mixer> make_borrowed_attention(const Scope& scope, const AttentionConfig& config,
                                               const Mixer::Args& args) {
  if (config.map == "below") return std::make_unique<BorrowedMap>(scope, config, args);
  return std::make_unique<BorrowedContext>(scope, config, args);
}

}  // namespace lithe
