// Attention without projections: queries, keys and values are the rows themselves, c_i = sum_j softmax_j(h_i . h_j / sqrt(d)) h_j
// for one head [TB Eq 6.17-6.18]; with more heads each sees its own channels.
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Identity final : public Heads {
 public:
  Identity(const Scope&, const NoOptions&, const Args& args) : heads_(args.num_attention_heads) {
    check_usage(heads_ * args.head_dim == args.hidden_size, "heads", "part identity needs num_attention_heads * head_dim = hidden_size ", args.hidden_size, ", got ", heads_ * args.head_dim);
    check_usage(!args.bias, "heads", "part identity has no projections to put attention_bias on");
  }
  Projected project(const Var& x, const Var& memory) const override { return {x, memory, memory}; }
  int64_t kv_heads() const override { return heads_; }
  bool shared_key_value() const override { return true; }

 private:
  int64_t heads_;
};

}  // namespace

void register_heads_identity(Registry& registry) {
  registry.add<Heads, Identity, NoOptions>("identity", {.spec = "attn.dot_single", .summary = "queries, keys and values are the rows", .source = "TB Eq 6.17-6.18"});
}

}  // namespace lithe
