// Fourier mixing: the real part of the transform over tokens and channels, in place of attention [TH Table 3.5; FNet].
#include "lithe/nn/registry.h"
#include "lithe/ops/fourier.h"

namespace lithe {
namespace {

class FNet final : public Mixer {
 public:
  FNet(const Scope& scope, const NoOptions&, const Args&) { scope.couples({Dimension::hidden}); }
  Var forward(const SubLayerInput& in) const override {
    check(!in.state, "fnet", "mixes all tokens of a sequence and cannot decode token by token");
    return fourier(in.x, in.sequences);
  }
  std::unique_ptr<State> make_state(const StateShape&) const override {
    fail("fnet", "mixes all tokens of a sequence and has no decode state");
  }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
};

}  // namespace

void register_mixer_fnet(Registry& registry) {
  registry.add<Mixer, FNet, NoOptions>("fnet", {.spec = "mixer.fnet",
                                                .summary = "Fourier transform over tokens and channels, real part",
                                                .source = "TH Table 3.5",
                                                .causal = false});
}

}  // namespace lithe
