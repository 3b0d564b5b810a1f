// Reversible residuals: y1 = x1 + F(norm(x2)), y2 = x2 + G(norm(y1)). The backward pass finds x1 and x2 again from y1
// and y2, so that no layer keeps its activations [TB 6.4.4; Gomez et al. 2017, Kitaev et al. 2020].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct Config {
  std::string streams = "duplicate";
  void fields(Fields& f) {
    f("streams", streams,
      "duplicate: both streams start as the embedded rows, and their mean leaves the stack; split: each has half of "
      "the "
      "channels, and sub-layers half of hidden_size",
      one_of({"duplicate", "split"}));
  }
};

class Reversible final : public Residual {
 public:
  Reversible(const Scope&, const Config& config, const Args& args)
      : streams_(config.streams == "split" ? Streams::split : Streams::duplicate),
        norm_(args.norm),
        dropout_(args.dropout) {}
  Streams streams() const override { return streams_; }
  Var forward(const Var& x, const SubLayer& f) const override { return (*dropout_)(f(input(x))); }
  Var input(const Var& x) const override { return norm_->forward(x); }
  bool final_norm() const override { return true; }

 private:
  Streams streams_;
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_reversible(Registry& registry) {
  registry.add<Residual, Reversible, Config>(
      "reversible", {.spec = "share.reversible",
                     .summary = "two streams, each adding F(norm(.)) of the other; activations do not grow with depth",
                     .source = "TB 6.4.4"});
}

}  // namespace lithe
