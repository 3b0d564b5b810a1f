// HashFormer-Emb [TH 2.3.1, Eq 2.12]: e = E[i], i the bucket that the tokenizer hashes a word to. Words that collide
// share their row.
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct HashTableConfig {
  int64_t num_buckets = 50000;
  void fields(Fields& f) {
    f("num_buckets", num_buckets, "rows of the table; equals the tokenizer's num_buckets", between(1, 1 << 30));
  }
};

class HashTable final : public CodeEmbedding {
 public:
  HashTable(const Scope& scope, const HashTableConfig& config, const Args& args)
      : CodeEmbedding(scope, args, 2, "hash_table", "a special and a bucket",
                      cat("{type: words, hash: md5, code: bucket, num_buckets: ", config.num_buckets, "}")),
        table_(scope.parameter("weight", {config.num_buckets, Axis::hidden(args.hidden_size)}, InitRole::embedding)) {}

 private:
  Var hash(const Tensor& codes) const override {
    const Tensor ids = payload_ids("hash_table", codes, table_->master.dim(0), "bucket");
    return embed(table_->var(), ids, dtype(), 1, -1, MissingIds::no_row);
  }
  Parameter* table_;
};

}  // namespace

void register_embedding_hash_table(Registry& registry) {
  registry.add<Embedding, HashTable, HashTableConfig>("hash_table",
                                                      {.spec = "emb.hash_table",
                                                       .summary = "one learned row per hash bucket (HashFormer-Emb)",
                                                       .source = "TH 2.3.1, Eq 2.12",
                                                       .token_width = 2,
                                                       .payload_below = HashTableConfig().num_buckets});
}

}  // namespace lithe
