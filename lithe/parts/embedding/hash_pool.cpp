// HashFormer-Pool [TH Eq 2.1, 2.13]: the bits of a word in groups of k name rows of one shared codebook B; e = sum_j
// B[c_j] * softmax_j(W), the softmax over the groups in each channel.
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct HashPoolConfig {
  int64_t bits = 128, group_size = 10;
  void fields(Fields& f) {
    f("bits", bits, "hash bits per token; equals the tokenizer's bits", between(1, 1 << 16));
    f("group_size", group_size, "bits k per group; k bits choose a row of a codebook of 2^k rows", between(1, 24));
  }
};

class HashPool final : public CodeEmbedding {
 public:
  HashPool(const Scope& scope, const HashPoolConfig& config, const Args& args)
      : CodeEmbedding(scope, args, code_width(config.bits), "hash_pool", cat("a special and ", config.bits, " bits"),
                      cat("{type: words, hash: md5, code: bits, bits: ", config.bits, "}")),
        config_(config),
        codebook_(scope.parameter("codebook", {int64_t(1) << config.group_size, Axis::hidden(args.hidden_size)},
                                  InitRole::matrix, {.init = &kInit})),
        weights_(scope.parameter("weights",
                                 {kernels::groups_of(config.bits, config.group_size), Axis::hidden(args.hidden_size)},
                                 InitRole::matrix, {.init = &kInit, .wide = true})) {}

 private:
  static inline const InitConfig kInit{.type = "truncated_normal"};
  Var hash(const Tensor& codes) const override {
    const Var shares = map_columns(kernels::ColumnMap::softmax, weights_->var(), wide_of(weights_->master.dtype()));
    return hash_pool(codes, codebook_->var(), shares, config_.bits, config_.group_size);
  }
  HashPoolConfig config_;
  Parameter *codebook_, *weights_;
};

}  // namespace

void register_embedding_hash_pool(Registry& registry) {
  registry.add<Embedding, HashPool, HashPoolConfig>(
      "hash_pool", {.spec = "emb.hash_pool",
                    .summary = "softmax-weighted codebook rows named by groups of hash bits (HashFormer-Pool)",
                    .source = "TH Eq 2.1, 2.13",
                    .token_width = code_width(HashPoolConfig().bits)});
}

}  // namespace lithe
