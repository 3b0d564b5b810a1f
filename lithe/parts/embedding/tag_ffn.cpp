// A token's row and those of its tags through a feed-forward layer [TB Eq 6.52]: of u = [x_j; E_1[tag^1]; ...] one
// layer u W + b, or two, ReLU(u W_1 + b_1) W_2 + b_2. W stands in blocks, one for the token and one for each tag.
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/tag_columns.h"

namespace lithe {
namespace {

struct TagFfnConfig : TagNames {
  int64_t layers = 1, intermediate_size = 0, tag_size = 0;
  void fields(Fields& f) {
    TagNames::fields(f);
    f("layers", layers, "number of linear maps: 1, or 2 with ReLU between them", between(1, 2));
    f("intermediate_size", intermediate_size, "layers 2: hidden width; 0: hidden_size", at_least(0));
    f("tag_size", tag_size, "channels of a tag's row; 0: hidden_size", at_least(0));
  }
};

class TagFfn final : public Embedding {
 public:
  TagFfn(const Scope& scope, const TagFfnConfig& config, const Args& args)
      : tags_("tag_ffn", config.list),
        table_(word_table("tag_ffn", scope, args)),
        two_(config.layers == 2),
        dtype_(scope.context().compute) {
    check_usage(two_ || config.intermediate_size == 0, "tag_ffn", "intermediate_size ", config.intermediate_size,
                " is of two layers; set layers: 2, or leave it out");
    check_usage(config.tag_size == 0 || !tags_.names.empty(), "tag_ffn", "tag_size ", config.tag_size,
                " is of tags, and there are none; leave it out, or name tags");
    const Axis d = Axis::hidden(args.hidden_size),
               out = two_ && config.intermediate_size ? Axis(config.intermediate_size) : d,
               tag = config.tag_size ? Axis(config.tag_size) : d;
    word_ = Linear(scope / "word", d, out, true);
    for (size_t i = 0; i < tags_.names.size(); ++i) {
      const Scope of = scope / "tags" / tags_.names[i];
      tables_.push_back(of.parameter("weight", {tags_.counts[i], tag}, InitRole::embedding));
      maps_.emplace_back(of / "map", tag, out, false);
    }
    if (two_) out_ = Linear(scope / "out", out, d, true);
  }
  std::vector<std::string> reads_columns() const override { return tags_.names; }
  Var forward(const Tensor& ids, const Pass& pass) const override {
    Var h = word_(embed(table_->var(), ids, dtype_));
    for (size_t i = 0; i < tables_.size(); ++i)
      h = add(h, maps_[i](embed(tables_[i]->var(), tags_.rows(i, ids, pass), dtype_, 1, -1, MissingIds::no_row)));
    return two_ ? out_(activate(kernels::Activation::relu, h)) : h;
  }
  Parameter* table() const override { return table_; }

 private:
  TagColumns tags_;
  Parameter* table_;
  bool two_;
  DType dtype_;
  Linear word_, out_;
  std::vector<Parameter*> tables_;
  std::vector<Linear> maps_;
};

}  // namespace

void register_embedding_tag_ffn(Registry& registry) {
  registry.add<Embedding, TagFfn, TagFfnConfig>(
      "tag_ffn", {.spec = "syn.tag_ffn",
                  .summary = "the row of a token and the rows of its tags, concatenated, then one or two linear maps",
                  .source = "TB Eq 6.52",
                  .samples = {"{tags: {upos: 3, deprel: [det, nsubj]}}",
                              "{tags: {upos: 3}, layers: 2, intermediate_size: 7, tag_size: 3}"}});
}

}  // namespace lithe
