// Multi-head attention whose queries and keys are made narrower than the values [TB Eq 6.136-6.138]: Q' = Q U_q and K'
// = K U_k with d' channels a head, and logits divided by sqrt(d'). The cache keeps the narrow keys.
#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

struct ReducedConfig {
  int64_t reduced_dim = 0;
  void fields(Fields& f) {
    f("reduced_dim", reduced_dim, "channels d' of queries and keys per head; 0: head_dim / 4",
      at_least(0).of({Dimension::head_width}));
  }
};

class Reduced final : public ProjectedHeads {
 public:
  Reduced(const Scope& scope, const ReducedConfig& config, const Args& args)
      : ProjectedHeads(scope, args, args.num_attention_heads), heads_(args.num_attention_heads) {
    reduced_ = config.reduced_dim ? config.reduced_dim : std::max<int64_t>(1, args.head_dim / 4);
    check_usage(reduced_ <= args.head_dim, "heads", "reduced_dim ", reduced_, " must be at most head_dim ",
                args.head_dim);
    const auto map = [&](const char* name) {
      return (scope / name)
          .parameter("weight", {Axis::head_width(args.head_dim), Axis::query_heads(heads_, heads_, reduced_)},
                     InitRole::query_key);
    };
    reduce_q_ = map("reduce_q"), reduce_k_ = map("reduce_k");
  }
  Var queries(const Input& in, const Turn& turn) const override {
    return head_linear(ProjectedHeads::queries(in, turn), reduce_q_->var(), heads_, false);
  }
  KeyValue keep(const Input& in, const Turn& turn) const override {
    const KeyValue wide = ProjectedHeads::keep(in, turn);
    return {head_linear(wide.k, reduce_k_->var(), heads_, false), wide.v};
  }
  QueryKeyValue read(const Input& in, const Turn& turn) const override { return Heads::read(in, turn); }
  int64_t kept_columns() const override { return heads_ * reduced_; }
  int64_t kept_value_columns() const override { return ProjectedHeads::kept_columns(); }
  int64_t key_dim() const override { return reduced_; }

 private:
  int64_t heads_, reduced_ = 0;
  Parameter *reduce_q_, *reduce_k_;
};

}  // namespace

void register_heads_reduced(Registry& registry) {
  registry.add<Heads, Reduced, ReducedConfig>("reduced", {.spec = "lowdim.reduce_d",
                                                          .summary = "queries and keys with fewer channels than values",
                                                          .source = "TB Eq 6.136-6.138",
                                                          .cross = true,
                                                          .samples = {"{reduced_dim: 2}"}});
}

}  // namespace lithe
