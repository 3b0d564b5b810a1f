// Gated recurrent units: an update gate between old and new, a reset gate on the recurrent product [TB 6.4.5(2); Cho et
// al. 2014].
#include "lithe/parts/common/recurrent_layer.h"

namespace lithe {
namespace {

class Gru final : public RecurrentLayer {
 public:
  Gru(const Scope& scope, const RecurrentConfig& config, const Args& args)
      : RecurrentLayer("gru", kernels::RecurrentCell::gru, scope, config, args) {}
};

}  // namespace

void register_mixer_gru(Registry& registry) {
  registry.add<Mixer, Gru, RecurrentConfig>("gru", {.spec = "rnn.gru",
                                                    .summary = "a recurrent layer with update and reset gates",
                                                    .source = "TB 6.4.5(2); Cho et al. 2014",
                                                    .samples = {"{two_biases: false, output: dense}"}});
}

}  // namespace lithe
