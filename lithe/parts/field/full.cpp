// The full field: every pair may meet; a causal model sees the past and itself [TB Eq 6.45-6.47].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Full final : public Field {
 public:
  Full(const Scope&, const NoOptions&, const Args& args) : causal_(args.causal) {}
  kernels::AttentionPattern pattern(const FieldInput&) const override {
    return {.mask = {.causal = causal_}, .heads = {}, .tiles = nullptr};
  }
  bool one_mask() const override { return true; }

 private:
  bool causal_;
};

}  // namespace

void register_field_full(Registry& registry) {
  registry.add<Field, Full, NoOptions>("full", {.spec = "mask.causal",
                                                .summary = "every pair; the past only in causal models",
                                                .source = "TB Eq 6.45-6.47",
                                                .cross = true});
}

}  // namespace lithe
