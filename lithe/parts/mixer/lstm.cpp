// Long short-term memory: a cell that gates let in, keep and give out [TB 6.4.5(2); Hochreiter and Schmidhuber 1997].
// The forget gate's bias starts as 1.
#include "lithe/parts/common/recurrent_layer.h"

namespace lithe {
namespace {

class Lstm final : public RecurrentLayer {
 public:
  Lstm(const Scope& scope, const RecurrentConfig& config, const Args& args)
      : RecurrentLayer("lstm", kernels::RecurrentCell::lstm, scope, config, args) {}
};

}  // namespace

void register_mixer_lstm(Registry& registry) {
  registry.add<Mixer, Lstm, RecurrentConfig>("lstm", {.spec = "rnn.lstm",
                                                      .summary = "a recurrent layer with a gated cell",
                                                      .source = "TB 6.4.5(2); Hochreiter and Schmidhuber 1997",
                                                      .samples = {"{two_biases: false, output: dense}"}});
}

}  // namespace lithe
