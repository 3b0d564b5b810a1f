// One row for each composite symbol of a token and its tags, x/tag^1/.../tag^k [TB 6.2.1, Eq 6.50]. A composite that
// was not seen has the row of its token without tags, a token that was not seen that of token 0 without tags.
#include "lithe/parts/common/tag_columns.h"

namespace lithe {
namespace {

struct InputJointConfig : TagNames {
  std::vector<int64_t> composites;
  void fields(Fields& f) {
    TagNames::fields(f);
    f("composites", composites,
      "combinations that have rows: for each, the token id and the numbers of its tags, all in one list; empty: those "
      "of the training treebank");
  }
};

class InputJoint final : public Embedding {
 public:
  InputJoint(const Scope& scope, const InputJointConfig& config, const Args& args)
      : tags_("input_joint", config.list), dtype_(scope.context().compute) {
    const auto width = int64_t(tags_.names.size()) + 1;
    if (width == 1) {
      check_usage(config.composites.empty(), "input_joint",
                  "composites are of tokens and tags, and no tags are named; ", "leave them out");
      table_ = word_table("input_joint", scope, args);
      return;
    }
    check_usage(args.token_width <= 1, "embedding",
                "input_joint reads ids, one int a token, the tokenizer's tokens are ", args.token_width,
                " ints; set data.tokenizer to one with a vocabulary ({type: bpe})");
    check_usage(!config.composites.empty(), "input_joint",
                "the composites of tokens and tags are in the training "
                "treebank; train on it, or give them in embedding.composites");
    check_usage(int64_t(config.composites.size()) % width == 0, "input_joint", "composites has ",
                config.composites.size(), " numbers, not ", width, " for each: a token and ", width - 1, " tags");
    for (auto at = config.composites.begin(); at != config.composites.end(); at += width) {
      std::vector<int32_t> one(at, at + width);
      for (size_t i = 0; i < one.size(); ++i)
        check_usage(one[i] >= 0 && one[i] < (i ? tags_.counts[i - 1] + 1 : args.vocab_size), "input_joint",
                    "composites has ", one[i], " where ", i ? tags_.names[i - 1] : "the token", " must be below ",
                    i ? tags_.counts[i - 1] + 1 : args.vocab_size);
      check_usage(rows_.emplace(one, int32_t(rows_.size())).second, "input_joint", "composites has a symbol twice, of ",
                  "token ", one[0], "; leave one out");
    }
    check_usage(rows_.count(unknown(0)), "input_joint",
                "composites needs token 0 without tags, which stands for all that is unknown");
    table_ = scope.parameter("weight", {int64_t(rows_.size()), Axis::hidden(args.hidden_size)}, InitRole::embedding);
  }
  std::vector<std::string> reads_columns() const override { return tags_.names; }
  Var forward(const Tensor& ids, const Pass& pass) const override {
    if (rows_.empty()) return embed(table_->var(), ids, dtype_);
    std::vector<Tensor> tags;
    for (size_t i = 0; i < tags_.names.size(); ++i) tags.push_back(tags_.rows(i, ids, pass));
    const Tensor rows = empty({ids.dim(0)}, DType::i32, ids.device());
    for (int64_t n = 0; n < rows.numel() && !rows.is_meta(); ++n) {
      std::vector<int32_t> one{ids.data<int32_t>()[n]};
      for (const Tensor& tag : tags) one.push_back(tag.data<int32_t>()[n] + 1);
      rows.data<int32_t>()[n] = row_of(one);
    }
    return embed(table_->var(), rows, dtype_);
  }
  // A head could only predict words with their tags.
  Parameter* table() const override { return rows_.empty() ? table_ : nullptr; }

 private:
  TagColumns tags_;
  DType dtype_;
  Parameter* table_ = nullptr;
  std::map<std::vector<int32_t>, int32_t> rows_;

  std::vector<int32_t> unknown(int32_t token) const {
    std::vector<int32_t> out(tags_.names.size() + 1, 0);
    out[0] = token;
    return out;
  }
  int32_t row_of(const std::vector<int32_t>& symbol) const {
    auto found = rows_.find(symbol);
    if (found == rows_.end()) found = rows_.find(unknown(symbol[0]));
    return found == rows_.end() ? rows_.at(unknown(0)) : found->second;
  }
};

}  // namespace

void register_embedding_input_joint(Registry& registry) {
  registry.add<Embedding, InputJoint, InputJointConfig>(
      "input_joint",
      {.spec = "syn.input_joint",
       .summary = "a learned row for each combination of a token and its tags",
       .source = "TB 6.2.1, Eq 6.50",
       .samples = {
           "{tags: {upos: 3}, composites: [0, 0, 1, 0, 1, 1, 2, 0, 2, 2, 3, 0, 3, 1, 3, 2, 4, 1, 6, 0, 6, 2]}"}});
}

}  // namespace lithe
