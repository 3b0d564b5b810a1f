// Overlapping windows that move in strides, or every so-many-th token [TB 6.4.1, Fig 6.13d]. With stride s and window w
// the queries of block t, s of them, see from (t+1)s - w on: s = w gives chunks, s = 1 a span.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct StridedConfig {
  std::string form = "window";
  int64_t window = 128, stride = 32;
  void fields(Fields& f) {
    f("form", form, "window: overlapping windows; every: tokens whose distance from the query is a multiple of stride",
      one_of({"window", "every"}));
    f("window", window, "form window: window size in tokens, at least stride", at_least(1));
    f("stride", stride, "form window: tokens by which the window moves; form every: distance between visible tokens",
      at_least(1));
  }
};

class Strided final : public PatternField {
 public:
  Strided(const Scope&, const StridedConfig& config, const Args& args) : PatternField(args), config_(config) {
    check_usage(every() || config.stride <= config.window, "strided", "stride ", config.stride,
                " must be at most the window of ", config.window, " tokens: tokens between windows would see nothing");
  }
  int64_t reach() const override { return args().causal && !every() ? config_.window : 0; }
  int64_t first_seen(int64_t tokens) const override {
    return std::max<int64_t>(0, (tokens / config_.stride + 1) * config_.stride - config_.window);
  }

 protected:
  void see(int64_t position, int64_t tokens, int64_t, std::vector<KeyRange>& out) const override {
    const int64_t s = config_.stride, end = (position / s + 1) * s;
    if (!every()) return out.push_back({end - config_.window, end});
    for (int64_t j = position % s; j < tokens && (!args().causal || j <= position); j += s) out.push_back({j, j + 1});
  }

 private:
  StridedConfig config_;
  bool every() const { return config_.form == "every"; }
};

}  // namespace

void register_field_strided(Registry& registry) {
  registry.add<Field, Strided, StridedConfig>(
      "strided", {.spec = "sparse.strided",
                  .summary = "overlapping windows that move in strides, or every n-th token",
                  .source = "TB 6.4.1, Fig 6.13d",
                  .cross = true,
                  .samples = {"{window: 5, stride: 3}", "{form: every, stride: 3}"}});
}

}  // namespace lithe
