// Sinusoidal absolute positions [TB 6.1.2, Eq 6.13-6.16]:
//   PE(i, 2k) = sin(i / base^(2k/d)),  PE(i, 2k+1) = cos(i / base^(2k/d)),  added to the rows.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct SinusoidalConfig {
  double base = 10000;
  int64_t offset = 1;
  std::string layout = "interleaved";
  void fields(Fields& f) {
    f("base", base, "wavelengths run from 2 pi to 2 pi base", at_least(1));
    f("offset", offset, "position of the first token: 1 in the textbook, 0 in most libraries", at_least(0));
    f("layout", layout, "interleaved sin, cos, sin, … or all sines, then all cosines",
      one_of({"interleaved", "concatenated"}));
  }
};

class Sinusoidal final : public Position {
 public:
  Sinusoidal(const Scope& scope, const SinusoidalConfig& config, const Args& args)
      : limit_(args.max_position_embeddings) {
    scope.couples({Dimension::hidden});  // angles by place
    const MemoryScope memory(MemoryClass::weights);
    const int64_t d = args.hidden_size;
    const DType dtype = wide_of(scope.context().dtype);
    table_ = empty({limit_, d}, dtype, scope.context().device);
    if (table_.is_meta()) return;
    const int64_t sines = (d + 1) / 2;
    for (int64_t p = 0; p < limit_; ++p)
      for (int64_t c = 0; c < d; ++c) {
        const bool interleaved = config.layout == "interleaved";
        const int64_t k = interleaved ? c / 2 : c % sines;
        const bool sine = interleaved ? c % 2 == 0 : c < sines;
        const double angle = double(p + config.offset) / std::pow(config.base, 2.0 * double(k) / double(d));
        set_value(table_, p * d + c, sine ? std::sin(angle) : std::cos(angle));
      }
  }
  Var add_to(const Var& x, const Sequences& sequences) const override {
    return add_rows(x, table_, sequences.positions());
  }
  bool adds() const override { return true; }
  int64_t limit() const override { return limit_; }

 private:
  int64_t limit_;
  Tensor table_;
};

}  // namespace

void register_position_sinusoidal(Registry& registry) {
  registry.add<Position, Sinusoidal, SinusoidalConfig>(
      "sinusoidal",
      {.spec = "pos.sinusoidal", .summary = "fixed sines and cosines added to the rows", .source = "TB Eq 6.13-6.16"});
}

}  // namespace lithe
