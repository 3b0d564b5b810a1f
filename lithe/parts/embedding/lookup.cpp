// Token embedding: one learned row a vocabulary entry [TB 6.1.1]; with type_vocab_size also one of the
// token's segment (BERT).
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct LookupConfig {
  std::string scale = "one";
  int64_t padding_idx = -1, type_vocab_size = 0;
  void fields(Fields& f) {
    f("scale", scale, "factor on the rows: one (1), or sqrt_hidden: sqrt(hidden_size), as Vaswani et al. 2017",
      one_of({"one", "sqrt_hidden"}));
    f("padding_idx", padding_idx, "token id whose row is always zero; -1: none", at_least(-1));
    f("type_vocab_size", type_vocab_size,
      "number of segments (token types), each with a learned vector that is added to its tokens, by the column "
      "token_type_ids of a batch (else segment 0); 0: none",
      between(0, 1 << 16));
  }
};

class Lookup final : public Embedding {
 public:
  Lookup(const Scope& scope, const LookupConfig& config, const Args& args)
      : table_(scope.parameter("weight", {Axis::vocabulary(args.vocab_size), Axis::hidden(args.hidden_size)},
                               InitRole::embedding)),
        factor_(config.scale == "one" ? 1 : std::sqrt(double(args.hidden_size))),
        padding_(config.padding_idx),
        dtype_(scope.context().compute),
        types_(config.type_vocab_size
                   ? (scope / "token_type")
                         .parameter("weight", {config.type_vocab_size, Axis::hidden(args.hidden_size)},
                                    InitRole::embedding)
                   : nullptr) {
    check_usage(args.token_width <= 1, "embedding", "lookup reads ids, one int a token, the tokenizer's tokens are ",
                args.token_width,
                " ints; set data.tokenizer to one with a vocabulary ({type: bpe}), or model.embedding ",
                "to a hash embedding");
    check_usage(padding_ < args.vocab_size, "embedding", "padding_idx ", padding_, " must be below vocab_size ",
                args.vocab_size);
    if (config.scale != "one") scope.couples({Dimension::hidden});
    if (padding_ < 0) return;
    table_->zero_row = padding_;
    if (!table_->master.packed()) table_->clear_row(padding_);  // else its rows come from a file, this one among them
  }
  Var forward(const Tensor& ids, const Pass& pass) const override {
    const Var rows = embed(table_->var(), ids, dtype_, factor_, padding_);
    if (!types_) return rows;
    // RoBERTa and its kin have one row, and pairs that are not told apart by it.
    const Tensor* given = types_->master.rows() > 1 ? pass.given("token_type_ids") : nullptr;
    return add_rows(rows, types_->var(), given ? *given : zeros({ids.dim(0)}, DType::i32, ids.device()));
  }
  Parameter* table() const override { return table_; }

 private:
  Parameter* table_;
  double factor_;
  int64_t padding_;
  DType dtype_;
  Parameter* types_;
};

}  // namespace

void register_embedding_lookup(Registry& registry) {
  registry.add<Embedding, Lookup, LookupConfig>("lookup", {.spec = "embed.token",
                                                           .summary = "one learned row per vocabulary entry",
                                                           .source = "TB 6.1.1",
                                                           .standard = true,
                                                           .samples = {"{type_vocab_size: 2}"}});
}

}  // namespace lithe
