// Rows of tokens as sums of the rows of their codes [hash embeddings: Svenstrup et al. 2017, without importance
// weights]: e = sum over k of B_k[c_k(id)], so that no table has a row for each entry of the vocabulary. With head
// hash_codes of the same tables, codes and seed a token has the same codes where it is read and where it is predicted.
#include "lithe/nn/registry.h"
#include "lithe/ops/candidate_scores.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct HashSumConfig {
  int64_t num_tables = 4, num_codes = 256, seed = 0;
  void fields(Fields& f) {
    f("num_tables", num_tables, "number of tables; a token has one code, and so one row, in each", between(1, 64));
    f("num_codes", num_codes, "rows per table", between(2, 1 << 20));
    f("seed", seed, "seed of the hashes that give tokens their codes", at_least(0));
  }
};

class HashSum final : public Embedding {
 public:
  HashSum(const Scope& scope, const HashSumConfig& config, const Args& args)
      : config_(config), dtype_(scope.context().compute) {
    check_usage(args.token_width <= 1, "embedding", "hash_sum reads ids, one int a token, the tokenizer's tokens are ",
                args.token_width, " ints; set data.tokenizer to one with a vocabulary ({type: bpe})");
    codes_ = hashed_codes(args.vocab_size, config.num_tables, config.num_codes, config.seed, scope.context().device);
    table_ = scope.parameter("weight", {config.num_tables * config.num_codes, Axis::hidden(args.hidden_size)},
                             InitRole::embedding);
  }
  Var forward(const Tensor& ids, const Pass&) const override {
    Var rows;
    for (int64_t k = 0; k < config_.num_tables; ++k) {
      const Tensor of = empty({ids.numel()}, DType::i32, ids.device());
      for (int64_t n = 0; n < of.numel() && !of.is_meta(); ++n) {
        const int32_t id = ids.data<int32_t>()[n];
        check(id >= 0 && id < codes_.rows(), "embed", "id ", id, " at row ", n, " is outside the vocabulary of ",
              codes_.rows());
        of.data<int32_t>()[n] = int32_t(k * config_.num_codes) + codes_.data<int32_t>()[id * config_.num_tables + k];
      }
      rows = k ? add_rows(rows, table_->var(), of) : embed(table_->var(), of, dtype_);
    }
    return rows;
  }

 private:
  HashSumConfig config_;
  DType dtype_;
  Tensor codes_;  // i32 [vocabulary, num_tables]
  Parameter* table_;
};

}  // namespace

void register_embedding_hash_sum(Registry& registry) {
  registry.add<Embedding, HashSum, HashSumConfig>(
      "hash_sum", {.summary = "sums of rows from several hash tables; no token has a row of its own",
                   .source = "Svenstrup et al. 2017",
                   .samples = {"{num_tables: 2, num_codes: 6, seed: 3}"}});
}

}  // namespace lithe
