// Queries and keys from the tokens' own embeddings, values from the hidden rows: maps depend on no layer below [TH Eq
// 4.13].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

class StaticEmbQk final : public ProjectedHeads {
 public:
  StaticEmbQk(const Scope& scope, const NoOptions&, const Args& args)
      : ProjectedHeads(scope, args, args.num_attention_heads) {}
  Var queries(const Input& in, const Turn& turn) const override { return turn(q_(in.embedded)); }
  KeyValue keep(const Input& in, const Turn& turn) const override { return {turn(k_(in.embedded)), v_(in.x)}; }
  QueryKeyValue read(const Input& in, const Turn& turn) const override { return Heads::read(in, turn); }
  bool reads_embedding() const override { return true; }
};

}  // namespace

void register_heads_static_emb_qk(Registry& registry) {
  registry.add<Heads, StaticEmbQk, NoOptions>(
      "static_emb_qk", {.spec = "decon.staticembqk",
                        .summary = "queries and keys from the tokens' embeddings, values from the rows",
                        .source = "TH Eq 4.13"});
}

}  // namespace lithe
