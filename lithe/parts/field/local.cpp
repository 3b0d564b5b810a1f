// Hard local attention: a token sees the last tokens only, itself included, as many in each head as the recipe says
// [TB 6.3.1(2)]; in encoders as many on both sides.
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

struct LocalConfig {
  std::vector<int64_t> window{128};
  void fields(Fields& f) {
    f("window", window,
      "tokens that a query sees, itself included (in encoders: also so many after it); one number, or one for each "
      "query head");
  }
};

class Local final : public Field {
 public:
  Local(const Scope&, const LocalConfig& config, const Args& args) {
    const auto heads = int64_t(config.window.size());
    check_usage(heads == 1 || heads == args.num_attention_heads, "local", "window has ", heads,
                " numbers; give one, or one for each of the ", args.num_attention_heads, " query heads");
    for (const int64_t window : config.window) {
      check_usage(window >= 1, "local", "window must be at least 1, got ", window);
      pattern_.heads.push_back({.causal = args.causal, .window = window});
      reach_ = std::max(reach_, window);
    }
    pattern_.mask = pattern_.heads[0];
    if (heads == 1) pattern_.heads.clear();
  }
  kernels::AttentionPattern pattern(const FieldInput&) const override { return pattern_; }
  bool one_mask() const override { return pattern_.heads.empty(); }
  int64_t reach() const override { return reach_; }

 private:
  kernels::AttentionPattern pattern_;
  int64_t reach_ = 0;
};

}  // namespace

void register_field_local(Registry& registry) {
  registry.add<Field, Local, LocalConfig>("local", {.spec = "attn.local_window",
                                                    .summary = "the last tokens only, as many as each head is given",
                                                    .source = "TB 6.3.1(2)",
                                                    .samples = {"{window: 3}"}});
}

}  // namespace lithe
