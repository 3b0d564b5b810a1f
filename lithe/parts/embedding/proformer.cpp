// Projected bits as in ProFormer (Sankar et al. 2021, arXiv:2004.05801) [TH 2.4.1, Eq 2.11]: e = b R, linear in the
// bits b of a locality-sensitive hash.
#include "lithe/ops/linear.h"
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct ProformerConfig {
  int64_t bits = 420;
  void fields(Fields& f) { f("bits", bits, "hash bits per token; equals the tokenizer's bits", between(1, 1 << 16)); }
};

class ProFormer final : public CodeEmbedding {
 public:
  ProFormer(const Scope& scope, const ProformerConfig& config, const Args& args)
      : CodeEmbedding(scope, args, code_width(config.bits), "proformer", cat("a special and ", config.bits, " bits"),
                      cat("{type: words, hash: lsh, code: bits, bits: ", config.bits, "}")),
        bits_(config.bits),
        weight_(scope.parameter("weight", {config.bits, Axis::hidden(args.hidden_size)}, InitRole::matrix)) {}

 private:
  Var hash(const Tensor& codes) const override {
    return linear(token_bits(codes, bits_, kernels::BitForm::plain, dtype()), weight_->var());
  }
  int64_t bits_;
  Parameter* weight_;
};

}  // namespace

void register_embedding_proformer(Registry& registry) {
  registry.add<Embedding, ProFormer, ProformerConfig>("proformer",
                                                      {.spec = "baseline.proformer",
                                                       .summary = "linear map of many hash bits (ProFormer)",
                                                       .source = "TH 2.4.1, Eq 2.11",
                                                       .token_width = code_width(ProformerConfig().bits)});
}

}  // namespace lithe
