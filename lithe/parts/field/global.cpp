// The first tokens are seen by all; a token sees them and itself [TB 6.4.1]. In encoders the first tokens see
// everything.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct GlobalConfig {
  int64_t tokens = 1;
  bool symmetric = true;
  void fields(Fields& f) {
    f("tokens", tokens, "number of first tokens that all tokens see", at_least(1));
    f("symmetric", symmetric, "encoders: the global tokens also see all tokens");
  }
};

class Global final : public PatternField {
 public:
  Global(const Scope&, const GlobalConfig& config, const Args& args) : PatternField(args), config_(config) {}

  int64_t reach() const override { return args().causal ? 1 : 0; }
  int64_t sinks() const override { return args().causal ? config_.tokens : 0; }

 protected:
  void see(int64_t position, int64_t tokens, int64_t, std::vector<KeyRange>& out) const override {
    const bool sees_all = !args().causal && config_.symmetric && position < config_.tokens;
    out.push_back({0, sees_all ? tokens : config_.tokens});
    out.push_back({position, position + 1});
  }

 private:
  GlobalConfig config_;
};

}  // namespace

void register_field_global(Registry& registry) {
  registry.add<Field, Global, GlobalConfig>("global",
                                            {.spec = "sparse.global",
                                             .summary = "global tokens: the first tokens, which all tokens see",
                                             .source = "TB 6.4.1",
                                             .cross = true,
                                             .samples = {"{tokens: 2}"}});
}

}  // namespace lithe
