// What some of several fields show, in one softmax [TB 6.4.1]: BigBird is a span, global tokens and random ones.
#include "lithe/parts/common/field_list.h"

namespace lithe {
namespace {

struct UnionConfig {
  Node list = usual();
  void fields(Fields& f) { f.free("fields", list, "the fields, as a list: [{type: span, left: 31}, global]"); }
  static Node usual() { return Node::list({Node::scalar("span"), Node::scalar("global")}); }
};

// spec: infer.kv_evict | field | a span with global tokens: a cache of a window and sinks, of constant size | TH ch. 1;
// Xiao et al. 2024
class Union final : public FieldList {
 public:
  Union(const Scope& scope, const UnionConfig& config, const Args& args)
      : FieldList("union", scope, config.list, args) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const auto all = patterns(in);
    const int64_t heads = args().num_attention_heads;
    std::shared_ptr<const Visits> made;
    std::vector<std::shared_ptr<const Visits>> before;
    int64_t last = -1;
    return tiled_pattern(args().causal, heads, in, [&](int64_t b, int64_t head) {
      const int64_t queries = in.queries.length(b), keys = in.keys[size_t(b)].count;
      std::vector<std::shared_ptr<const Visits>> parts;
      for (const auto& pattern : all) parts.push_back(visits_of(pattern, heads, b, head, queries, keys));
      if (last == b && parts == before) return made;  // as of the head before
      last = b, before = parts;
      return made = union_of(parts, queries, keys);
    });
  }
};

}  // namespace

void register_field_union(Registry& registry) {
  registry.add<Field, Union, UnionConfig>(
      "union", {.spec = "sparse.hybrid_union",
                .summary = "pairs that at least one of several fields shows",
                .source = "TB 6.4.1",
                .cross = true,
                .samples = {"{fields: [{type: span, left: 1}, {type: global, tokens: 2}]}",
                            "{fields: [{type: dilated, window: 2}, {type: local, window: 2}]}",
                            "{fields: [tree, {type: global, tokens: 1}]}",
                            "{fields: [{type: tree, max_distance: 2}, {type: kmeans, clusters: 2}]}"}});
}

}  // namespace lithe
