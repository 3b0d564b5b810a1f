// Any heads, whose cache is the rows that the layer read: keys and values are formed of them each time they are read,
// by the weights as they are now. Where training carries states, what it keeps of the segment before are these rows,
// without a gradient of their own but with one for the weights: the memory of Transformer-XL [TB 6.4.2(1); Dai et al.
// 2019].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

struct HiddenRowsConfig {
  PartChoice of{"mha", {}};
  void fields(Fields& f) { f.part("of", "heads", of, "the heads by which keys and values are computed"); }
};

// spec: mem.xl | heads | rows of the segments before as keys and values, no gradient to them | TB 6.4.2(1), Fig 6.15
class HiddenRows final : public Heads {
 public:
  HiddenRows(const Scope& scope, const HiddenRowsConfig& config, const Args& args)
      : inner_(Registry::instance().make<Heads>(config.of, scope, args)), width_(args.hidden_size) {
    check_usage(!inner_->reads_embedding(), "hidden_rows", "heads ", config.of.type,
                " read each token's own embedding, which the layer's rows do not tell; choose mha, gqa or mqa");
  }
  Var queries(const Input& in, const Turn& turn) const override { return inner_->queries(in, turn); }
  KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override {
    const KeyValue made = inner_->keep({kept.k, kept.k}, turn);
    return inner_->expands() ? inner_->expand(made, turn) : made;
  }
  bool expands() const override { return true; }
  bool shares() const override { return true; }
  int64_t kept_columns() const override { return width_; }
  int64_t query_heads() const override { return inner_->query_heads(); }
  int64_t kv_heads() const override { return inner_->kv_heads(); }
  int64_t key_dim() const override { return inner_->key_dim(); }
  int64_t value_dim() const override { return inner_->value_dim(); }
  Var finish(const Var& context) const override { return inner_->finish(context); }
  Axis context() const override { return inner_->context(); }

 private:
  std::unique_ptr<Heads> inner_;
  int64_t width_;
};

}  // namespace

void register_heads_hidden_rows(Registry& registry) {
  registry.add<Heads, HiddenRows, HiddenRowsConfig>(
      "hidden_rows", {.spec = "mem.xl",
                      .summary = "the cache holds the layer's rows; keys and values are computed when they are read",
                      .source = "TB 6.4.2(1); Dai et al. 2019",
                      .samples = {"{of: mqa}"}});
}

}  // namespace lithe
