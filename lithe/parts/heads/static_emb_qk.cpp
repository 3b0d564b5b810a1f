// Queries and keys from the tokens' own embeddings, values from the hidden rows: maps depend on no layer below [TH Eq
// 4.13].
#include "lithe/nn/projected_heads.h"
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class StaticEmbQk final : public ProjectedHeads {
 public:
  StaticEmbQk(const Scope& scope, const NoOptions&, const Args& args)
      : ProjectedHeads(scope, args, args.num_attention_heads) {}
  Var queries(const Rows& in, const Turn& turn) const override { return turn(q_(in.companion)); }
  KeyValue keep(const Rows& in, const Turn& turn) const override { return {turn(k_(in.companion)), v_(in.x)}; }
  QueryKeyValue read(const Rows& in, const Turn& turn) const override { return Heads::read(in, turn); }
  Companion companion() const override { return {.kind = Companion::Kind::embedding}; }
};

}  // namespace

void register_heads_static_emb_qk(Registry& registry) {
  registry.add<Heads, StaticEmbQk, NoOptions>(
      "static_emb_qk", {.spec = "decon.staticembqk",
                        .summary = "queries and keys from the tokens' embeddings, values from the rows",
                        .source = "TH Eq 4.13"});
}

}  // namespace lithe
