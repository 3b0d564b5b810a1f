// Hashed characters as in CANINE (Clark et al. 2022, arXiv:2103.06874) [TH 2.4.1, Eq 2.10]: K hash functions of the
// code point, each with a table of its own of hidden_size / K columns, side by side.
#include "lithe/ops/basic.h"
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct CanineHashConfig {
  int64_t num_hash_functions = 8, num_buckets = 16000;
  void fields(Fields& f) {
    f("num_hash_functions", num_hash_functions, "hash functions K; K must divide hidden_size",
      between(1, code_point_hashes()));
    f("num_buckets", num_buckets, "rows per table (hash buckets)", between(1, 1 << 26));
  }
};

class CanineHash final : public CodeEmbedding {
 public:
  CanineHash(const Scope& scope, const CanineHashConfig& config, const Args& args)
      : CodeEmbedding(scope, args, 2, "canine_hash", "a special and a code point", "{type: characters}"),
        config_(config),
        hidden_size_(args.hidden_size) {
    const int64_t count = config.num_hash_functions;
    check_usage(args.hidden_size % count == 0, "embedding", "canine_hash: hidden_size ", args.hidden_size,
                " must be a multiple of num_hash_functions ", count, "; change one of them");
    tables_ = scope.parameter("weight", {count * config.num_buckets, Axis::hidden(args.hidden_size / count)},
                              InitRole::embedding);
    scope.couples({Dimension::hidden});  // which table a channel is of
  }

 private:
  Var hash(const Tensor& codes) const override {
    const Tensor ids = code_point_ids(codes, config_.num_hash_functions, config_.num_buckets);
    return reshape(embed(tables_->var(), ids, dtype(), 1, -1, MissingIds::no_row), {codes.rows(), hidden_size_});
  }
  CanineHashConfig config_;
  int64_t hidden_size_;
  Parameter* tables_;  // one under the other
};

}  // namespace

void register_embedding_canine_hash(Registry& registry) {
  registry.add<Embedding, CanineHash, CanineHashConfig>(
      "canine_hash", {.spec = "baseline.canine_hash",
                      .summary = "rows of several hash tables of the code point (CANINE)",
                      .source = "TH 2.4.1, Eq 2.10",
                      .token_width = 2,
                      .payload_below = 0x110000});
}

}  // namespace lithe
