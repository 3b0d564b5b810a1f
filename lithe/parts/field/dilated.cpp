// A window with gaps: every (gap + 1)-th of the tokens before a query, in encoders also of those after it [TB
// Fig 6.13e].
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct DilatedConfig {
  int64_t window = 64, gap = 1;
  void fields(Fields& f) {
    f("window", window, "tokens that a query sees, itself included; in encoders also window - 1 tokens after it",
      at_least(1));
    f("gap", gap, "tokens left out between two visible tokens", at_least(0));
  }
};

class Dilated final : public PatternField {
 public:
  Dilated(const Scope&, const DilatedConfig& config, const Args& args) : PatternField(args), config_(config) {}
  int64_t reach() const override { return args().causal ? (config_.window - 1) * (config_.gap + 1) + 1 : 0; }

 protected:
  void see(int64_t position, int64_t tokens, int64_t, std::vector<KeyRange>& out) const override {
    const int64_t step = config_.gap + 1, before = std::min(config_.window - 1, position / step),
                  after = args().causal ? 0 : std::min(config_.window - 1, (tokens - 1 - position) / step);
    for (int64_t r = -after; r <= before; ++r) {
      const int64_t j = position - r * step;
      out.push_back({j, j + 1});
    }
  }

 private:
  DilatedConfig config_;
};

}  // namespace

void register_field_dilated(Registry& registry) {
  registry.add<Field, Dilated, DilatedConfig>("dilated", {.spec = "sparse.dilated",
                                                          .summary = "a dilated window: tokens at regular gaps",
                                                          .source = "TB Fig 6.13e",
                                                          .cross = true,
                                                          .samples = {"{window: 3}"}});
}

}  // namespace lithe
