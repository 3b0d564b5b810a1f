// Each row before the last compressor reads the rows that there are now, by attention, and adds what it finds
// [TB 6.4.8; Jaegle et al. 2022]: for compressors none of whose rows stands for a token, as latents.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/rows_attention.h"

namespace lithe {
namespace {

struct AttendConfig {
  int64_t num_attention_heads = 1;
  void fields(Fields& f) {
    f("num_attention_heads", num_attention_heads, "attention heads of this cross-attention",
      at_least(1).of({Dimension::key_heads, Dimension::queries}));
  }
};

class AttendExpander final : public Expander {
 public:
  AttendExpander(const Scope& scope, const AttendConfig& config, const Args& args)
      : attention_(scope, "attend", config.num_attention_heads, args.hidden_size) {}
  Var forward(const Rows& x, const Shortening& from, const Pass&) const override {
    return add(from.before.x, attention_.forward(attention_.queries(from.before.x), from.before.sequences, x));
  }

 private:
  RowsAttention attention_;
};

}  // namespace

void register_expander_attend(Registry& registry) {
  registry.add<Expander, AttendExpander, AttendConfig>(
      "attend", {.summary = "gives every token a row again: its row before the compressor plus attention from it to "
                            "the shorter sequence",
                 .source = "TB 6.4.8; Jaegle et al. 2022",
                 .causal = false});
}

}  // namespace lithe
