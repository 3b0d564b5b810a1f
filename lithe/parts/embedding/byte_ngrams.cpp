// Hash n-gram embeddings of bytes [BLT: Pagnoni et al. 2024, 2412.09871]: e_i = (x_i + sum over the group sizes n of
// E_n[hash(b_{i-n+1} .. b_i)]) / (sizes + 1), hash the polynomial of a prime, modulo the table's rows.
#include "lithe/nn/recalling_embedding.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"
#include "lithe/ops/ngram_memory.h"
#include "lithe/parts/common/token_history.h"

namespace lithe {
namespace {

struct ByteNgramsConfig {
  std::vector<int64_t> group_sizes = {3, 4, 5, 6, 7, 8};
  int64_t num_buckets = 4000, num_hash_functions = 1;
  bool normalise = true;
  void fields(Fields& f) {
    f("group_sizes", group_sizes, "n-gram sizes in bytes; each size has its own tables");
    f("num_buckets", num_buckets, "rows per table (hash buckets)", between(1, 1 << 26));
    f("num_hash_functions", num_hash_functions, "hash functions per n-gram size, each with its own table",
      between(1, double(rolling_hash_functions())));
    f("normalise", normalise,
      "divide the sum by the number of its rows, as in the paper; the paper's released code does not");
  }
};

class ByteNgrams final : public RecallingEmbedding {
 public:
  ByteNgrams(const Scope& scope, const ByteNgramsConfig& config, const Args& args)
      : config_(config),
        dtype_(scope.context().compute),
        table_(scope.parameter("weight", {Axis::vocabulary(args.vocab_size), Axis::hidden(args.hidden_size)},
                               InitRole::embedding)) {
    check_usage(args.token_width <= 1, "embedding",
                "byte_ngrams reads ids, one int a token, the tokenizer's tokens are ", args.token_width,
                " ints; set data.tokenizer to one with a vocabulary ({type: bytes})");
    check_usage(!config.group_sizes.empty(), "embedding",
                "byte_ngrams: group_sizes is empty, which is model.embedding lookup; give at least one size");
    for (const int64_t size : config.group_sizes) {
      check_usage(size >= 2 && size <= 64, "embedding", "byte_ngrams: group_sizes has ", size,
                  "; n-grams have 2 to 64 bytes");
      before_ = std::max(before_, size - 1);
    }
    const int64_t tables = int64_t(config.group_sizes.size()) * config.num_hash_functions;
    for (int64_t i = 0; i < tables; ++i)
      buckets_.push_back(
          (scope / "ngram" / std::to_string(i))
              .parameter("weight", {config.num_buckets, Axis::hidden(args.hidden_size)}, InitRole::embedding));
  }

  Var read(const Tensor& ids, const Sequences& sequences, State* state) const override {
    const Tensor recent = state ? static_cast<TokenHistory*>(state)->follow(ids, sequences)
                                : TokenHistory::whole(ids, sequences, before_);
    Var rows = embed(table_->var(), ids, dtype_);
    auto table = buckets_.begin();
    for (const int64_t size : config_.group_sizes)
      for (int64_t f = 0; f < config_.num_hash_functions; ++f, ++table)
        rows = add_rows(rows, (*table)->var(), rolling_hash_ids(recent, size, f, config_.num_buckets));
    return config_.normalise ? scale(rows, 1 / double(buckets_.size() + 1)) : rows;
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<TokenHistory>("byte_ngrams", shape, before_);
  }
  // The ids of the longest n-gram but one.
  int64_t state_bytes(int64_t sequences) const override { return TokenHistory::bytes_of(sequences, before_); }
  Parameter* table() const override { return table_; }

 private:
  ByteNgramsConfig config_;
  DType dtype_;
  Parameter* table_;
  std::vector<Parameter*> buckets_;  // by size, then hash
  int64_t before_ = 0;               // tokens before each that are read
};

}  // namespace

void register_embedding_byte_ngrams(Registry& registry) {
  registry.add<Embedding, ByteNgrams, ByteNgramsConfig>(
      "byte_ngrams", {.summary = "byte embeddings plus embeddings of hashed byte n-grams that end at the byte (BLT)",
                      .source = "Pagnoni et al. 2024 (BLT)",
                      .samples = {"{group_sizes: [2, 3], num_buckets: 7, num_hash_functions: 2}",
                                  "{group_sizes: [4], num_buckets: 11, normalise: false}"}});
}

}  // namespace lithe
