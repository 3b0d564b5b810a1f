// HashFormer-Add [TH Eq 2.2, 2.14]: e = sum_j B^j[tau_j] / sqrt(T), a learned row for each value of each of T bits: the
// bits, one-hot, times the rows.
#include <cmath>

#include "lithe/ops/linear.h"
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct HashAddConfig {
  int64_t bits = 128;
  void fields(Fields& f) { f("bits", bits, "hash bits per token; equals the tokenizer's bits", between(1, 1 << 16)); }
};

class HashAdd final : public CodeEmbedding {
 public:
  HashAdd(const Scope& scope, const HashAddConfig& config, const Args& args)
      : CodeEmbedding(scope, args, code_width(config.bits), "hash_add", cat("a special and ", config.bits, " bits"),
                      cat("{type: words, hash: md5, code: bits, bits: ", config.bits, "}")),
        bits_(config.bits),
        rows_(scope.parameter("weight", {2 * config.bits, Axis::hidden(args.hidden_size)}, InitRole::embedding)) {}

 private:
  Var hash(const Tensor& codes) const override {
    return linear(token_bits(codes, bits_, kernels::BitForm::one_hot, dtype(), 1 / std::sqrt(double(bits_))),
                  rows_->var());
  }
  int64_t bits_;
  Parameter* rows_;  // B^1[0] to B^T[0], then B^1[1] to B^T[1]
};

}  // namespace

void register_embedding_hash_add(Registry& registry) {
  registry.add<Embedding, HashAdd, HashAddConfig>("hash_add",
                                                  {.spec = "emb.hash_add",
                                                   .summary = "sum of one row per hash bit (HashFormer-Add)",
                                                   .source = "TH Eq 2.2, 2.14",
                                                   .token_width = code_width(HashAddConfig().bits)});
}

}  // namespace lithe
