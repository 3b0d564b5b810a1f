// Embeddings of n-grams beside those of tokens [Joulin et al. 2017, fastText]: e_n = E[t_n] + sum over the orders o = 2
// to max_order of B[hash(t_{n-o+1} .. t_n)], hashed to buckets. For two texts also a row for n-grams that both have
// [exact match, Chen et al. 2017]. With no layers and a mean over the rows the classes are linear in the n-grams.
#include "lithe/ops/ngram.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct NgramConfig {
  int64_t max_order = 2, num_buckets = 20000, type_vocab_size = 0;
  bool exact_match = false;
  void fields(Fields& f) {
    f("max_order", max_order, "longest n-gram in tokens; 1: only single tokens", between(1, 8));
    f("num_buckets", num_buckets, "rows (hash buckets) for n-grams of two and more tokens", between(1, 1 << 26));
    f("type_vocab_size", type_vocab_size,
      "number of segments (token types), each with a learned vector that is added to its tokens, by the column "
      "token_type_ids of a batch (else segment 0); 0: none",
      between(0, 1 << 16));
    f("exact_match", exact_match,
      "add a learned vector, one per n-gram length and segment, to tokens that end an n-gram which another segment of "
      "the sequence also has; needs type_vocab_size of 2 or more");
  }
};

class Ngram final : public Embedding {
 public:
  Ngram(const Scope& scope, const NgramConfig& config, const Args& args)
      : config_(config),
        dtype_(scope.context().compute),
        table_(scope.parameter("weight", {Axis::vocabulary(args.vocab_size), Axis::hidden(args.hidden_size)},
                               InitRole::embedding)) {
    check_usage(args.token_width <= 1, "embedding", "ngram reads ids, one int a token, the tokenizer's tokens are ",
                args.token_width, " ints; set data.tokenizer to one with a vocabulary ({type: wordpiece})");
    check_usage(!config.exact_match || config.type_vocab_size >= 2, "embedding",
                "ngram: exact_match compares the segments of a pair, type_vocab_size is ", config.type_vocab_size,
                "; set it to 2");
    const auto rows = [&](const char* name, int64_t count) {
      return (scope / name).parameter("weight", {count, Axis::hidden(args.hidden_size)}, InitRole::embedding);
    };
    if (config.max_order > 1) buckets_ = rows("ngram", config.num_buckets);
    if (config.type_vocab_size) types_ = rows("token_type", config.type_vocab_size);
    if (config.exact_match) matches_ = rows("exact_match", config.max_order * config.type_vocab_size);
  }

  Var forward(const Tensor& ids, const Pass& pass) const override {
    Var rows = embed(table_->var(), ids, dtype_);
    const Tensor *positions = pass.given("positions"), *segments = pass.given("token_type_ids");
    const NgramTokens tokens{ids, positions ? *positions : Tensor(), segments ? *segments : Tensor()};
    for (int64_t order = 2; order <= config_.max_order; ++order)
      rows = add_rows(rows, buckets_->var(), ngram_ids(tokens, order, config_.num_buckets), MissingIds::no_row);
    if (types_)
      rows = add_rows(rows, types_->var(), segments ? *segments : zeros({ids.dim(0)}, DType::i32, ids.device()));
    for (int64_t order = 1; matches_ && order <= config_.max_order; ++order) {
      const Tensor of = shared_ngrams(tokens, order);
      for (int64_t n = 0; n < of.numel() && !of.is_meta(); ++n)
        if (int32_t& row = of.data<int32_t>()[n]; row >= 0) row += int32_t((order - 1) * config_.type_vocab_size);
      rows = add_rows(rows, matches_->var(), of, MissingIds::no_row);
    }
    return rows;
  }
  Parameter* table() const override { return table_; }

 private:
  NgramConfig config_;
  DType dtype_;
  Parameter *table_, *buckets_ = nullptr, *types_ = nullptr, *matches_ = nullptr;
};

}  // namespace

void register_embedding_ngram(Registry& registry) {
  registry.add<Embedding, Ngram, NgramConfig>(
      "ngram", {.summary = "rows of tokens, of hashed n-grams, and of n-grams that both texts of a pair have",
                .source = "Joulin et al. 2017; Chen et al. 2017",
                .causal = false,
                .samples = {"{max_order: 3, num_buckets: 11, type_vocab_size: 2, exact_match: true}"}});
}

}  // namespace lithe
