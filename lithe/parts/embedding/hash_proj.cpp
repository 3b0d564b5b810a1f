// HashFormer-Proj [TH Eq 2.3, 2.15; E39]: e_j is the Pearson correlation of a word's T hash bits and w^j in R^T; norms
// are at least 1e-8, so constant bits give zeros.
#include <cmath>

#include "lithe/ops/linear.h"
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct HashProjConfig {
  int64_t bits = 128;
  void fields(Fields& f) { f("bits", bits, "hash bits per token; equals the tokenizer's bits", between(1, 1 << 16)); }
};

// U(-1/sqrt(T), 1/sqrt(T)), as the released code has it, in terms of Xavier's bound.
InitConfig init(int64_t bits, int64_t hidden_size) {
  return {.type = "xavier_uniform", .gain = std::sqrt(double(bits + hidden_size) / (6 * double(bits)))};
}

class HashProj final : public CodeEmbedding {
 public:
  HashProj(const Scope& scope, const HashProjConfig& config, const Args& args)
      : CodeEmbedding(scope, args, code_width(config.bits), "hash_proj", cat("a special and ", config.bits, " bits"),
                      cat("{type: words, hash: md5, code: bits, bits: ", config.bits, "}")),
        bits_(config.bits) {
    const InitConfig uniform = init(config.bits, args.hidden_size);
    weight_ = scope.parameter("weight", {config.bits, Axis::hidden(args.hidden_size)}, InitRole::matrix,
                              {.init = &uniform, .wide = true});
  }

 private:
  Var hash(const Tensor& codes) const override {
    return linear(token_bits(codes, bits_, kernels::BitForm::standardized, dtype()),
                  map_columns(kernels::ColumnMap::standardize, weight_->var(), dtype()));
  }
  int64_t bits_;
  Parameter* weight_;  // column j is w^j
};

}  // namespace

void register_embedding_hash_proj(Registry& registry) {
  registry.add<Embedding, HashProj, HashProjConfig>(
      "hash_proj", {.spec = "emb.hash_proj",
                    .summary = "correlation of the hash bits with learned vectors (HashFormer-Proj)",
                    .source = "TH Eq 2.3, 2.15",
                    .token_width = code_width(HashProjConfig().bits)});
}

}  // namespace lithe
