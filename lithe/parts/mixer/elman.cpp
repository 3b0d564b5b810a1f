// The recurrent layer of Elman: h = tanh(x W + h' U + b) [TB 6.4.5(2)].
#include "lithe/parts/common/recurrent_layer.h"

namespace lithe {
namespace {

class Elman final : public RecurrentLayer {
 public:
  Elman(const Scope& scope, const RecurrentConfig& config, const Args& args)
      : RecurrentLayer("elman", kernels::RecurrentCell::elman, scope, config, args) {}
};

}  // namespace

void register_mixer_elman(Registry& registry) {
  registry.add<Mixer, Elman, RecurrentConfig>("elman", {.spec = "rnn.elman",
                                                        .summary = "a simple recurrent layer with tanh",
                                                        .source = "TB 6.4.5(2); Elman 1990",
                                                        .samples = {"{two_biases: false, output: dense}"}});
}

}  // namespace lithe
