// The sum of a token's row and of those of its tags [TB Eq 6.51]: e = x_j + sum_r E_r[tag_j^r], no tag adds nothing.
#include "lithe/parts/common/tag_columns.h"

namespace lithe {
namespace {

class TagSum final : public Embedding {
 public:
  TagSum(const Scope& scope, const TagNames& config, const Args& args)
      : tags_("tag_sum", config.list), table_(word_table("tag_sum", scope, args)), dtype_(scope.context().compute) {
    for (size_t i = 0; i < tags_.names.size(); ++i)
      tables_.push_back(
          (scope / "tags" / tags_.names[i])
              .parameter("weight", {tags_.counts[i], Axis::hidden(args.hidden_size)}, InitRole::embedding));
  }
  std::vector<std::string> reads_columns() const override { return tags_.names; }
  Var forward(const Tensor& ids, const Pass& pass) const override {
    Var rows = embed(table_->var(), ids, dtype_);
    for (size_t i = 0; i < tables_.size(); ++i)
      rows = add_rows(rows, tables_[i]->var(), tags_.rows(i, ids, pass), MissingIds::no_row);
    return rows;
  }
  Parameter* table() const override { return table_; }

 private:
  TagColumns tags_;
  Parameter* table_;
  std::vector<Parameter*> tables_;
  DType dtype_;
};

}  // namespace

void register_embedding_tag_sum(Registry& registry) {
  registry.add<Embedding, TagSum, TagNames>("tag_sum", {.spec = "syn.tag_sum",
                                                        .summary = "the row of a token plus a row for each of its tags",
                                                        .source = "TB Eq 6.51",
                                                        .samples = {"{tags: {upos: 3, deprel: [det, nsubj]}}"}});
}

}  // namespace lithe
