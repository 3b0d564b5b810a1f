// Attention whose queries and keys come from one fixed sequence of tokens [TH Eq 4.11-4.12].
#include "lithe/parts/common/reference_attention.h"

namespace lithe {
namespace {

struct FixedSeqQkConfig : ReferenceAttentionConfig {
  std::vector<int64_t> reference_ids;
  void fields(Fields& f) {
    ReferenceAttentionConfig::fields(f);
    f("reference_ids", reference_ids,
      "token ids of the fixed sequence; empty: training takes the first tokens of its corpus, else they are random "
      "(seed)");
  }
};

class FixedSeqQk final : public ReferenceAttention {
 public:
  FixedSeqQk(const Scope& scope, const FixedSeqQkConfig& config, const Args& args)
      : ReferenceAttention(scope, config, args, {.ids = config.reference_ids, .seed = config.seed, .text = true}) {}
};

}  // namespace

void register_mixer_fixed_seq_qk(Registry& registry) {
  registry.add<Mixer, FixedSeqQk, FixedSeqQkConfig>(
      "fixed_seq_qk", {.spec = "decon.fixedseqqk",
                       .summary = "attention maps computed from a fixed token sequence, which runs through the layers "
                                  "beside the text and is the same for all texts",
                       .source = "TH Eq 4.11-4.12"});
}

}  // namespace lithe
