// Grouped-query attention's heads: groups of query heads share a key and value head [TH 4.9].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/key_value_heads.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

struct GqaConfig : QueryKeyNorm {
  int64_t num_key_value_heads = 0;
  void fields(Fields& f) {
    f("num_key_value_heads", num_key_value_heads,
      "key/value heads h_kv; must divide num_attention_heads; 0: half of them, at least 1",
      at_least(0).of({Dimension::key_heads}));
    QueryKeyNorm::fields(f);
  }
};

int64_t groups(const GqaConfig& config, const Heads::Args& args) {
  const int64_t h = args.num_attention_heads;
  const int64_t kv = grouped_heads(config.num_key_value_heads, h);
  check_usage(h % kv == 0, "gqa", "num_key_value_heads must divide num_attention_heads ", h, ", got ", kv);
  return kv;
}

class Gqa final : public ProjectedHeads {
 public:
  Gqa(const Scope& scope, const GqaConfig& config, const Args& args)
      : ProjectedHeads(scope, args, groups(config, args), config) {}
};

}  // namespace

void register_heads_gqa(Registry& registry) {
  registry.add<Heads, Gqa, GqaConfig>("gqa", {.spec = "mixer.gqa",
                                              .summary = "groups of query heads share keys and values",
                                              .source = "TH 4.9; Ainslie et al. 2023",
                                              .samples = {"{qk_norm: head, qk_norm_unit_offset: true}"}});
}

}  // namespace lithe
