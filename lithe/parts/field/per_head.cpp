// Each head has its own of several fields [TB 6.4.1, Fig 6.13h].
#include "lithe/parts/common/field_list.h"

namespace lithe {
namespace {

struct PerHeadConfig {
  Node list = usual();
  std::vector<int64_t> heads;
  void fields(Fields& f) {
    f.free("fields", list, "the fields: [{type: span, left: 31}, full]");
    f("heads", heads,
      "for each query head, the number of its field in `fields`, from 0; empty: the heads take the fields in turn");
  }
  static Node usual() { return Node::list({Node::scalar("span"), Node::scalar("full")}); }
};

class PerHead final : public FieldList {
 public:
  PerHead(const Scope& scope, const PerHeadConfig& config, const Args& args)
      : FieldList("per_head", scope, config.list, args), field_of_(config.heads) {
    scope.couples({Dimension::key_heads, Dimension::queries});  // fields by place
    if (field_of_.empty())
      for (int64_t head = 0; head < args.num_attention_heads; ++head) field_of_.push_back(head % int64_t(count()));
    check_usage(int64_t(field_of_.size()) == args.num_attention_heads, "per_head", "heads has ", field_of_.size(),
                " numbers; give one for each of the ", args.num_attention_heads, " query heads, or none");
    for (const int64_t field : field_of_)
      check_usage(field >= 0 && field < int64_t(count()), "per_head", "there is no field ", field, "; the ", count(),
                  " fields count from 0");
  }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const auto all = patterns(in);
    bool tiled = false;
    kernels::AttentionPattern out;
    for (const int64_t field : field_of_) {
      const kernels::AttentionPattern& of = all[size_t(field)];
      tiled = tiled || of.tiles;
      out.heads.push_back(of.of(int64_t(out.heads.size())));
    }
    out.mask = out.heads[0];
    if (!tiled) return out;
    const int64_t heads = args().num_attention_heads;
    out.tiles = tiled_pattern(args().causal, heads, in, [&](int64_t b, int64_t head) {
                  const auto& tiles = all[size_t(field_of_[size_t(head)])].tiles;
                  return tiles ? tiles->visits[size_t(b * heads + head)] : nullptr;
                }).tiles;
    return out;
  }

 private:
  std::vector<int64_t> field_of_;
};

}  // namespace

void register_field_per_head(Registry& registry) {
  registry.add<Field, PerHead, PerHeadConfig>(
      "per_head", {.spec = "sparse.hybrid_heads",
                   .summary = "each head has its own field",
                   .source = "TB 6.4.1, Fig 6.13h",
                   .cross = true,
                   .samples = {"{fields: [{type: span, left: 1}, {type: chunk, size: 4}, {type: local, window: 2}]}",
                               "{fields: [tree, {type: tree, tree: constituency, max_distance: 5}]}"}});
}

}  // namespace lithe
